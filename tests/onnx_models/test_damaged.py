"""Models that are damaged or hostile: an error of mgn, and nothing large is allocated."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mgn
from mgn.frontend.onnx.core.operator import OPERATORS, find
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


@pytest.mark.parametrize("sizes", [[0, 3], [3, 3], [4, 1, 5], [-1, 3], [1 << 62, 1, 1]])
def test_sizes_to_which_nothing_expands_are_an_error(sizes: list[int]) -> None:
    weights = {"sizes": np.array(sizes, np.int64)}
    made = model([node("Expand", ["x", "sizes"], ["y"])], {"x": X}, weights=weights)
    with pytest.raises(mgn.MgnError, match=r"broadcast|size|large"):
        mgn.from_onnx(made).lower()


@pytest.mark.parametrize("scale", [np.inf, np.nan, -1.0, 0.0, 1e38])
def test_a_scale_that_is_none_is_an_error(scale: float) -> None:
    weights = {"scales": np.array([1, scale], np.float32)}
    for version, inputs in ((10, ["x", "scales"]), (13, ["x", "", "scales"])):
        made = model([node("Resize", inputs, ["y"])], {"x": X}, weights=weights, opset=version)
        with pytest.raises(mgn.MgnError, match="is no scale"):
            mgn.from_onnx(made).lower()


@pytest.mark.parametrize("count", [1, 3])
def test_numbers_that_are_too_few_or_too_many_are_an_error(count: int) -> None:
    weights = {"scales": np.ones(count, np.float32), "sizes": np.ones(count, np.int64)}
    for inputs in (["x", "", "scales"], ["x", "", "", "sizes"]):
        made = model([node("Resize", inputs, ["y"])], {"x": X}, weights=weights)
        with pytest.raises(mgn.MgnError, match=f"2 axes have {count} s"):
            mgn.from_onnx(made).lower()
    image = {"x": np.ones((1, 1, 4, 4), np.float32)}
    for operator in ("Conv", "ConvTranspose"):
        weights = {"w": np.ones((1, 1, 2, 2), np.float32), "flat": np.ones((1, 1, 2), np.float32)}
        nodes = [node(operator, ["x", "w"], ["y"], strides=[1] * count)]
        with pytest.raises(mgn.MgnError, match="2 axes have"):
            mgn.from_onnx(model(nodes, image, weights=weights)).lower()
        nodes = [node(operator, ["x", "w"], ["y"], pads=[0] * count)]
        with pytest.raises(mgn.MgnError, match=f"2 axes have {count} numbers in 'pads'"):
            mgn.from_onnx(model(nodes, image, weights=weights)).lower()
        nodes = [node(operator, ["x", "flat"], ["y"])]
        with pytest.raises(mgn.MgnError, match="an input of 4 axes, and a kernel of 3"):
            mgn.from_onnx(model(nodes, image, weights=weights)).lower()


@pytest.mark.parametrize("kind", ["UNDEFINED", "FLOAT", "GRAPH", "TYPE_PROTO"])
def test_a_constant_whose_value_is_no_tensor_is_an_error(kind: str) -> None:
    value = onnx.numpy_helper.from_array(X)
    nodes = [node("Constant", [], ["c"], value=value), node("Add", ["x", "c"], ["y"])]
    made = model(nodes, {"x": X})
    made.graph.node[0].attribute[0].type = onnx.AttributeProto.AttributeType.Value(kind)
    with pytest.raises(mgn.MgnError, match=r"'value' (is no tensor|has no value)"):
        mgn.from_onnx(made).lower()


@pytest.mark.parametrize("operator", ["RNN", "GRU", "LSTM"])
def test_a_direction_that_there_is_not_is_an_error(operator: str) -> None:
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[operator]
    weights = {"w": np.ones((1, gates, 3), np.float32), "r": np.ones((1, gates, 1), np.float32)}
    nodes = [node(operator, ["x", "w", "r"], ["y"], hidden_size=1, direction="bidir\x10ctional")]
    with pytest.raises(mgn.MgnError, match="there is no direction"):
        mgn.from_onnx(model(nodes, {"x": X[None]}, weights=weights)).lower()


def test_a_node_without_outputs_and_one_whose_attribute_has_no_value_are_errors() -> None:
    with pytest.raises(mgn.MgnError, match="it has no output"):
        mgn.from_onnx(model([node("Relu", ["x"], [])], {"x": X}, outputs=["x"])).lower()
    made = model([node("Softmax", ["x"], ["y"], axis=1)], {"x": X})
    made.graph.node[0].attribute[0].type = onnx.AttributeProto.UNDEFINED
    with pytest.raises(mgn.MgnError, match="attribute 'axis' has no value"):
        mgn.from_onnx(made).lower()


def test_functions_that_call_each_other_twice_come_to_an_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mgn.frontend.onnx.core.importer.MOST_NODES", 1000)
    helper, opsets = onnx.helper, [onnx.helper.make_operatorsetid("local", 1)]
    opsets.append(helper.make_operatorsetid("", 21))
    functions = [helper.make_function("local", "A0", ["a"], ["b"], [node("Neg", "a", "b")], opsets)]
    for number in range(1, 40):
        called = f"A{number - 1}"
        calls = [node(called, *ends, domain="local") for ends in ("at", "tb")]
        functions.append(helper.make_function("local", f"A{number}", ["a"], ["b"], calls, opsets))
    made = model(
        [node("A39", ["x"], ["y"], domain="local")],
        {"x": X},
        domains={"local": 1},
        functions=functions,
    )
    with pytest.raises(mgn.MgnError, match=r":\d+:\d+: error: .* come to more than 1000 nodes"):
        mgn.from_onnx(made).lower()


def test_a_large_identity_is_not_written_out() -> None:
    sizes = np.array([1 << 20, 1 << 20])
    nodes = [
        node("ConstantOfShape", ["sizes"], ["zeros"]),
        node("EyeLike", ["zeros"], ["y"], k=1),
    ]
    mgn.from_onnx(model(nodes, {}, weights={"sizes": sizes})).lower()
    small = model([node("EyeLike", ["x"], ["y"], k=1, dtype=7)], {"x": X})
    assert interpreted(small, {"x": X})[0].tolist() == [[0, 1, 0], [0, 0, 1]]


def test_a_node_that_takes_more_memory_than_there_is_is_an_error_at_its_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def exhausted(*_: Any) -> None:
        raise MemoryError

    row = find("", "Neg", 21)
    assert row is not None
    monkeypatch.setitem(OPERATORS, ("", "Neg"), [replace(row, function=exhausted)])
    with pytest.raises(mgn.MgnError, match=":2:3: error: Neg: it takes more memory than there is"):
        mgn.from_onnx(model([node("Neg", ["x"], ["y"])], {"x": X})).lower()


def test_a_pipe_is_no_model(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.onnx")
    with pytest.raises(mgn.MgnError, match=r"cannot open '.*pipe\.onnx': it is no file"):
        mgn.from_onnx(tmp_path / "pipe.onnx")


def test_a_kernel_of_other_sizes_than_its_attribute_says_is_an_error() -> None:
    image, weights = {"x": np.ones((1, 1, 4, 4), np.float32)}, {"w": np.ones((1, 1, 2, 2), "f")}
    for operator in ("Conv", "ConvTranspose"):
        made = [node(operator, ["x", "w"], ["y"], kernel_shape=sizes) for sizes in ([2, 2], [3, 2])]
        check(model(made[:1], image, weights=weights), image)
        with pytest.raises(mgn.MgnError, match=r"kernel_shape is \[3, 2\], and the kernel has"):
            mgn.from_onnx(model(made[1:], image, weights=weights)).lower()


def test_padding_that_takes_more_than_there_is_is_an_error() -> None:
    for low, wanted in ((-2, (0, 3)), (-3, None)):
        weights = {"pads": np.array([low, 0, 0, 0])}
        made = model([node("Pad", ["x", "pads"], ["y"])], {"x": X}, weights=weights)
        if wanted is not None:
            assert interpreted(made, {"x": X})[0].shape == wanted
            continue
        with pytest.raises(mgn.MgnError, match="axis 0 has 2 elements, and is padded by -3 and 0"):
            mgn.from_onnx(made).lower()


def body(takes: int, gives: int) -> Any:
    """The graph of a node: so many values in, and the last of them so many times out."""
    types = {"i": onnx.TensorProto.INT64, "go": onnx.TensorProto.BOOL}
    inputs = [
        onnx.helper.make_tensor_value_info(name, types.get(name, onnx.TensorProto.FLOAT), None)
        for name in ("i", "go", "a", "b")[:takes]
    ]
    nodes = [node("Identity", ["go" if n == 0 else "x"], [f"out{n}"]) for n in range(gives)]
    outputs = [onnx.helper.make_empty_tensor_value_info(f"out{n}") for n in range(gives)]
    return onnx.helper.make_graph(nodes, "body", inputs, outputs)


@pytest.mark.parametrize(("takes", "gives"), [(2, 2), (4, 2), (3, 1), (3, 0)])
def test_the_graph_of_a_loop_takes_and_gives_what_a_turn_does(takes: int, gives: int) -> None:
    loop = node("Loop", ["n", "", "x"], ["y"], body=body(takes, gives))
    made = model([loop], {"x": X}, weights={"n": np.array(3)})
    with pytest.raises(mgn.MgnError, match=r"Loop: its graph (takes|gives) . values, and has to"):
        mgn.from_onnx(made).lower()


@pytest.mark.parametrize(
    ("inputs", "options", "message"),
    [
        (["x"], {"num_scan_inputs": 0}, "num_scan_inputs is 0, of 1 inputs"),
        (["x"], {"num_scan_inputs": 9}, "num_scan_inputs is 9, of 1 inputs"),
        (["x", "w"], {"num_scan_inputs": 2}, r"different numbers of steps: \[2, 4\]"),
        (["x"], {"num_scan_inputs": 1, "scan_input_axes": [0, 0]}, "1 scanned inputs have 2 axes"),
        (["x"], {"num_scan_inputs": 1, "scan_input_axes": [5]}, "axis 5 is out of range"),
    ],
)
def test_what_a_scan_cannot_go_over_is_an_error(
    inputs: list[str], options: dict[str, Any], message: str
) -> None:
    scan = node("Scan", inputs, ["y"], body=body(len(inputs), 1), **options)
    made = model([scan], {"x": X}, weights={"w": np.ones((4, 3), np.float32)})
    with pytest.raises(mgn.MgnError, match=message):
        mgn.from_onnx(made).lower()


def test_branches_that_give_different_numbers_of_values_are_an_error() -> None:
    choice = node("If", ["c"], ["y"], then_branch=body(0, 1), else_branch=body(0, 0))
    made = model([choice], {"x": X, "c": np.array(True), "go": np.array(True)})
    with pytest.raises(mgn.MgnError, match="If: its branches give 1 and 0 values"):
        mgn.from_onnx(made).lower()


def test_what_a_schema_does_not_know_is_refused() -> None:
    surplus = model([node("Relu", ["x", "x"], ["y"])], {"x": X})
    with pytest.raises(mgn.MgnError, match="it has 2 inputs, and version 21 of it takes 1 at most"):
        mgn.from_onnx(surplus).lower()
    doubled = model([node("Neg", ["x"], ["y", "z"])], {"x": X})
    with pytest.raises(mgn.MgnError, match="it has 2 outputs, and version 21 of it takes 1"):
        mgn.from_onnx(doubled).lower()
    nodes = [node("Concat", ["x", "x"], ["y"])]
    with pytest.raises(mgn.MgnError, match="attribute 'axis' is missing"):
        mgn.from_onnx(model(nodes, {"x": X})).lower()
    mgn.from_onnx(model(nodes, {"x": X}, opset=1)).lower()


def test_a_version_that_onnx_does_not_know_is_refused() -> None:
    newest = onnx.defs.onnx_opset_version()
    mgn.from_onnx(model([node("Relu", ["x"], ["y"])], {"x": X}, opset=newest)).lower()
    newer = model([node("Relu", ["x"], ["y"])], {"x": X}, opset=newest + 1)
    with pytest.raises(mgn.MgnError, match=rf"of version {newest + 1}, .* up to {newest}: a newer"):
        mgn.from_onnx(newer)
