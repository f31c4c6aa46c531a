"""A CPU reads vectors, and numbers that all lanes share, where elements of a flat walk, of a
concatenation or of a slice that begins anywhere are neighbours: no lane looks for its own.

The reference is the interpreter.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import scf, vector

from mgn.dialects import kernel
from mgn.dialects.types import ELEMENT_TYPES
from tests.support.lower_fixture import FORMS, Run, check_all, fused_kernel, lowered, same_rounded
from tests.support.opencl_fixture import cl_queue  # noqa: F401

Types = list[tuple[str, tuple[int, ...]]]
Build = Callable[..., Any]


def of_channels(b: Any, x: Any, shift: Any) -> Any:
    """What is added to all places of a channel's image."""
    return b.add(x, b.reshape(shift, [1, 5, 1, 1]))


def slice_from(*sizes: int) -> Build:
    """A part of a matrix that begins anywhere."""

    def build(b: Any, x: Any, start: Any) -> Any:
        for axis, (size, whole) in enumerate(zip(sizes, (40, 50), strict=True)):
            first = b.reshape(b.slice(start, starts=[axis], stops=[axis + 1]), ())
            first = b.clamp(first, min=0.0, max=float(whole - size))
            x = b.gather(x, b.add(b.iota([size], axis=0, T="i32"), first), axis=axis)
        return x

    return build


CASES: dict[str, tuple[Types, Build]] = {
    # name: inputs, body
    "a number of each image": ([("f32", (1, 5, 12, 20)), ("f32", (5,))], of_channels),
    "of several images": ([("f32", (3, 5, 12, 20)), ("f32", (5,))], of_channels),
    "of rows and columns that lie as one": (
        [("f32", (2, 3, 4, 12)), ("f32", (2, 1, 1, 1))],
        lambda b, x, y: b.mul(x, y),
    ),
    "a slice that begins anywhere": ([("f32", (40, 50)), ("i32", (2,))], slice_from(31, 37)),
    "a slice of whole rows": ([("i32", (40, 50)), ("i32", (2,))], slice_from(7, 50)),
}

JOINED: dict[str, tuple[Types, Build]] = {
    "two": ([("f32", (9, 37)), ("f32", (9, 70))], lambda b, *x: b.concat(x, axis=1)),
    "many": ([("i32", (9, 20 + n)) for n in range(7)], lambda b, *x: b.concat(x, axis=1)),
    "turned": (
        [("f32", (5, 50)), ("f32", (5, 35))],
        lambda b, *x: b.flip(b.concat(x, axis=1), axis=[1]),
    ),
    "in the middle": ([("f32", (4, 5, 9)), ("f32", (4, 7, 9))], lambda b, *x: b.concat(x, axis=1)),
    "more than are told apart": (
        [("f32", (3, n % 3 + 1)) for n in range(20)],
        lambda b, *x: b.concat(x, axis=1),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_no_lane_looks_for_its_own_element(name: str) -> None:
    types, build = CASES[name]
    function = lowered(fused_kernel("pointwise", types, build), FORMS["cpu"])
    apart = [op for op in function.walk() if isinstance(op, kernel.GatherOp)]
    assert not apart


IN_PADDING: dict[str, tuple[Types, Build]] = {
    "images": (
        [("f32", (2, 3, 7, 17))],
        lambda b, x: b.pad(x, [[0, 0], [0, 0], [1, 1], [1, 2]], 2.0),
    ),
    "much of it": ([("i32", (20, 5))], lambda b, x: b.pad(x, [[0, 3], [30, 40]], 7)),
    "turned": ([("f32", (9, 37))], lambda b, x: b.flip(b.pad(x, [[0, 0], [3, 0]], 1.0), axis=[1])),
    "joined, and with another row": (
        [("f32", (9, 21)), ("f32", (9, 10)), ("f32", (34,))],
        lambda b, x, y, z: b.add(b.concat([b.pad(x, [[0, 0], [2, 1]], 0.0), y], axis=1), z),
    ),
    "of one row": ([("f32", (300,))], lambda b, x: b.pad(x, [[7, 2]], 0.0)),
}


@pytest.mark.parametrize("name", ["two", "many"])
def test_the_parts_of_a_row_are_walked_apart(name: str) -> None:
    types, build = JOINED[name]
    function = lowered(fused_kernel("pointwise", types, build), FORMS["cpu"])
    assert not [op for op in function.walk() if isinstance(op, scf.IfOp | kernel.GatherOp)]


@pytest.mark.parametrize("name", ["images", "joined, and with another row"])
def test_rows_in_padding_are_walked_apart(name: str) -> None:
    types, build = IN_PADDING[name]
    function = lowered(fused_kernel("pointwise", types, build), FORMS["cpu"])
    loads = [op for op in function.walk() if isinstance(op, vector.LoadOp)]
    assert loads and not [op for op in function.walk() if isinstance(op, kernel.GatherOp)]


@pytest.mark.parametrize("name", ["two", "many"])
def test_each_part_of_a_concatenation_is_read_by_vectors(name: str) -> None:
    types, build = JOINED[name]
    function = lowered(fused_kernel("pointwise", types, build), FORMS["cpu"])
    for argument in list(function.body.block.args)[: len(types)]:
        assert any(isinstance(use.operation, vector.LoadOp) for use in argument.uses)


def test_every_element_is_where_the_interpreter_has_it(cl_queue: Any) -> None:  # noqa: F811
    random = np.random.default_rng(0)
    runs: list[Run] = []
    for name, (types, build) in (CASES | JOINED | IN_PADDING).items():
        arrays = [
            random.integers(-9, 10, shape).astype(ELEMENT_TYPES[n].dtype) for n, shape in types
        ]
        runs.append(Run(fused_kernel("pointwise", types, build), arrays, FORMS["cpu"], what=name))
    check_all(cl_queue, runs, same_rounded)
