"""Attention on matrix units against the interpreter, in all that attention can be asked for.

Where there is no matrix unit, the same kernels run with sub-groups that exchange registers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.ir import SSAValue

from mgn.dialects.fusion import FusedKernelOp
from mgn.dialects.kernel import (
    DEVICES,
    BarrierOp,
    CopyChunkOp,
    Device,
    GroupMmaHeldOp,
    MmaOp,
)
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.passes.lower_kernels.attention import blocks as attention_blocks
from mgn.passes.saturate.prices.matrix_price import ATTENDED_ROWS, COMPUTED_KEYS
from mgn.passes.schedules.attention.matrix import SHAPES, SHARED_SHAPES
from tests.passes.lower_kernels.attention.attention_reference import (
    Bounded,
    attention_arrays,
    between_two_weights,
    bounded_attention,
)
from tests.passes.lower_kernels.attention.test_attention_kernels import CASES, Shape
from tests.support.lower_fixture import (
    CPU,
    Run,
    fused_kernel,
    lowered,
    run,
    run_all,
    scheduled,
)
from tests.support.matrix_unit_fixture import device  # noqa: F401
from tests.support.opencl_fixture import cl_queue  # noqa: F401

NAMES = ("bf16", "f16", "tf32")
DTYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "tf32": np.float32}
ROUNDING = {"bf16": 2.0**-8, "f16": 2.0**-11, "tf32": 0.0}


def rows_of(shapes: list[Shape], how: dict[str, Any]) -> int:
    return shapes[0][-2] * how["heads"] // how.get("kv_heads", how["heads"])


FILLING = {
    name: case
    for name, case in CASES.items()
    if name != "large heads" and rows_of(*case) >= ATTENDED_ROWS
}
"""Cases with enough rows for the unit that a driver on the CPU compiles in time; a head of 130 has
more than a line, too.
"""

UNIT = 2.0**-23
"""A matrix unit cuts off what does not fit f32, where an addition would round."""

WEIGHING = {"bf16": 2.0**-16, "f16": 2.0**-20, "tf32": 2.0**-20}
"""A weight is taken as two numbers of 8 or 11 bits."""


def kernel_of(
    shapes: list[Shape], how: dict[str, Any], name: str, computed: bool = False
) -> FusedKernelOp:
    """Attention whose operands lie in memory as the unit takes them, or are computed on the way."""
    element = "f32" if computed or name == "tf32" else name

    def operand(b: Any, x: SSAValue) -> SSAValue:
        value = b.neg(x) if computed else x
        if name == "tf32":
            return b.round_tf32(value)
        return b.cast(b.cast(value, name), "f32") if computed else value

    return fused_kernel(
        "attention",
        [(element, shape) for shape in shapes],
        lambda b, *x: b.attention(*(operand(b, y) for y in x[:3]), *x[3:], **how),
    )


def rounded(array: np.ndarray, name: str) -> np.ndarray:
    """The nearest numbers that the unit multiplies."""
    if name != "tf32":
        return array.astype(DTYPES[name])
    mantissa, exponent = np.frexp(array.astype(np.float64))
    return np.ldexp(np.round(mantissa * 2**11), exponent - 11)


def wanted(
    arrays: list[np.ndarray], how: dict[str, Any], name: str, computed: bool = False
) -> Bounded:
    operands = [rounded(-array if computed else array, name) for array in arrays[:3]]
    rounding = 0.0 if computed else ROUNDING[name]
    figures = {"unit": UNIT, "rounding": rounding, "weighing": WEIGHING[name]}
    return bounded_attention(*operands, *arrays[3:], **how, **figures)


def operations_of(kernel: FusedKernelOp, unit: Device, **schedule: Any) -> set[Any]:
    return {type(op) for op in lowered(kernel, unit, **schedule).walk()}


@dataclass(frozen=True)
class Asked:
    """A kernel that is asked for, with arrays of its own: how, in which type, by which tiling."""

    shapes: list[Shape]
    how: dict[str, Any]
    name: str
    computed: bool = False
    tiling: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def kernel(self) -> FusedKernelOp:
        return kernel_of(self.shapes, self.how, self.name, self.computed)

    def run(self, unit: Device) -> Run:
        kernel = self.kernel
        assert self.computed or scheduled(kernel, unit)["matrix"] == self.name
        entries = {**self.tiling, "matrix": self.name, "matrix_unit": unit.matrix_unit}
        dtype = np.float32 if self.computed else DTYPES[self.name]
        return Run(kernel, attention_arrays(self.shapes, dtype, 0), unit, entries)

    def check(self, found: np.ndarray) -> None:
        dtype = np.float32 if self.computed else DTYPES[self.name]
        arrays = attention_arrays(self.shapes, dtype, 0)
        wanted(arrays, self.how, self.name, self.computed).check(found)


def check(queue: Any, unit: Device, *asked: Asked) -> None:
    """What comes of each, built as one program."""
    for item, (found,) in zip(asked, run_all(queue, [one.run(unit) for one in asked]), strict=True):
        item.check(found)


@pytest.mark.parametrize("case", FILLING.values(), ids=FILLING.keys())
def test_attention_computes_what_the_interpreter_does(
    case: tuple[list[Shape], dict[str, Any]],
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
) -> None:
    """With operands in memory in one type, and computed on the way in another."""
    number = list(FILLING.values()).index(case)
    ways = [(NAMES[(number + computed) % len(NAMES)], computed) for computed in (False, True)]
    check(cl_queue, device, *(Asked(*case, *way) for way in ways))


def _name_of(shape: Any) -> str:
    return "x".join(map(str, shape.numbers.values()))


@pytest.mark.parametrize("shape", SHAPES, ids=_name_of)
def test_every_tiling_computes_the_same(
    shape: Any,
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
) -> None:
    warps = shape.numbers["tile_down"]
    if warps * 32 > device.max_work_group_size:
        pytest.skip("more work-items than a group of the test's device has")
    tiling = {"tile_down": warps, "local_memory": 1 << 18}
    cases = ("shared keys", "a causal window", "another size of values")
    first = SHAPES.index(shape)
    of_each = ((cases[(first + number) % len(cases)], name) for number, name in enumerate(NAMES))
    check(cl_queue, device, *(Asked(*CASES[case], name, tiling=tiling) for case, name in of_each))


@pytest.mark.parametrize("shape", SHARED_SHAPES, ids=_name_of)
def test_sub_groups_that_share_rows_compute_the_same(
    shape: Any,
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
) -> None:
    fitting = [case for case in FILLING.values() if max(case[0][0][-1], case[0][2][-1]) <= 128]
    asked: list[Asked] = []
    for first, name in enumerate(NAMES, SHARED_SHAPES.index(shape)):
        keys = 128 if name == "tf32" else 256
        tiling = {**shape.numbers, "tile_keys": min(shape.numbers["tile_keys"], keys)}
        for number, case in list(enumerate(fitting))[first % 4 :: 4]:
            asked.append(Asked(*case, name, number % 2 == 1, tiling))
    for item in asked:
        entries = {"matrix": item.name, "matrix_unit": device.matrix_unit, **item.tiling}
        assert scheduled(item.kernel, device, **entries)["shares"] == shape.numbers["shares"]
    check(cl_queue, device, *asked)


GROUPED: list[tuple[list[Shape], dict[str, Any]]] = [
    ([(2, 70, 128), (2, 150, 64), (2, 150, 64)], {"heads": 2, "kv_heads": 1, "causal": True}),
    ([(40, 72), (130, 72), (130, 40)], {"heads": 1, "window": 70}),
    ([(80, 48), (24, 48), (24, 48)], {"heads": 1, "causal": True}),
]
"""A head that fills a line, one of two lines, and rows that see no key."""


@pytest.mark.parametrize("name", ["bf16", "f16"])
@pytest.mark.parametrize("warps", [4, 8, 12])
def test_groups_of_four_sub_groups_compute_the_same(
    warps: int,
    name: str,
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
) -> None:
    tiling = {"tile_down": warps, "groups": 1}
    device = device.with_figures(max_work_group_size=512)
    asked = [Asked(*case, name, tiling=tiling) for case in GROUPED]
    for item in asked:
        assert GroupMmaHeldOp in operations_of(item.kernel, device, **tiling)
    check(cl_queue, device, *asked)


@pytest.mark.parametrize("name", ["bf16", "f16"])
def test_groups_take_192_rows_where_queries_are_not_a_multiple_of_that(
    name: str,
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
) -> None:
    """Rows of three heads that share keys, 102 beyond a group; and of one head, 8 beyond."""
    tiling = {"tile_down": 12, "groups": 1}
    device = device.with_figures(max_work_group_size=512)
    cases: list[tuple[list[Shape], dict[str, Any]]] = [
        ([(2, 98, 192), (2, 150, 64), (2, 150, 64)], {"heads": 3, "kv_heads": 1, "causal": True}),
        ([(200, 128), (130, 128), (130, 128)], {"heads": 1, "window": 70}),
    ]
    for shapes, how in cases:
        function = lowered(kernel_of(shapes, how, name), device, **tiling)
        assert function.local_sizes[0] == 384
    asked = [
        Asked(shapes, {**how, "rounded_weights": rounded}, name, tiling=tiling)
        for shapes, how in cases
        for rounded in (True, False)
    ]
    check(cl_queue, device, *asked)


@pytest.mark.parametrize("groups", [0, 1])
def test_sums_begin_anew_in_blocks_of_keys(
    groups: int,
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attention_blocks, "BLOCK", 2)
    monkeypatch.setattr(attention_blocks, "MOST_TILES", 2)
    shapes = [(40, 64), (1030, 64), (1030, 64)]
    entries = {"tile_down": 4, "groups": 1} if groups else {}
    check(cl_queue, device, Asked(shapes, {"heads": 1}, "bf16", tiling=entries))


@pytest.mark.parametrize("name", NAMES)
def test_nan_and_infinity_pass_as_in_the_interpreter(
    name: str,
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
) -> None:
    shapes: list[Shape] = [(24, 16), (80, 16), (80, 16)]
    kernel = kernel_of(shapes, {"heads": 2}, name)
    q, k, v = arrays = attention_arrays(shapes, DTYPES[name], 3)
    q[1, 0], q[2, 1], q[3, 2] = np.nan, np.inf, -np.inf
    k[40, 5], v[7, 3], v[60, 6], v[61, 9] = np.inf, np.nan, np.inf, -np.inf
    (found,) = run(cl_queue, kernel, arrays, device)
    with np.errstate(all="ignore"):
        wanted(arrays, {"heads": 2}, name).check(found)


ROUNDING_TILINGS: dict[str, dict[str, Any]] = {
    "bf16": {"groups": 0},
    "f16": {"groups": 0},
    "tf32": {},
    "bf16 by groups": {"groups": 1, "tile_down": 4},
    "f16 by groups": {"groups": 1, "tile_down": 4},
}


@pytest.mark.parametrize("rounded", [True, False])
def test_weights_are_rounded_where_the_operation_says_so(
    rounded: bool,
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
) -> None:
    arrays, how, wanted = between_two_weights(rounded)
    negated = [-array for array in arrays]
    runs: list[Run] = []
    for case, tiling in ROUNDING_TILINGS.items():
        name = case.partition(" ")[0]
        kernel = kernel_of([array.shape for array in arrays], how, name, computed=True)
        schedule = {"matrix": name, "matrix_unit": device.matrix_unit, **tiling}
        runs.append(Run(kernel, negated, device, schedule, case))
    for item, (found,) in zip(runs, run_all(cl_queue, runs), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2.0**-12, err_msg=item.what)


@pytest.mark.parametrize("name", NAMES)
def test_rounded_weights_are_within_a_rounding_more(
    name: str,
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
) -> None:
    cases = [(*CASES[case], True, {}) for case in ("a causal window", "a bias", "shared keys")]
    if name != "tf32":
        cases.append((*GROUPED[0], False, {"groups": 1, "tile_down": 4}))
    asked = [
        Asked(shapes, {**how, "rounded_weights": True}, name, computed, tiling)
        for shapes, how, computed, tiling in cases
    ]
    check(cl_queue, device, *asked)


def test_a_unit_multiplies_rounded_weights_once() -> None:
    unit = DEVICES["nvidia-h200"]
    for tiling, product in (({"groups": 1}, GroupMmaHeldOp), ({"groups": 0}, MmaOp)):
        counts: list[int] = []
        for rounded in (False, True):
            how = {"heads": 1, "rounded_weights": rounded}
            function = lowered(kernel_of([(256, 128)] * 3, how, "bf16"), unit, **tiling)
            counts.append(sum(isinstance(op, product) for op in function.walk()))
        scores = 0 if tiling["groups"] else counts[0] // 3
        assert counts[0] - scores == 2 * (counts[1] - scores)


def test_weights_in_f16_keep_what_is_small(
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
) -> None:
    """One key has the score 0, others -10, the last -24, whose weight f16 has no number for."""
    shapes: list[Shape] = [(16, 16), (64, 16), (64, 16)]
    q, k, v = arrays = [np.zeros(shape, np.float32) for shape in shapes]
    q[:, 0], k[1:, 0], k[63, 0] = 4, -10, -24
    v[1:], v[63, 3], v[63, 4] = 1000, np.inf, -np.inf
    kernel = kernel_of(shapes, {"heads": 1}, "f16", computed=True)
    schedule = {"matrix": "f16", "matrix_unit": device.matrix_unit}
    (found,) = run(cl_queue, kernel, arrays, device, **schedule)
    with np.errstate(all="ignore"):
        wanted(arrays, {"heads": 1}, "f16", computed=True).check(found)


@pytest.mark.parametrize("name", NAMES)
def test_prologues_and_epilogues_are_part_of_the_kernel(
    name: str,
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
) -> None:
    shapes: list[Shape] = [(40, 32), (40, 16), (16, 40), (1, 40, 32)]

    def build(b: Any, q: Any, k: Any, v: Any, x: Any) -> Any:
        def operand(y: Any) -> Any:
            return b.round_tf32(y) if name == "tf32" else b.cast(b.cast(y, name), "f32")

        parts = (operand(q), operand(b.mul(k, 0.5)), operand(b.transpose(v, [1, 0])))
        mixed = b.attention(*parts, heads=4, kv_heads=2, causal=True)
        return b.mul(b.add(x, b.reshape(mixed, [1, 40, 32])), 0.5)

    kernel = fused_kernel("attention", [("f32", shape) for shape in shapes], build)
    arrays = attention_arrays(shapes, np.float32, 4)
    (found,) = run(cl_queue, kernel, arrays, device, matrix=name, matrix_unit=device.matrix_unit)
    (meaning,) = Interpreter().run_op(kernel, arrays)
    # Half of values up to 4 in magnitude whose weights are off by a share.
    bound = 2 * WEIGHING[name] + 64 * 40 * UNIT
    np.testing.assert_allclose(found, meaning, rtol=0, atol=bound)


def test_operands_as_the_unit_takes_them_are_copied_while_it_multiplies() -> None:
    unit = DEVICES["nvidia-h200"]
    alone = unit.with_figures(matrix_unit="mma")
    for target, product, barriers in ((unit, GroupMmaHeldOp, 1), (alone, MmaOp, 2)):
        function = lowered(kernel_of([(4, 2048, 128)] * 3, {"heads": 2}, "bf16"), target)
        operations = [type(op) for op in function.walk()]
        assert CopyChunkOp in operations and product in operations
        assert operations.count(BarrierOp) == barriers


@pytest.mark.parametrize("width", [3, 8, 16, 24])
def test_no_fragment_of_values_lies_past_a_line_of_local_memory(width: int) -> None:
    """In tf32 a line may be half of what two eights of columns take."""
    kernel = kernel_of([(40, 8), (70, 8), (70, width)], {"heads": 1, "causal": True}, "tf32")
    unit = DEVICES["nvidia-h200"]
    numbers = {"tile_keys": 32, "shares": 1}
    function = lowered(kernel, unit, matrix="tf32", matrix_unit=unit.matrix_unit, **numbers)
    scores, terms = 4, 2
    products = sum(isinstance(op, MmaOp) for op in function.walk())
    eights = {3: 1, 8: 1, 16: 2, 24: 4}[width]
    assert products == scores + scores * terms * eights


def test_groups_multiply_whole_lines_and_more_rows_where_heads_leave_room_for_few() -> None:
    unit = DEVICES["nvidia-h200"]

    def items(name: str, width: int, rounded: bool = False) -> int:
        how = {"heads": 8, "rounded_weights": rounded}
        kernel = kernel_of([(4, 2048, 8 * width)] * 3, how, name)
        function = lowered(kernel, unit)
        groups = any(isinstance(op, GroupMmaHeldOp) for op in function.walk())
        assert groups == (name != "tf32" and width > 32)
        return function.local_sizes[0]

    assert (items("bf16", 64), items("f16", 128), items("bf16", 128, True)) == (128, 384, 256)
    assert max(items("tf32", 64), items("bf16", 32)) <= 128


def test_only_rounded_operands_go_to_the_unit_and_only_where_there_is_one() -> None:
    unit = DEVICES["nvidia-h200"]
    shapes: list[Shape] = [(64, 64)] * 3
    kernel = kernel_of(shapes, {"heads": 1}, "bf16")
    assert scheduled(kernel, unit)["matrix"] == "bf16"
    assert "matrix" not in scheduled(kernel, unit.with_figures(matrix_rates={}))
    assert "matrix" not in scheduled(kernel, CPU)
    types = [("f32", shape) for shape in shapes]
    plain = fused_kernel("attention", types, lambda b, *x: b.attention(*x, heads=1))
    assert "matrix" not in scheduled(plain, unit)


def test_few_rows_and_many_computed_keys_do_without_the_unit() -> None:
    unit = DEVICES["nvidia-h200"]
    few = kernel_of([(4, 64), (64, 64), (64, 64)], {"heads": 1}, "bf16")
    assert "matrix" not in scheduled(few, unit)
    for keys, has_unit in ((COMPUTED_KEYS, True), (COMPUTED_KEYS + 8, False)):
        computed = kernel_of([(keys, 64)] * 3, {"heads": 1}, "tf32", computed=True)
        assert ("matrix" in scheduled(computed, unit)) == has_unit
    shared = kernel_of([(4, 128), (64, 64), (64, 64)], {"heads": 2, "kv_heads": 1}, "bf16")
    assert scheduled(shared, unit)["matrix"] == "bf16"
