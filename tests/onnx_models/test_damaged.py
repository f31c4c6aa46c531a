"""Models that are damaged or hostile: an error of mgn, and nothing large is allocated."""

from typing import Any

import numpy as np
import pytest

import mgn
from tests.onnx_models.models import check, interpreted, model, node, onnx

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def damaged(data: bytes) -> Any:
    """The model of such bytes."""
    made = onnx.ModelProto()
    made.ParseFromString(data)
    return made


@pytest.mark.parametrize("name", [b"Relu", b"inner", b"first", b"main", b"weight", b"batch"])
def test_a_name_that_is_no_text_is_an_error(name: bytes) -> None:
    nodes = [
        node("Relu", ["x"], ["inner"], name="first"),
        node("Add", ["inner", "weight"], ["y"]),
    ]
    made = model(nodes, {"x": X}, weights={"weight": X}, shapes={"x": ["batch", 3]})
    data = made.SerializeToString()
    assert name in data
    with pytest.raises(mgn.MgnError, match="is no UTF-8"):
        mgn.from_onnx(damaged(data.replace(name, b"\xff" + name[1:])), dims={"batch": 2}).lower()


def test_a_tensor_of_impossible_sizes_is_an_error() -> None:
    made = model([node("Add", ["x", "w"], ["y"])], {"x": X}, weights={"w": X[:1, :1]})
    made.graph.initializer[0].dims[0] = -1
    with pytest.raises(mgn.MgnError, match=r"tensor 'w' is damaged: its sizes are \[-1, 1\]"):
        mgn.from_onnx(made).lower()
    del made.graph.initializer[:]
    values = onnx.numpy_helper.from_array(np.ones(1, np.float32), "w")
    places = onnx.numpy_helper.from_array(np.array([7]))
    for dims in ([1 << 40, 1 << 40], [3]):
        del made.graph.sparse_initializer[:]
        made.graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(values, places, dims))
        with pytest.raises(mgn.MgnError, match="tensor 'w' is damaged"):
            mgn.from_onnx(made).lower()


@pytest.mark.parametrize(("limit", "delta"), [(5.0, 0.0), (np.inf, 1.0), (np.nan, 1.0)])
def test_a_range_without_an_end_is_an_error(limit: float, delta: float) -> None:
    numbers = {"a": np.float32(0), "b": np.float32(limit), "c": np.float32(delta)}
    nodes = [node("Range", ["a", "b", "c"], ["r"]), node("Add", ["x", "r"], ["y"])]
    with pytest.raises(mgn.MgnError, match="has no end"):
        mgn.from_onnx(model(nodes, {"x": X}, weights=numbers)).lower()


def test_a_long_range_is_not_written_out() -> None:
    nodes = [node("Range", ["a", "b", "c"], ["y"])]
    numbers = {name: np.int64(value) for name, value in (("a", 5), ("b", 200001), ("c", 3))}
    (found,) = interpreted(model(nodes, {"x": X}, weights=numbers), {"x": X})
    np.testing.assert_array_equal(found, np.arange(5, 200001, 3))
    numbers["b"] = np.int64(1 << 60)
    assert (
        "dense" not in str(mgn.from_onnx(model(nodes, {"x": X}, weights=numbers))).split("iota")[0]
    )


def test_operands_of_old_versions_lie_at_an_axis() -> None:
    x, w = np.ones((3, 3, 2), np.float32), np.arange(3, dtype=np.float32)
    for axis, wanted in ((0, x + w[:, None, None]), (1, x + w[:, None]), (-2, x + w[:, None])):
        nodes = [node("Add", ["x", "w"], ["y"], axis=axis, broadcast=1)]
        made = model(nodes, {"x": x}, weights={"w": w}, opset=6)
        np.testing.assert_array_equal(interpreted(made, {"x": x})[0], wanted)
    with pytest.raises(mgn.MgnError, match="do not fit"):
        mgn.from_onnx(
            model([node("Add", ["w", "x"], ["y"], axis=0, broadcast=1)], {"x": x, "w": w}, opset=6)
        ).lower()
    check(model([node("Add", ["x", "x"], ["y"])], {"x": x}), {"x": x})
