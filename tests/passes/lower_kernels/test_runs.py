"""Pointwise kernels that move elements walk along the axes that elements lie in, not along those
that the result is written with.

The reference is the interpreter. Integers are exact.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mgn.dialects.types import ELEMENT_TYPES
from mgn.passes.kernels.body import read_body
from mgn.passes.kernels.runs import run_shape
from tests.support.lower_fixture import FORMS, Run, check_all, fused_kernel, same_rounded, scheduled
from tests.support.opencl_fixture import cl_queue  # noqa: F401

Types = list[tuple[str, tuple[int, ...]]]
Build = Callable[..., Any]


def columns(channels: int, size: int, images: int, y: int, x: int, padding: int = 0) -> Build:
    """Windows of images as the columns that the gradient of a convolution multiplies with."""
    places = (y + 2 * padding - size + 1) * (x + 2 * padding - size + 1)

    def build(b: Any, image: Any) -> Any:
        around = [[0, 0], [0, 0], [padding, padding], [padding, padding]]
        source = b.pad(image, around) if padding else image
        found = b.windows(source, [size, size], [1, 1], [1, 1])
        turned = b.transpose(found, [1, 4, 5, 0, 2, 3])
        return b.reshape(turned, [channels * size * size, images * places])

    return build


def interleaved(b: Any, x: Any) -> Any:
    return b.transpose(x, [0, 1, 4, 2, 5, 3])


def two(b: Any, x: Any, y: Any) -> Any:
    turned = b.reshape(b.transpose(x, [1, 0, 2]), [6, 35])
    sum = b.add(turned, b.reshape(y, [1, 35]))
    return sum, b.neg(turned)


def below(b: Any, x: Any) -> Any:
    """What is not above a diagonal, as `tril` finds it."""
    row, column = (
        b.broadcast_to(b.iota([9, 21], axis=axis, T="i32"), [4, 9, 21]) for axis in (0, 1)
    )
    return b.where(b.le(column, row), x, b.full([4, 9, 21], 0, T="i32"))


CASES: dict[str, tuple[Types, Build, tuple[int, ...]]] = {
    "rows of 10": ([("f32", (4, 3, 14, 14))], columns(3, 5, 4, 14, 14), (3, 5, 5, 4, 10, 10)),
    "rows of 28": ([("f32", (3, 1, 30, 30))], columns(1, 3, 3, 30, 30), (3, 3, 3, 28, 28)),
    "rows of 3": ([("i32", (5, 2, 7, 5))], columns(2, 3, 5, 7, 5), (2, 3, 3, 5, 5, 3)),
    "one place": ([("f32", (5, 2, 3, 3))], columns(2, 3, 5, 3, 3), (18, 5)),
    "in padding": ([("f32", (2, 3, 9, 7))], columns(3, 3, 2, 9, 7, 1), (3, 3, 3, 2, 9, 7)),
    "interleaved": ([("f32", (2, 3, 2, 2, 7, 7))], interleaved, (6, 7, 2, 7, 2)),
    "two results": ([("i32", (5, 6, 7)), ("i32", (35,))], two, (6, 5, 7)),
    "heads": (
        [("f32", (2, 9, 3, 8))],
        lambda b, x: b.reshape(b.transpose(x, [0, 2, 1, 3]), [6, 72]),
        (2, 3, 9, 8),
    ),
    "numbered axes": ([("i32", (4, 9, 21))], below, (4, 9, 21)),
    "nothing": ([("f32", (2, 0, 3))], lambda b, x: b.transpose(x, [2, 1, 0]), (3, 0, 2)),
}


@pytest.mark.parametrize("case", CASES)
def test_a_walk_has_the_axes_that_elements_lie_in(case: str) -> None:
    types, build, axes = CASES[case]
    assert run_shape(read_body(fused_kernel("pointwise", types, build))) == axes


def test_every_element_is_where_the_interpreter_has_it(
    cl_queue: Any,  # noqa: F811
) -> None:
    random = np.random.default_rng(0)
    runs: list[Run] = []
    for name, (types, build, _) in CASES.items():
        kernel = fused_kernel("pointwise", types, build)
        arrays = [
            random.integers(-9, 10, shape).astype(ELEMENT_TYPES[n].dtype) for n, shape in types
        ]
        runs.append(Run(kernel, arrays, FORMS["cpu"], what=name))
    check_all(cl_queue, runs, same_rounded)


def test_rows_of_windows_are_read_as_vectors() -> None:
    types, build, _ = CASES["rows of 10"]
    schedule = scheduled(fused_kernel("pointwise", types, build), FORMS["cpu"])
    assert (schedule["variant"], schedule["row"], schedule["width"]) == ("rows", 10, 8)
