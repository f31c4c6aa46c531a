"""A value that each row has one of, put together by branches, in vectors and in what is left."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.support.lower_fixture import check_all, forms_of, fused_kernel, same_values
from tests.support.opencl_fixture import cl_queue  # noqa: F401

ROWS = 8
Join = Callable[[Any, Any], Any]

JOINS: dict[str, Join] = {
    "padded": lambda b, u: b.pad(u, [[1, 1]], 7.0),
    "joined": lambda b, u: b.concat([b.mul(b.slice(u, [0], [2]), 1.5), u], axis=0),
}


@pytest.mark.parametrize("join", JOINS.values(), ids=JOINS)
@pytest.mark.parametrize("length", [6, 7, 37])
def test_what_all_lanes_see_is_the_same_for_the_last_elements_of_a_row(
    join: Join,
    length: int,
    cl_queue: Any,  # noqa: F811
) -> None:
    def build(b: Any, x: Any, u: Any) -> Any:
        rows = b.reshape(join(b, u), [ROWS, 1])
        return b.add(b.add(x, b.sum(x, axis=[1], keepdims=True)), rows)

    random = np.random.default_rng(0)
    u = random.integers(-8, 9, 6).astype(np.float32)
    x = random.integers(-8, 9, (ROWS, length)).astype(np.float32)
    kernel = fused_kernel("reduction", [("f32", x.shape), ("f32", u.shape)], build)
    check_all(cl_queue, forms_of(kernel, [x, u]), same_values)
