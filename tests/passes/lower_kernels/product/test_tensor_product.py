"""Products on matrix units: every tiling, layout, way of copying and edge, against the interpreter.

Where there is no matrix unit, the same kernels run with sub-groups that exchange registers. Small
integers make sums exact, so that results are compared bit by bit; random floats are held to
the bound of a sum of n terms, for products of rounded operands are exact.
"""

import itertools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.scf import ForOp
from xdsl.dialects.vector import StoreOp
from xdsl.ir import BlockArgument, SSAValue

from mgn.codegen.opencl.opencl import signature
from mgn.dialects.kernel import (
    DEVICES,
    CopyChunkOp,
    Device,
    GroupMmaOp,
    LoadMatrixOp,
    MmaOp,
    SubGroupShuffleOp,
)
from mgn.dialects.kernel.lanes import lanes
from mgn.dialects.types import ELEMENT_TYPES, element_of
from mgn.passes.lower_kernels.product import sub_group_product, tensor_groups
from tests.passes.lower_kernels.product.test_halved_products import check_gated, gated
from tests.support.lower_fixture import (
    CPU,
    Run,
    check_all,
    expected,
    fused_kernel,
    lowered,
    run,
    same_rounded,
    same_values,
    scheduled,
)
from tests.support.matrix_unit_fixture import device  # noqa: F401
from tests.support.opencl_fixture import cl_queue  # noqa: F401

TYPES: dict[str, Any] = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "tf32": np.float32}
LAYOUTS = list(itertools.product((False, True), repeat=2))
TILINGS: list[dict[str, int]] = [
    {"tile_down": 8, "tile_across": 1, "item_columns": 128, "groups": 1},
    {"tile_down": 4, "tile_across": 1, "item_columns": 64, "groups": 1},
    {"tile_down": 2, "tile_across": 2, "item_rows": 64, "item_columns": 64, "chunks": 4},
    {"tile_down": 2, "tile_across": 2, "item_rows": 32, "item_columns": 32, "groups": 0},
    {"tile_across": 2, "item_rows": 32, "item_columns": 32, "slices": 2, "chunks": 8},
    {"tile_across": 1, "item_rows": 16, "item_columns": 32, "slices": 4, "chunks": 16},
    {"tile_down": 12, "tile_across": 1, "item_columns": 192, "groups": 1},
]
GROUPS = {"item_rows": 16, "chunks": 8, "stages": 3, "slices": 1}
SIZES = [(64, 64, 64), (66, 84, 102), (34, 132, 24), (6, 10, 14), (130, 66, 2), (32, 32, 264)]
ODD_SIZES = [(64, 64, 64), (67, 84, 101), (34, 132, 24), (5, 6, 7), (130, 129, 2), (32, 32, 264)]
"""Without groups, numbers of 16 bits come in pairs at least."""

GROUP_SIZES = [(64, 64, 64), (66, 129, 64), (67, 84, 101), (5, 6, 7), (129, 66, 128), (32, 32, 264)]
"""Both operands copied, one, and none."""


Prologue = Callable[[Any, SSAValue], SSAValue]


def rounding(name: str) -> Prologue:
    """How an f32 operand is rounded."""
    if name == "tf32":
        return lambda e, x: e.round_tf32(x)
    return lambda e, x: e.cast(e.cast(x, ELEMENT_TYPES[name]), ELEMENT_TYPES["f32"])


def in_memory(name: str) -> str:
    """The element type of an operand that lies in memory as the unit takes it."""
    return "f32" if name == "tf32" else name


def product_of(
    name: str, sizes: tuple[int, int, int], turned: tuple[bool, bool], computed: bool
) -> Any:
    """A product of operands that are copied as they lie, or computed on the way."""
    rows, columns, depth = sizes
    a = (depth, rows) if turned[0] else (rows, depth)
    b = (columns, depth) if turned[1] else (depth, columns)
    element = "f32" if computed else in_memory(name)

    def operand(e: Any, x: SSAValue) -> SSAValue:
        if computed:
            return rounding(name)(e, e.neg(x))
        return e.round_tf32(x) if name == "tf32" else e.cast(x, ELEMENT_TYPES["f32"])

    return fused_kernel(
        "contraction",
        [(element, a), (element, b)],
        lambda e, x, y: e.matmul(
            operand(e, x), operand(e, y), transpose_a=turned[0], transpose_b=turned[1]
        ),
    )


def integers(shape: tuple[int, ...], seed: int, dtype: Any) -> np.ndarray:
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


def arrays_of(kernel: Any, make: Callable[..., np.ndarray]) -> list[np.ndarray]:
    return [
        make(value.type.get_shape(), seed, element_of(value.type).dtype)
        for seed, value in enumerate(kernel.inputs)
    ]


def exact_run(kernel: Any, unit: Device, what: object, **schedule: Any) -> Run:
    """A run on integers, whose sums are exact."""
    return Run(kernel, arrays_of(kernel, integers), unit, schedule, str(what))


@pytest.mark.parametrize("tiling", TILINGS, ids=lambda t: "x".join(map(str, t.values())))
@pytest.mark.parametrize("name", TYPES)
def test_every_tiling_and_layout_computes_the_same(
    name: str,
    tiling: dict[str, int],
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
) -> None:
    device = device.with_figures(max_work_group_size=512)
    first = TILINGS.index(tiling) + list(TYPES).index(name)
    cases = ODD_SIZES if name == "tf32" else SIZES
    cases = GROUP_SIZES if tiling.get("groups") else cases
    runs: list[Run] = []
    for number, sizes in list(enumerate(cases))[first % 3 :: 3]:
        turned = LAYOUTS[number % 4]
        kernel = product_of(name, sizes, turned, computed=number % 3 == 1)
        entries = GROUPS | tiling if tiling.get("groups") else {"groups": 0} | tiling
        runs.append(exact_run(kernel, device, (sizes, turned), matrix=name, **entries))
    check_all(cl_queue, runs, same_values)


def test_numbers_that_were_rounded_before_are_copied_as_they_lie(
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
) -> None:
    runs: list[Run] = []
    for sizes in ((66, 129, 64), (64, 64, 36)):
        kernel = product_of("tf32", sizes, (False, True), computed=False)
        runs.append(exact_run(kernel, device, sizes, rounded=1, **GROUPS | TILINGS[1]))
    check_all(cl_queue, runs, same_values)


def filtered(name: str, channels: int, stride: int, dilation: int) -> Any:
    """The places of two images whose channels are last, times filters."""
    element, size = in_memory(name), 7

    def build(e: Any, x: SSAValue, w: SSAValue) -> SSAValue:
        x, w = (
            e.round_tf32(v) if name == "tf32" else e.cast(v, ELEMENT_TYPES["f32"]) for v in (x, w)
        )
        x = e.pad(x, [[0, 0], [1, 2], [0, 1], [0, 0]], 0.0)
        found = e.windows(e.transpose(x, (0, 3, 1, 2)), (3, 2), stride, dilation)
        shape = found.type.get_shape()
        rows = e.reshape(
            e.transpose(found, (0, 2, 3, 4, 5, 1)), (2 * shape[2] * shape[3], 6 * channels)
        )
        return e.relu(e.matmul(rows, w, transpose_b=True))

    shapes = [(element, (2, size, size, channels)), (element, (36, 6 * channels))]
    return fused_kernel("contraction", shapes, build)


@pytest.mark.parametrize("name", ["bf16", "tf32"])
def test_windows_of_images_with_channels_last_are_rows(
    name: str,
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
) -> None:
    """In padding, at strides, with chunks of channels that cross from one element to the next."""
    whole, ragged = filtered(name, 16, 1, 1), filtered(name, 20, 2, 2)
    runs = [
        exact_run(whole, device, "whole chunks", matrix=name, **GROUPS | TILINGS[1]),
        exact_run(ragged, device, "ragged", matrix=name, **{"groups": 0} | TILINGS[5]),
    ]
    check_all(cl_queue, runs, same_values)


@pytest.mark.parametrize("turned", LAYOUTS)
@pytest.mark.parametrize("name", TYPES)
def test_every_layout_is_copied_or_computed(
    name: str,
    turned: tuple[bool, bool],
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
) -> None:
    tiling = {"tile_down": 2, "item_rows": 16, "item_columns": 32, "chunks": 8}
    whole, ragged = (48, 72, 80), (38, 44, 42)
    first = (LAYOUTS.index(turned) + list(TYPES).index(name)) % 2 == 0
    runs = [
        exact_run(product_of(name, sizes, turned, computed), device, (sizes, computed), **tiling)
        for sizes, computed in ((whole, first), (ragged, not first))
    ]
    check_all(cl_queue, runs, same_values)


@pytest.mark.parametrize("name", TYPES)
def test_sums_are_those_of_rounded_operands(
    name: str,
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
) -> None:
    depth = 514
    kernel = product_of(name, (34, 46, depth), (False, False), computed=True)

    def normal(shape: tuple[int, ...], seed: int, dtype: Any) -> np.ndarray:
        return np.random.default_rng(seed).standard_normal(shape).astype(dtype)

    arrays = arrays_of(kernel, normal)
    (got,) = run(cl_queue, kernel, arrays, device, **TILINGS[3])
    a, b = (rounded(array, name) for array in arrays)
    # A matrix unit cuts off what does not fit f32, where an addition would round: 2**-23.
    bound = (depth + 1) * 2.0**-23 * (np.abs(a) @ np.abs(b))
    assert np.all(np.abs(got - a @ b) <= bound)


@pytest.mark.parametrize("name", ["bf16", "tf32"])
def test_sums_over_a_long_axis_begin_anew_in_blocks(
    name: str,
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (sub_group_product, tensor_groups):
        monkeypatch.setattr(module, "UNIT_BLOCK", 8)
        monkeypatch.setattr(module, "MOST_UNIT", 8)
    runs: list[Run] = []
    for depth, computed, entries in (
        (1040, False, {"groups": 0, "slices": 1} | TILINGS[3]),
        (1040, False, GROUPS | TILINGS[1]),
        (1042, True, GROUPS | TILINGS[1]),
    ):
        kernel = product_of(name, (34, 36, depth), (False, name == "tf32"), computed)
        loops = sum(isinstance(op, ForOp) for op in lowered(kernel, device, **entries).walk())
        runs.append(exact_run(kernel, device, (depth, loops), **entries))
        with monkeypatch.context() as short:
            for module in (sub_group_product, tensor_groups):
                short.setattr(module, "MOST_UNIT", 1 << 20)
            plain = lowered(kernel, device, **entries)
        assert loops > sum(isinstance(op, ForOp) for op in plain.walk())
    check_all(cl_queue, runs, same_values)


def rounded(array: np.ndarray, name: str) -> np.ndarray:
    """The nearest numbers that the unit multiplies, in f64."""
    if name != "tf32":
        return array.astype(TYPES[name]).astype(np.float64)
    mantissa, exponent = np.frexp(array.astype(np.float64))
    return np.ldexp(np.round(mantissa * 2**11), exponent - 11)


@pytest.mark.parametrize("name", TYPES)
def test_nan_and_infinity_stay_in_their_rows_and_columns(
    name: str,
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
) -> None:
    kernel = product_of(name, (20, 24, 19), (False, False), computed=False)
    a, b = arrays_of(kernel, integers)
    a[3, 18], a[7, 2], b[5, 23] = np.nan, np.inf, -np.inf
    (want,) = expected(kernel, [a, b])
    for entries in ({}, GROUPS | TILINGS[1]):
        (got,) = run(cl_queue, kernel, [a, b], device, **entries)
        np.testing.assert_array_equal(got.astype(np.float64), want)


def test_batches_epilogues_and_heads_of_attention(
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
) -> None:
    kernel = fused_kernel(
        "contraction",
        [("f32", (2, 40, 3, 16)), ("f32", (2, 3, 24, 16)), ("f32", (24,))],
        lambda e, x, y, bias: e.relu(
            e.add(
                e.matmul(
                    e.round_tf32(e.transpose(x, [0, 2, 1, 3])), e.round_tf32(y), transpose_b=True
                ),
                bias,
            )
        ),
    )
    assert scheduled(kernel, device)["matrix"] == "tf32"
    runs = [exact_run(kernel, device, "heads")]
    kernel = fused_kernel(
        "contraction",
        [("bf16", (3, 36, 40)), ("bf16", (40, 18))],
        lambda e, x, y: e.matmul(x, y),
    )
    assert scheduled(kernel, device)["matrix"] == "bf16"
    runs.append(exact_run(kernel, device, "bf16"))
    check_all(cl_queue, runs, same_values)


@pytest.mark.parametrize(
    "tiling", [*TILINGS[:2], TILINGS[3]], ids=lambda t: "x".join(map(str, t.values()))
)
def test_short_results_are_exchanged_for_longer_pieces(
    tiling: dict[str, int],
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
) -> None:
    entries = {"sub_group": 32, "slices": 1} | (GROUPS if tiling["groups"] else {}) | tiling
    runs: list[Run] = []
    wide = product_of("bf16", (70, 68, 64), (False, False), computed=False)
    for name, (rows, columns, depth) in (("bf16", (67, 136, 64)), ("f16", (130, 64, 40))):
        kernel = fused_kernel(
            "contraction",
            [(name, (rows, depth)), (name, (depth, columns)), (name, (columns,))],
            lambda e, x, y, bias: e.add(e.matmul(x, y), bias),
        )
        function = lowered(kernel, device, **entries)
        assert any(isinstance(op, SubGroupShuffleOp) for op in function.walk())
        runs.append(exact_run(kernel, device, name, **entries))
    runs.append(exact_run(wide, device, "f32", **entries))
    check_all(cl_queue, runs, same_rounded)


def dealt_product(element: str, result: str, sizes: tuple[int, int, int]) -> Any:
    """A product of columns that lie along the shared axis, with a bias, in a type of its own."""
    rows, columns, depth = sizes
    types = [(element, (rows, depth)), (element, (columns, depth)), ("f32", (columns,))]

    def build(e: Any, x: SSAValue, w: SSAValue, bias: SSAValue) -> SSAValue:
        wide = e.round_tf32 if element == "f32" else lambda v: e.cast(v, ELEMENT_TYPES["f32"])
        y = e.add(e.matmul(wide(x), wide(w), transpose_b=True), bias)
        return y if result == "f32" else e.cast(y, ELEMENT_TYPES[result])

    return fused_kernel("contraction", types, build)


DEALT = [
    ("bf16", "bf16", (67, 136, 64), 8),
    ("bf16", "f32", (67, 132, 64), 4),
    ("f16", "f16", (70, 76, 72), 4),
    ("f32", "f32", (66, 68, 36), 4),
    ("f32", "bf16", (66, 264, 33), 8),
    ("bf16", "f32", (5, 130, 64), 2),
]
"""Element types of operands and result, sizes, and how many results come side by side: the shared
axis is copied as it lies, or passes through registers.
"""


@pytest.mark.parametrize("columns", [64, 128, 144])
@pytest.mark.parametrize(("element", "result", "sizes", "width"), DEALT)
def test_columns_are_dealt_so_that_sums_of_neighbours_meet_without_exchanges(
    element: str,
    result: str,
    sizes: tuple[int, int, int],
    width: int,
    columns: int,
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
) -> None:
    entries = {"sub_group": 32, **GROUPS, **TILINGS[1], "item_columns": columns}
    kernel = dealt_product(element, result, sizes)
    function = lowered(kernel, device, **entries)
    stores = [op for op in function.walk() if isinstance(op, StoreOp)]
    width = width if columns % (4 * width) == 0 else width // 2
    assert width in [lanes(op.vector.type) for op in stores if isinstance(op.base, BlockArgument)]
    assert not any(isinstance(op, SubGroupShuffleOp) for op in function.walk())
    check_all(cl_queue, [exact_run(kernel, device, sizes, **entries)], same_rounded)


@pytest.mark.parametrize("name", ["bf16", "f16"])
def test_two_results_are_rounded_at_once_where_the_device_can(name: str) -> None:
    unit = DEVICES["nvidia-h200"]
    kernel = fused_kernel(
        "contraction", [(name, (2048, 64)), (name, (64, 2048))], lambda e, x, y: e.matmul(x, y)
    )
    text = signature(lowered(kernel, unit), unit).source
    assert f"cvt.rn.{name}x2.f32" in text and "(__global int4*)" in text
    other = unit.with_figures(matrix_rates={}, matrix_unit="none")
    assert "cvt.rn" not in signature(lowered(kernel, other), other).source


def test_only_rounded_operands_go_to_the_unit_and_only_where_there_is_one() -> None:
    unit = DEVICES["nvidia-h200"]
    rounded_product = product_of("tf32", (64, 64, 64), (False, False), computed=True)
    assert scheduled(rounded_product, unit)["matrix"] == "tf32"
    assert "matrix" not in scheduled(rounded_product, unit.with_figures(matrix_rates={}))
    assert "matrix" not in scheduled(rounded_product, CPU)
    types = [("f32", (64, 64)), ("f32", (64, 64))]
    plain = fused_kernel("contraction", types, lambda e, x, y: e.matmul(x, y))
    half = fused_kernel("contraction", types, lambda e, x, y: e.matmul(e.round_tf32(x), y))
    assert "matrix" not in scheduled(plain, unit)
    assert "matrix" not in scheduled(half, unit)


def test_operands_as_the_unit_takes_them_are_copied_past_the_registers() -> None:
    unit = DEVICES["nvidia-h200"]
    for name, computed in itertools.product(TYPES, (False, True)):
        function = lowered(product_of(name, (256, 256, 256), (False, True), computed), unit)
        operations = [type(op) for op in function.walk()]
        assert (CopyChunkOp in operations) == (not computed)
        assert MmaOp in operations and LoadMatrixOp in operations


def test_copied_operands_of_few_tiles_get_wider_ones() -> None:
    def items(name: str, size: int) -> int:
        kernel = product_of(name, (size,) * 3, (False, False), computed=False)
        return lowered(kernel, DEVICES["nvidia-h200"]).local_sizes[0]

    assert items("bf16", 3072) == 12 * 32
    assert items("bf16", 4096) == items("tf32", 3072) == 8 * 32


def test_tiles_fill_all_units_where_columns_lie_along_the_shared_axis() -> None:
    def columns(sizes: tuple[int, int, int], turned: bool) -> int:
        kernel = product_of("bf16", sizes, (False, turned), computed=False)
        return int(scheduled(kernel, DEVICES["nvidia-h200"])["item_columns"])

    for sizes, best in (((4096, 576, 1536), 144), ((512, 28672, 4096), 224)):
        assert columns(sizes, True) == best
        assert columns(sizes, False) % 64 == 0


def test_large_products_are_multiplied_by_groups_where_the_device_can() -> None:
    unit = DEVICES["nvidia-h200"]

    def operations(name: str, size: int, on: Device) -> set[Any]:
        function = lowered(product_of(name, (size,) * 3, (False, False), computed=False), on)
        return {type(op) for op in function.walk()}

    for name, size in itertools.product(TYPES, (4096, 4097)):
        found = operations(name, size, unit)
        assert GroupMmaOp in found
        assert (CopyChunkOp in found) == (name != "tf32" and size == 4096)
    assert GroupMmaOp not in operations("bf16", 4096, unit.with_figures(matrix_unit="mma"))


@pytest.mark.parametrize(
    "tiling", [{"groups": 0}, {**GROUPS, **TILINGS[1]}], ids=["alone", "groups"]
)
@pytest.mark.parametrize("name", ["bf16", "tf32"])
@pytest.mark.parametrize(
    ("rows", "columns", "depth"), [((40,), 72, 64), ((2, 9), 38, 24), ((67,), 136, 64)]
)
def test_halves_of_a_product_meet(
    name: str,
    rows: tuple[int, ...],
    columns: int,
    depth: int,
    tiling: dict[str, int],
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
) -> None:
    kernel = gated(rows, columns, depth, rounding(name))
    schedule = {"matrix": name, "matrix_unit": device.matrix_unit, **tiling}
    check_gated(cl_queue, kernel, device, **schedule)


def of_its_rows(name: str, sizes: tuple[int, int, int], before: bool) -> Any:
    """A product whose rows, before it or after it, are multiplied by a small sum of them."""
    rows, columns, depth = sizes

    def build(e: Any, x: SSAValue, y: SSAValue) -> SSAValue:
        total = e.sum(x, axis=-1, keepdims=True)
        r = e.min(e.max(total, -4.0), 4.0)
        if before:
            return e.matmul(rounding(name)(e, e.mul(x, r)), rounding(name)(e, y), transpose_b=True)
        product = e.matmul(rounding(name)(e, x), rounding(name)(e, y), transpose_b=True)
        return e.mul(product, r)

    return fused_kernel("contraction", [("f32", (rows, depth)), ("f32", (columns, depth))], build)


@pytest.mark.parametrize("before", [True, False])
def test_rows_are_reduced_for_a_unit(
    before: bool,
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
) -> None:
    cases = [
        ("bf16", (66, 84, 104), GROUPS | TILINGS[1]),
        ("tf32", (67, 84, 104), TILINGS[3]),
        ("tf32", (6, 10, 148), TILINGS[5]),
    ]
    runs = [
        exact_run(of_its_rows(name, sizes, before), device, (name, tiling), **tiling)
        for name, sizes, tiling in cases
    ]
    check_all(cl_queue, runs, same_values)
