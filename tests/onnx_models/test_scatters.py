"""Scatters that put together what meets at one place."""

from typing import Any

import numpy as np
import pytest

import mgn
from tests.onnx_models.models import check, model, node

RNG = np.random.default_rng(3)
SHAPES = (((5, 4), (7, 4), 0), ((5, 4), (3, 2), 1), ((6,), (400,), 0), ((2, 3, 4), (1, 3, 9), 2))
"""Shapes of what is written to and of what is written, and the axis: fewer and more than there
are places, and less than all of the other axes.
"""


def scatter(x: Any, ids: Any, src: Any, axis: int, how: str) -> Any:
    """A model of one ScatterElements."""
    made = node("ScatterElements", ["x", "ids", "src"], ["y"], axis=axis, reduction=how)
    return model([made], {"x": x, "ids": ids, "src": src}, opset=18)


@pytest.mark.parametrize("how", ["add", "mul", "max", "min"])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8, np.int64])
def test_what_meets_at_one_place_is_put_together(how: str, dtype: type) -> None:
    for shape, given, axis in SHAPES:
        x, src = (RNG.integers(1, 3, size).astype(dtype) for size in (shape, given))
        if dtype is np.float32:
            src *= RNG.choice(np.array([0.5, 1, -1], np.float32), given)
        if how == "mul" and dtype is np.uint8:
            src = np.ones_like(src)
        ids = RNG.integers(-shape[axis], shape[axis], given)
        check(scatter(x, ids, src, axis, how), {"x": x, "ids": ids, "src": src})


def test_the_least_of_integers_may_be_the_least_that_there_is() -> None:
    x = np.array([-(2**31), 2**31 - 1], np.int32)
    ids, src = np.array([0, 1, 1]), np.array([5, -(2**31), 7], np.int32)
    check(scatter(x, ids, src, 0, "min"), {"x": x, "ids": ids, "src": src})


def test_rows_are_put_together_where_ids_are_a_line_that_was_broadcast() -> None:
    x, src = (RNG.standard_normal((size, 6)).astype(np.float32) for size in (4, 300))
    line = RNG.integers(0, 4, (300, 1))
    nodes = [
        node("Expand", ["line", "shape"], ["ids"]),
        node("ScatterElements", ["x", "ids", "src"], ["y"], axis=0, reduction="max"),
    ]
    inputs = {"x": x, "line": line, "src": src}
    made = model(nodes, inputs, weights={"shape": np.array([300, 6])}, opset=18)
    check(made, inputs)
    written = next(line for line in str(mgn.from_onnx(made)).split("\n") if "scatter_along" in line)
    assert "tensor<300x1xi64>" in written


def test_the_largest_of_many_rows_on_a_device() -> None:
    x, src = np.zeros((3, 2), np.float32), RNG.standard_normal((500, 2)).astype(np.float32)
    src[7, 1] = np.nan
    ids = RNG.integers(0, 3, (500, 2))
    ids[7, 1] = 2
    wanted = x.copy()
    np.maximum.at(wanted, (ids, np.arange(2)), src)
    found = mgn.compile(mgn.from_onnx(scatter(x, ids, src, 0, "max")))(x=x, ids=ids, src=src)
    np.testing.assert_array_equal(found["y"], wanted)
