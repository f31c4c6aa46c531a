"""ONNX models become programs that compute what ONNX's reference evaluator computes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mgn
from mgn.dialects.mgn.structure import graphs_of, parameters_of
from tests.conftest import run_in_process
from tests.onnx_models.models import check, interpreted, model, node, onnx, reference, value

RNG = np.random.default_rng(7)


def floats(*shape: int) -> np.ndarray:
    """Numbers of a normal distribution."""
    return RNG.standard_normal(shape).astype(np.float32)


X, W, B = floats(3, 8), floats(5, 8), floats(5)
DENSE = [
    node("Gemm", ["x", "w", "b"], ["h"], name="dense", transB=1),
    node("Relu", ["h"], ["y"], name="act"),
]


TRANSPOSED = [node("Transpose", ["next"], ["turned"])]


def dense(batch: Any = 3) -> Any:
    """A dense layer with a relu."""
    return model(DENSE, {"x": X}, weights={"w": W, "b": B}, shapes={"x": [batch, 8]})


def operations(made: Any, **options: Any) -> list[str]:
    """The names of the operations of the imported graph."""
    graph = next(graphs_of(mgn.from_onnx(made, **options).lower()))
    return [op.name.removeprefix("mgn.") for op in graph.block.ops]


def test_initialisers_become_parameters_with_their_names_and_values() -> None:
    module = mgn.from_onnx(dense())
    lowered = module.lower()
    assert list(parameters_of(lowered)) == ["w", "b"]
    np.testing.assert_array_equal(module.values["w"], W)
    check(dense(), {"x": X})


def test_a_compiled_model_has_its_values_and_takes_others() -> None:
    exe = mgn.compile(mgn.from_onnx(dense()))
    np.testing.assert_allclose(exe(x=X)["y"], np.maximum(X @ W.T + B, 0), rtol=1e-5, atol=1e-6)
    exe.params["b"] = B + 1
    np.testing.assert_allclose(exe(x=X)["y"], np.maximum(X @ W.T + B + 1, 0), rtol=1e-5, atol=1e-6)
    with pytest.raises(mgn.MgnError, match="w"):
        exe.params["w"] = np.zeros((2, 2), np.float32)


def test_symbolic_dimensions_are_dimensions_of_the_graph() -> None:
    made = dense("batch")
    assert "main[batch]" in str(mgn.from_onnx(made))
    with pytest.raises(mgn.DiagnosticsError, match=r"'batch' of axis 0 of input 'x'; dims = "):
        mgn.from_onnx(made).lower()
    with pytest.raises(mgn.DiagnosticsError, match="did you mean 'batch'"):
        mgn.from_onnx(made, dims={"bach": 3})
    assert interpreted(made, {"x": X}, dims={"batch": 3})[0].shape == (3, 5)
    assert mgn.from_onnx(made).lower(dims={"batch": 4}) is not None


SHAPE_NODES = [
    node("Shape", ["x"], ["s"]),
    node("Gather", ["s", "zero"], ["n"]),
    node("Unsqueeze", ["n", "axes"], ["n1"]),
    node("Concat", ["n1", "minus"], ["to"], axis=0),
    node("Reshape", ["x", "to"], ["r"]),
    node("Range", ["zero", "n", "one"], ["places"]),
    node("Cast", ["places"], ["p"], to=1),
    node("Unsqueeze", ["p", "axes1"], ["p1"]),
    node("ConstantOfShape", ["to_ones"], ["ones"]),
    node("Add", ["r", "p1"], ["t"]),
    node("Add", ["t", "ones"], ["y"]),
]
SHAPE_WEIGHTS = {
    "zero": np.array(0),
    "one": np.array(1),
    "axes": np.array([0]),
    "axes1": np.array([1]),
    "minus": np.array([-1]),
    "to_ones": np.array([1, 1]),
}


def test_what_is_computed_from_shapes_is_a_constant() -> None:
    x = floats(3, 2, 4)
    made = model(SHAPE_NODES, {"x": x}, weights=SHAPE_WEIGHTS, shapes={"x": ["n", 2, 4]})
    check(made, {"x": x}, dims={"n": 3})
    names = operations(made, dims={"n": 3})
    assert set(names) <= {"reshape", "constant", "add", "return"}


def graph_of(nodes: list[Any], outputs: list[str], inputs: Mapping[str, Any] | None = None) -> Any:
    """A graph inside a node."""
    declared = [value(name, array) for name, array in (inputs or {}).items()]
    return onnx.helper.make_graph(
        nodes, "inside", declared, [value(name, None) for name in outputs]
    )


def branches() -> Any:
    """x + x or x·x, of the first truth value."""
    then = graph_of([node("Add", ["x", "x"], ["a"])], ["a"])
    other = graph_of([node("Mul", ["x", "x"], ["m"])], ["m"])
    return node("If", ["c"], ["y"], then_branch=then, else_branch=other)


@pytest.mark.parametrize("taken", [True, False])
def test_a_known_branch_is_taken_and_another_one_chooses(taken: bool) -> None:
    inputs = {"x": X, "c": np.array(taken)}
    made = model([branches()], inputs)
    check(made, inputs)
    assert "where" in operations(made)
    names = operations(made, constants={"c": inputs["c"]})
    assert names == ["add" if taken else "mul", "return"]


def test_a_loop_is_unrolled_and_stacks_what_it_gives() -> None:
    inside = {"i": np.array(0), "go": np.array(True), "s": X}
    body = graph_of(
        [
            node("Identity", ["go"], ["go_on"]),
            node("Cast", ["i"], ["f"], to=1),
            node("Add", ["s", "f"], ["next"]),
            node("ReduceSum", ["next"], ["total"], keepdims=0),
        ],
        ["go_on", "next", "total"],
        inside,
    )
    made = model(
        [node("Loop", ["count", "yes", "x"], ["y", "totals"], body=body)],
        {"x": X},
        ["y", "totals"],
        {"count": np.array(4), "yes": np.array(True)},
    )
    found, totals = interpreted(made, {"x": X})
    np.testing.assert_allclose(found, X + 6, rtol=1e-5)
    np.testing.assert_allclose(totals, [(X + add).sum() for add in (0, 1, 3, 6)], rtol=1e-4)


@pytest.mark.parametrize("axis", [0, 1])
def test_what_no_turn_collects_is_empty(axis: int) -> None:
    inside = {"i": np.array(0), "go": np.array(True), "s": X}
    body = graph_of(
        [node("Identity", ["go"], ["go_on"]), node("Neg", ["s"], ["next"]), *TRANSPOSED],
        ["go_on", "next", "turned"],
        inside,
    )
    loop = node("Loop", ["count", "", "x"], ["y", "all"], body=body)
    made = model([loop], {"x": X}, ["y", "all"], {"count": np.array(0)})
    found, collected = interpreted(made, {"x": X})
    np.testing.assert_array_equal(found, X)
    assert collected.shape == (0, 8, 3)
    step = graph_of([node("Neg", ["s"], ["next"]), *TRANSPOSED], ["next", "turned"], {"s": X})
    step.input.append(value("one", np.float32(0)))
    attributes = {"num_scan_inputs": 1, "scan_output_axes": [axis]}
    scan = node("Scan", ["x", "none"], ["y", "all"], body=step, **attributes)
    none = np.zeros(0, np.float32)
    found, collected = interpreted(
        model([scan], {"x": X, "none": none}, ["y", "all"]), {"x": X, "none": none}
    )
    np.testing.assert_array_equal(found, X)
    assert collected.shape == ((0, 8, 3) if axis == 0 else (8, 0, 3))


@pytest.mark.parametrize("opset", [11, 13])
def test_the_hardmax_of_nothing_is_nothing(opset: int) -> None:
    x = np.zeros((2, 0, 3), np.float32)
    made = model([node("Hardmax", ["x"], ["y"], axis=1)], {"x": x}, opset=opset)
    assert interpreted(made, {"x": x})[0].shape == (2, 0, 3)


def test_functions_of_the_model_and_of_onnx_are_expanded() -> None:
    twice = onnx.helper.make_function(
        "local",
        "Scaled",
        ["a"],
        ["out"],
        [
            onnx.helper.make_node("Constant", [], ["k"]),
            node("Mul", ["a", "k"], ["out"]),
        ],
        [onnx.helper.make_operatorsetid("", 21)],
        ["by"],
    )
    attribute = twice.node[0].attribute.add(name="value_float", ref_attr_name="by")
    attribute.type = onnx.AttributeProto.FLOAT
    nodes = [
        node("Scaled", ["x"], ["t"], domain="local", by=2.5),
        node("NegativeLogLikelihoodLoss", ["t", "labels"], ["y"], reduction="sum"),
    ]
    inputs = {"x": X, "labels": np.array([1, 0, 7])}
    check(model(nodes, inputs, domains={"local": 1}, functions=[twice]), inputs)


def test_versions_of_an_operator_differ() -> None:
    x = floats(2, 3, 4)
    for opset, axes in ((11, (1, 2)), (13, (2,))):
        (found,) = interpreted(
            model([node("Softmax", ["x"], ["y"])], {"x": x}, opset=opset), {"x": x}
        )
        np.testing.assert_allclose(found.sum(axis=axes), 1, rtol=1e-5)
        np.testing.assert_allclose(
            found[0, 0, 1] / found[0, 0, 0], np.exp(x[0, 0, 1] - x[0, 0, 0]), rtol=1e-5
        )
    old = model([node("Squeeze", ["x"], ["y"], axes=[1])], {"x": floats(2, 1, 3)}, opset=11)
    check(old, {"x": floats(2, 1, 3)})


def test_a_recurrent_layer_agrees() -> None:
    x = floats(4, 2, 3)
    weights = {"w": floats(2, 20, 3), "r": floats(2, 20, 5), "b": floats(2, 40)}
    made = model(
        [node("LSTM", ["x", *weights], ["y", "h", "c"], hidden_size=5, direction="bidirectional")],
        {"x": x},
        ["y", "h", "c"],
        weights,
    )
    onnxruntime = pytest.importorskip("onnxruntime")
    wanted = onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": x})
    for one, other in zip(interpreted(made, {"x": x}), wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_attention_as_exporters_write_it_is_one_kernel() -> None:
    heads = [
        node("Reshape", ["x", "split"], ["r"]),
        node("Transpose", ["r"], ["q"], perm=[0, 2, 1, 3]),
        node("Transpose", ["r"], ["k"], perm=[0, 2, 3, 1]),
        node("MatMul", ["q", "k"], ["scores"]),
        node("Div", ["scores", "scale"], ["scaled"]),
        node("Softmax", ["scaled"], ["p"], axis=-1),
        node("MatMul", ["p", "q"], ["a"]),
        node("Transpose", ["a"], ["t"], perm=[0, 2, 1, 3]),
        node("Reshape", ["t", "join"], ["y"]),
    ]
    weights = {
        "split": np.array([1, 128, 4, 32]),
        "join": np.array([1, 128, 128]),
        "scale": np.array([32**0.5], np.float32),
    }
    made = model(heads, {"x": floats(1, 128, 128)}, weights=weights)
    report = mgn.optimize(mgn.from_onnx(made)).report
    assert [kernel.kind for kernel in report.kernels] == ["attention"]


# ---- files and commands


def test_a_file_with_external_data_runs_by_the_command(tmp_path: Path) -> None:
    from mgn.commands.run import main

    path = tmp_path / "dense.onnx"
    onnx.save(dense("n"), str(path), save_as_external_data=True, size_threshold=0, location="w.bin")
    np.savez(tmp_path / "in.npz", x=X)
    arguments = [path, "--dim", "n=3", "--inputs", tmp_path / "in.npz"]
    outcome = run_in_process(main, [*map(str, arguments), "--outputs", str(tmp_path / "out.npz")])
    assert outcome.status == 0, outcome.stderr
    assert outcome.stdout.startswith("y: f32[3, 5]")
    assert "initialisers" not in outcome.stderr
    found = np.load(tmp_path / "out.npz")["y"]
    np.testing.assert_allclose(found, reference(dense(), {"x": X})[0], rtol=1e-5, atol=1e-6)
    (tmp_path / "w.bin").unlink()
    outcome = run_in_process(main, [str(path)])
    assert outcome.status == 1 and "its external data cannot be read" in outcome.stderr


def test_a_package_of_a_model_has_its_values(tmp_path: Path) -> None:
    from mgn.commands.run import main

    onnx.save(dense("n"), str(tmp_path / "m.onnx"))
    package = tmp_path / "m.mgnpkg"
    arguments = [tmp_path / "m.onnx", "--dim", "n=3", "--emit=package", "-o", package]
    outcome = run_in_process(main, list(map(str, arguments)))
    assert outcome.status == 0, outcome.stderr
    assert "2 of 2 parameters embedded" in outcome.stderr
    found = mgn.load_package(package)(x=X)["y"]
    np.testing.assert_allclose(found, reference(dense(), {"x": X})[0], rtol=1e-5, atol=1e-6)


def test_weights_of_another_shape_are_named(tmp_path: Path) -> None:
    from mgn.commands.run import main

    onnx.save(dense(), str(tmp_path / "m.onnx"))
    np.savez(tmp_path / "w.npz", w=W[:, :2], b=B)
    outcome = run_in_process(main, [str(tmp_path / "m.onnx"), "--params", str(tmp_path / "w.npz")])
    assert outcome.status == 1
    assert "'w'" in outcome.stderr and "[5, 8]" in outcome.stderr


def test_a_file_that_is_no_model_is_an_error(tmp_path: Path) -> None:
    whole = dense().SerializeToString()
    path = tmp_path / "broken.onnx"
    for data in (b"", b"no model at all", whole[: len(whole) // 2], whole[40:]):
        path.write_bytes(data)
        with pytest.raises(mgn.MgnError, match=r"broken\.onnx"):
            mgn.from_onnx(path).lower()
    with pytest.raises(mgn.MgnError, match="no such file"):
        mgn.from_onnx(tmp_path / "missing.onnx")


# ---- errors of models


def problem(made: Any, **options: Any) -> str:
    """What is said of a model that cannot be read."""
    with pytest.raises(mgn.DiagnosticsError) as caught:
        mgn.from_onnx(made, **options).lower()
    return str(caught.value)


def test_every_unsupported_operator_is_named_with_its_node_and_what_to_do() -> None:
    nodes = [
        node("Frobnicate", ["x"], ["a"], name="first", domain="acme"),
        node("NonMaxSuppression", ["x", "a"], ["y"], name="second"),
    ]
    said = problem(model(nodes, {"x": X}, domains={"acme": 1}))
    assert "<model>:2:3: error: node 'first': operator acme.Frobnicate is not supported" in said
    assert "node 'second': operator NonMaxSuppression is not supported" in said
    assert "docs/onnx.md" in said and "y = NonMaxSuppression(x, a)" in said


def test_a_value_that_has_to_be_known_is_named_and_can_be_given() -> None:
    shape = np.array([8, 3])
    made = model([node("Reshape", ["x", "to"], ["y"], name="fold")], {"x": X, "to": shape})
    said = problem(made)
    assert "node 'fold': Reshape: input 1 of Reshape must be known" in said
    assert "constants = {'to': …}" in said
    check(made, {"x": X, "to": shape}, constants={"to": shape})
    assert "'to' is not optional" in problem(made, constants={"to": None})
    assert "'to' is int64, and its constant is float32" in problem(made, constants={"to": X})
    assert "did you mean 'to'" in problem(made, constants={"too": shape})


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([node("Add", ["x", "z"], ["y"])], "input 'z' is made by no node before it"),
        (
            [node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"])],
            "output 'y' has a value already: each name is made once",
        ),
        ([node("Relu", ["x"], ["x"]), node("Neg", ["x"], ["y"])], "output 'x' has a value"),
        ([node("Add", ["x", "x"], ["t"])], "the output of graph 'main', 'y' is made by no node"),
        ([node("Concat", ["x", "x"], ["y"], axis=5)], "axis 5 is out of range"),
        ([node("Transpose", ["x"], ["y"], perm=[0])], "Transpose: "),
        ([node("MatMul", ["x", "x"], ["y"])], "MatMul: "),
        ([node("Cast", ["x"], ["y"], to=14)], "mgn has no element type complex64"),
        ([node("Split", ["x"], ["y", "z"], axis=0)], ""),
    ],
)
def test_what_is_wrong_with_a_node_is_an_error(nodes: list[Any], message: str) -> None:
    made = model(nodes, {"x": X})
    if message:
        assert message in problem(made)
    else:
        assert interpreted(made, {"x": X})[0].shape == (2, 8)


def test_inputs_without_a_shape_or_of_a_type_that_mgn_does_not_have_are_named() -> None:
    made = model([node("Relu", ["x"], ["y"])], {"x": X})
    made.graph.input[0].type.tensor_type.ClearField("shape")
    assert "shapes = {'x': […]}" in problem(made)
    check(made, {"x": X}, shapes={"x": X.shape})
    made.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.UINT64
    assert "input 'x' is uint64" in problem(made, shapes={"x": X.shape})
    made.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.STRING
    assert "input 'x' is strings, which" in problem(made, shapes={"x": X.shape})
    made.graph.input.append(made.graph.input[0])
    assert "there are two inputs 'x'" in problem(made)


def test_a_known_scalar_stays_a_scalar() -> None:
    nodes = [node("Sqrt", ["d"], ["scale"]), node("Sub", ["s", "scale"], ["y"])]
    s, d = np.float32(5.0), np.float32(16.0)
    check(model(nodes, {"s": s}, ["y", "scale"], {"d": d}), {"s": s})


def test_a_constant_has_the_shape_of_its_input() -> None:
    made = model([node("Add", ["x", "one"], ["y"])], {"x": X, "one": X[:1, :1]})
    check(made, {"x": X, "one": X[:1, :1]}, constants={"one": X[:1, :1]})
    (found,) = interpreted(made, {"x": X}, constants={"one": np.float32(2)})
    np.testing.assert_array_equal(found, X + 2)
    assert "input 'one' is [1, 1], and its constant [3, 8]" in problem(made, constants={"one": X})
    shapes = {"x": ["n", 8], "z": ["n", 8]}
    named = model([node("Add", ["x", "z"], ["y"])], {"x": X, "z": X}, shapes=shapes)
    said = problem(named, dims={"n": 2}, constants={"z": X})
    assert "input 'z' is ['n', 8], and its constant [3, 8]" in said


def test_sizes_are_whole_numbers() -> None:
    assert "dimension 'batch' takes whole numbers, not 1.5" in problem(
        dense("batch"), dims={"batch": 1.5}
    )
    said = problem(dense("batch"), shapes={"x": ["three", 8]})
    assert "input 'x' takes whole numbers, not 'three'" in said


def test_a_backend_is_given_as_many_arrays_as_there_are_inputs() -> None:
    from mgn import onnx_backend

    add = node("Add", ["a", "b"], ["c"])
    with pytest.raises(mgn.MgnError, match="1 inputs are given, and the node has 2"):
        onnx_backend.run_node(add, [X])
    prepared = onnx_backend.prepare(dense())
    with pytest.raises(mgn.MgnError, match="2 inputs are given, and the model has 1"):
        prepared.run([X, X])
