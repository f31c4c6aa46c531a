"""Rows of a result that lie far apart in an operand, read beside their neighbours there."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mgn.dialects.types import ELEMENT_TYPES
from mgn.passes.kernels.body import read_body
from mgn.passes.schedules.transposes import interleaved_axis
from tests.support.lower_fixture import CPU, Run, check_all, fused_kernel, same_values
from tests.support.opencl_fixture import cl_queue  # noqa: F401

Types = list[tuple[str, tuple[int, ...]]]

HEADS = [0, 2, 1, 3]


def panels(b: Any, x: Any) -> Any:
    return b.transpose(b.reshape(x, [3, 40, 9, 32]), HEADS)


CASES: dict[str, tuple[Types, Callable[..., Any]]] = {
    "panels, of which the last group overlaps": ([("f32", (120, 288))], panels),
    "heads, and what is added to them": (
        [("f32", (2, 33, 5, 64)), ("f32", (64,)), ("f32", (2, 5, 33, 64))],
        lambda b, x, y, z: b.mul(b.add(b.transpose(x, HEADS), y), z),
    ),
    "two results": (
        [("f32", (7, 12, 48))],
        lambda b, x: (b.transpose(x, [1, 0, 2]), b.neg(b.transpose(x, [1, 0, 2]))),
    ),
    "the outermost axis of five": (
        [("f32", (2, 6, 3, 4, 16))],
        lambda b, x: b.transpose(x, [3, 0, 2, 1, 4]),
    ),
    "halves": ([("f16", (11, 20, 64))], lambda b, x: b.transpose(x, [1, 0, 2])),
}


def runs_of(name: str) -> list[Run]:
    types, build = CASES[name]
    random = np.random.default_rng(0)
    arrays = [random.integers(-9, 10, shape).astype(ELEMENT_TYPES[n].dtype) for n, shape in types]
    kernel = fused_kernel("pointwise", types, build)
    return [Run(kernel, arrays, CPU, {"chunk": chunk}, name) for chunk in (512, 8192)]


def test_rows_side_by_side_are_the_transposed_ones(cl_queue: Any) -> None:  # noqa: F811
    check_all(cl_queue, [run for name in CASES for run in runs_of(name)], same_values)


@pytest.mark.parametrize("name", CASES)
def test_the_cases_have_rows_that_lie_apart(name: str) -> None:
    body = read_body(runs_of(name)[0].kernel)
    shape = body.written[0].shape
    axis = interleaved_axis(body, shape)
    assert axis is not None and shape[axis] in (9, 5, 12, 4, 20)


@pytest.mark.parametrize(
    "shape, perm",
    [
        ((2, 64, 32), [0, 2, 1]),
        ((4, 8, 8, 512), HEADS),
        ((4, 1, 8, 64), HEADS),
        ((4, 8, 2, 64), [1, 0, 2, 3]),
    ],
    ids=["columns turned", "long rows", "no rows apart", "rows in order"],
)
def test_other_transposes_have_none(shape: tuple[int, ...], perm: list[int]) -> None:
    kernel = fused_kernel("pointwise", [("f32", shape)], lambda b, x: b.transpose(x, perm))
    body = read_body(kernel)
    assert interleaved_axis(body, body.written[0].shape) is None
