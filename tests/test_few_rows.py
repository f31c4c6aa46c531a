"""Products of up to four rows on a GPU: sums along or across the right operand's memory.

The GPU form runs on the CPU's device; the reference is the interpreter, and integers are exact.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from lower_fixture import FORMS, Run, check_all, fused_kernel, lowered, same_values
from opencl_fixture import cl_queue  # noqa: F401

from mgn.dialects.kernel import DEVICES, BarrierOp
from mgn.dialects.types import ELEMENT_TYPES


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


@pytest.mark.parametrize("element", ["f32", "i32"])
@pytest.mark.parametrize("rows", [1, 3, 4])
def test_products_of_few_rows_are_those_of_the_interpreter(
    rows: int,
    element: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    random, runs = np.random.default_rng(0), list[Run]()
    for what, (left, right, build) in cases(rows).items():
        kernel = fused_kernel("contraction", [(element, left), (element, right)], build)
        dtype = ELEMENT_TYPES[element].dtype
        arrays = [random.integers(-4, 5, shape).astype(dtype) for shape in (left, right)]
        for form in FORMS.keys() - {"cpu"}:
            runs.append(Run(kernel, arrays, FORMS[form], {}, f"{what} {form}"))
    check_all(cl_queue, runs, same_values)


def test_columns_that_are_neighbours_in_memory_are_added_up_side_by_side() -> None:
    kernel = fused_kernel(
        "contraction",
        [("f32", (2, 3, 1, 4096)), ("f32", (2, 4096, 48))],
        lambda b, x, y: b.matmul(x, heads(b, y)),
    )
    function = lowered(kernel, DEVICES["nvidia-h200"])
    assert function.local_sizes[0] > 256
    assert any(isinstance(op, BarrierOp) for op in function.walk())
