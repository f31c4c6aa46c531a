"""A CPU reads vectors, and numbers that all lanes share, where elements of a flat walk, of a
concatenation or of a slice that begins anywhere are neighbours: no lane looks for its own.

The reference is the interpreter.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mgn.dialects import kernel
from mgn.dialects.types import ELEMENT_TYPES
from tests.support.lower_fixture import FORMS, Run, check_all, fused_kernel, lowered, same_rounded
from tests.support.opencl_fixture import cl_queue  # noqa: F401

Types = list[tuple[str, tuple[int, ...]]]
Build = Callable[..., Any]


def of_channels(b: Any, x: Any, shift: Any) -> Any:
    """What is added to all places of a channel's image."""
    return b.add(x, b.reshape(shift, [1, 5, 1, 1]))


CASES: dict[str, tuple[Types, Build]] = {
    # name: inputs, body
    "a number of each image": ([("f32", (1, 5, 12, 20)), ("f32", (5,))], of_channels),
    "of several images": ([("f32", (3, 5, 12, 20)), ("f32", (5,))], of_channels),
    "of rows and columns that lie as one": (
        [("f32", (2, 3, 4, 12)), ("f32", (2, 1, 1, 1))],
        lambda b, x, y: b.mul(x, y),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_no_lane_looks_for_its_own_element(name: str) -> None:
    types, build = CASES[name]
    function = lowered(fused_kernel("pointwise", types, build), FORMS["cpu"])
    apart = [op for op in function.walk() if isinstance(op, kernel.GatherOp)]
    assert not apart


def test_every_element_is_where_the_interpreter_has_it(cl_queue: Any) -> None:  # noqa: F811
    random = np.random.default_rng(0)
    runs: list[Run] = []
    for name, (types, build) in CASES.items():
        arrays = [
            random.integers(-9, 10, shape).astype(ELEMENT_TYPES[n].dtype) for n, shape in types
        ]
        runs.append(Run(fused_kernel("pointwise", types, build), arrays, FORMS["cpu"], what=name))
    check_all(cl_queue, runs, same_rounded)
