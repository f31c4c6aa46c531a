"""Products of up to four rows on a GPU: along or across the right operand's memory.

The GPU form runs on the CPU's device; the reference is the interpreter, and integers are exact.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mgn.dialects.kernel import DEVICES, BarrierOp, Device, GroupMmaOp, MmaOp
from mgn.dialects.types import ELEMENT_TYPES
from tests.support.lower_fixture import FORMS, Run, check_all, fused_kernel, lowered, same_values
from tests.support.opencl_fixture import cl_queue, unoptimised  # noqa: F401


def heads(b: Any, x: Any) -> Any:
    """`[2, positions, 3 * 16]` as `[2, 3, positions, 16]`."""
    return b.transpose(b.reshape(x, [2, x.type.get_shape()[1], 3, 16]), [0, 2, 1, 3])


def cases(rows: int) -> dict[str, tuple[tuple[int, ...], tuple[int, ...], Callable[..., Any]]]:
    """Shapes of two operands, and their product."""
    return {
        "plain": ((rows, 70), (70, 130), lambda b, x, y: b.matmul(x, y)),
        "turned": ((rows, 70), (130, 70), lambda b, x, y: b.matmul(x, b.transpose(y, [1, 0]))),
        "turned twice": (
            (70, rows),
            (70, 64),
            lambda b, x, y: b.matmul(x, b.transpose(y, [1, 0]), transpose_a=True, transpose_b=True),
        ),
        "keys": (
            (2, 3, rows, 16),
            (2, 90, 48),
            lambda b, x, y: b.matmul(x, heads(b, y), transpose_b=True),
        ),
        "values": (
            (2, 3, rows, 90),
            (2, 90, 48),
            lambda b, x, y: b.mul(b.matmul(x, heads(b, y)), 2),
        ),
        "a batch": ((5, rows, 24), (24, 33), lambda b, x, y: b.matmul(x, y)),
    }


def runs_of(rows: int, element: str, devices: Sequence[Device], **fixed: Any) -> list[Run]:
    """The cases on small integers, on each device; `fixed` are entries of their schedules."""
    random, runs = np.random.default_rng(0), list[Run]()
    for what, (left, right, build) in cases(rows).items():
        kernel = fused_kernel("contraction", [(element, left), (element, right)], build)
        dtype = ELEMENT_TYPES[element].dtype
        arrays = [random.integers(-4, 5, shape).astype(dtype) for shape in (left, right)]
        for device in devices:
            runs.append(Run(kernel, arrays, device, fixed, f"{what} {device.name}"))
    return runs


@pytest.mark.parametrize("element", ["f32", "i32"])
@pytest.mark.parametrize("rows", [1, 3, 4])
def test_products_of_few_rows_are_those_of_the_interpreter(
    rows: int,
    element: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    forms = [FORMS[form] for form in FORMS.keys() - {"cpu"}]
    check_all(cl_queue, runs_of(rows, element, forms), same_values)


def test_columns_that_are_neighbours_in_memory_are_added_up_side_by_side() -> None:
    kernel = fused_kernel(
        "contraction",
        [("f32", (2, 3, 1, 4096)), ("f32", (2, 4096, 48))],
        lambda b, x, y: b.matmul(x, heads(b, y)),
    )
    function = lowered(kernel, DEVICES["nvidia-h200"])
    assert function.local_sizes[0] > 256
    assert any(isinstance(op, BarrierOp) for op in function.walk())


LAYOUTS = list(itertools.product((False, True), repeat=2))
SIZES = [
    (1, 7, 5),
    (1, 96, 4096),
    (2, 300, 64),
    (3, 257, 130),
    (4, 1000, 36),
    (4, 64, 6),
    (2, 1, 9),
]
"""Rows, columns and steps of the shared axis."""


def integers(shape: tuple[int, ...], seed: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


def on_gpu(kernel: Any, arrays: list[np.ndarray], what: object = "") -> list[Run]:
    forms = FORMS.keys() - {"cpu"}
    return [Run(kernel, arrays, FORMS[form], {}, f"{what} {form}") for form in forms]


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("element", ["bf16", "f16", "f32"])
def test_every_layout_and_edge_computes_the_same(
    element: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    dtype = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}[element]
    runs = list[Run]()
    for (rows, columns, depth), turned in itertools.product(SIZES, LAYOUTS):
        a = (depth, rows) if turned[0] else (rows, depth)
        b = (columns, depth) if turned[1] else (depth, columns)
        kernel = fused_kernel(
            "contraction",
            [(element, a), (element, b)],
            lambda e, x, y, turned=turned: e.matmul(
                e.cast(x, "f32"), e.cast(y, "f32"), transpose_a=turned[0], transpose_b=turned[1]
            ),
        )
        arrays = [integers(a, 1, dtype), integers(b, 2, dtype)]
        runs += on_gpu(kernel, arrays, (rows, columns, depth, turned))
    check_all(cl_queue, runs, same_values)


def test_prologues_epilogues_and_vectors(
    cl_queue: Any,  # noqa: F811
) -> None:
    kernel = fused_kernel(
        "contraction",
        [("f32", (3, 2, 40)), ("f32", (40, 70)), ("f32", (70,))],
        lambda e, x, y, bias: e.relu(e.add(e.matmul(e.neg(x), y), bias)),
    )
    runs = on_gpu(kernel, [integers((3, 2, 40), 1), integers((40, 70), 2), integers((70,), 3)])
    kernel = fused_kernel(
        "contraction", [("f32", (50,)), ("f32", (50, 33))], lambda e, x, y: e.matmul(x, y)
    )
    runs += on_gpu(kernel, [integers((50,), 1), integers((50, 33), 2)])
    check_all(cl_queue, runs, same_values)


def test_operands_are_rounded_as_they_are_read(
    cl_queue: Any,  # noqa: F811
) -> None:
    runs = list[Run]()
    for turned in (False, True):
        shapes = [(2, 96), (40, 96) if turned else (96, 40)]
        kernel = fused_kernel(
            "contraction",
            [("f32", shape) for shape in shapes],
            lambda e, x, y, turned=turned: e.matmul(
                e.round_tf32(x), e.round_tf32(y), transpose_b=turned
            ),
        )
        arrays = [integers(shape, 1) * np.float32(1 + 2.0**-12) for shape in shapes]
        runs += on_gpu(kernel, arrays, turned)
    check_all(cl_queue, runs, same_values)


def test_nan_and_infinity_stay_in_their_columns(
    cl_queue: Any,  # noqa: F811
) -> None:
    a, b = integers((2, 77), 1), integers((77, 30), 2)
    b[76, 29], b[0, 3], a[1, 40] = np.nan, np.inf, -np.inf
    b[40] = np.abs(b[40]) + 1
    runs = list[Run]()
    for turned in (False, True):
        kernel = fused_kernel(
            "contraction",
            [("f32", (2, 77)), ("f32", (30, 77) if turned else (77, 30))],
            lambda e, x, y, turned=turned: e.matmul(x, y, transpose_b=turned),
        )
        runs += on_gpu(kernel, [a, np.ascontiguousarray(b.T) if turned else b])
    check_all(cl_queue, runs, same_values)


def test_the_right_operand_is_read_by_all_compute_units() -> None:
    unit = DEVICES["nvidia-h200"]
    for shape, turned in (((8192, 8192), False), ((8192, 8192), True), ((576, 576), True)):
        kernel = fused_kernel(
            "contraction",
            [("f32", (1, shape[0])), ("f32", shape)],
            lambda e, x, y, turned=turned: e.matmul(x, y, transpose_b=turned),
        )
        function = lowered(kernel, unit)
        assert function.global_sizes[0] >= unit.compute_units * function.local_sizes[0]


def test_a_matrix_unit_takes_over_from_three_rows_on() -> None:
    for rows in range(1, 6):
        kernel = fused_kernel(
            "contraction",
            [("bf16", (rows, 512)), ("bf16", (512, 512))],
            lambda e, x, y: e.matmul(x, y),
        )
        operations = {type(op) for op in lowered(kernel, DEVICES["nvidia-h200"]).walk()}
        assert bool(operations & {MmaOp, GroupMmaOp}) == (rows > 2)
