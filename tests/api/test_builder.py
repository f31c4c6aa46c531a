"""The Python builder makes the modules that the text makes; errors point at the caller."""

import inspect
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import mgn
from mgn import nn, ops
from mgn.diagnostics import DiagnosticsError
from mgn.dialects.mgn import OPERATIONS
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.structure import graphs_of, parameters_of
from mgn.frontend.program import parse


def assert_same(module: ModuleOp, text: str) -> None:
    module.verify()
    wanted = parse(text).lower()
    assert module.is_structurally_equivalent(wanted), f"{module}\n{wanted}"


def test_the_builder_and_the_text_give_the_same_module() -> None:
    with mgn.graph("g") as g:
        x = g.input("x", "f32[2, 3]")
        h = g.input("h", "f16[3]")
        with g.scope("a"):
            w = g.param("w", "f32[3]", nn.normal(std=0.02))
        y = 2 * x + w - x[0, ::-1] / 4
        z = (-y @ y.T) ** 2 % 3
        c = ops.where(x >= 1, x, 0.5)
        first, second = ops.split(c, [1, 2], axis=1)
        g.output(y=y, z=z, first=first, second=ops.concat([second, x], axis=-1), k=h[None, ..., 1:])
    assert_same(
        g.module,
        """
        graph g(x: f32[2, 3], h: f16[3]) {
          scope "a" { param w: f32[3] = normal(std = 0.02) }
          y = 2 * x + w - x[0, ::-1] / 4
          z = (-y @ y.T) ** 2 % 3
          first, second = split(where(x >= 1, x, 0.5), [1, 2], axis = 1)
          return y, z, first, second = concat([second, x], axis = -1), k = h[none, ..., 1:]
        }
        """,
    )


def test_the_contracts_example_builds_and_computes() -> None:
    with mgn.graph("mlp") as g:
        x = g.input("x", "f32[4, 8]")
        h = ops.relu(nn.Linear(8, 5)(x))
        g.output(logits=nn.Linear(5, 3)(h))
    parameters = parameters_of(g.module)
    assert list(parameters) == ["linear.weight", "linear.bias", "linear_1.weight", "linear_1.bias"]
    rng = np.random.default_rng(0)
    arrays = {
        name: rng.standard_normal(op.type.get_shape()).astype(np.float32)
        for name, op in parameters.items()
    }
    x_array = rng.standard_normal((4, 8)).astype(np.float32)
    (graph,) = graphs_of(g.module)
    result = Interpreter(arrays).run(graph, {"x": x_array})["logits"]
    hidden = np.maximum(x_array @ arrays["linear.weight"].T + arrays["linear.bias"], 0)
    wanted = hidden @ arrays["linear_1.weight"].T + arrays["linear_1.bias"]
    np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)


def test_layers_are_named_as_in_a_state_dict() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            self.norm = nn.LayerNorm(4)
            self.fc = nn.Sequential(nn.Linear(4, 4, bias=False), ops.silu, nn.RMSNorm(4))

        def forward(self, x: mgn.builder.Value) -> mgn.builder.Value:
            return x + self.fc(self.norm(x))

    class Net(nn.Module):
        def __init__(self) -> None:
            self.embed = nn.Embedding(10, 4)
            self.layers = [Block(), Block()]

        def forward(self, ids: mgn.builder.Value) -> mgn.builder.Value:
            x = self.embed(ids)
            for layer in self.layers:
                x = layer(x)
            return x

    with mgn.graph("net") as g:
        g.output(y=Net()(g.input("ids", "i32[2, 3]")))
    g.module.verify()
    layer = ["norm.weight", "norm.bias", "fc.0.weight", "fc.2.weight"]
    wanted = [f"layers.{i}.{name}" for i in range(2) for name in layer]
    assert list(parameters_of(g.module)) == ["embed.weight", *wanted]


def test_a_layer_called_twice_shares_its_parameters_and_two_layers_do_not() -> None:
    layer = nn.Linear(3, 3, bias=False, name="fc")
    with mgn.graph("g") as g:
        x = g.input("x", "f32[2, 3]")
        g.output(y=layer(layer(x)))
    assert list(parameters_of(g.module)) == ["fc.weight"]
    with pytest.raises(DiagnosticsError, match=r"two layers have a parameter 'fc\.weight'"):  # noqa: SIM117
        with mgn.graph("g") as g:
            nn.Linear(3, 3, name="fc")(layer(g.input("x", "f32[2, 3]")))


def test_every_operation_is_a_function_with_its_signature_and_summary() -> None:
    for name, spec in OPERATIONS.items():
        function = getattr(ops, name)
        assert function.__name__ == name
        assert function.__doc__ == spec.summary
        assert list(inspect.signature(function).parameters) == [i.name for i in spec.signature]
    wanted = "(x, axis=None, keepdims=False)"
    assert str(inspect.signature(ops.sum)) == wanted
    with pytest.raises(AttributeError, match="no operation 'rellu'; did you mean 'relu'"):
        ops.rellu  # noqa: B018


def test_arrays_and_numbers_become_constants() -> None:
    with mgn.graph("g") as g:
        x = g.input("x", "f32[2]")
        g.output(
            a=x + np.array([1, 2], np.float32),
            b=ops.constant([1.5, 2.5]),
            c=ops.full([2], 3, T=np.int32),
            d=ops.cast(x, np.float16) * np.float32(2),
            e=4,
        )
    (graph,) = graphs_of(g.module)
    results = Interpreter().run(graph, {"x": np.array([1, 1], np.float32)})
    assert results["a"].tolist() == [2, 3]
    assert (results["b"].dtype, results["b"].tolist()) == (np.float32, [1.5, 2.5])
    assert results["c"].dtype == np.int32
    assert (results["d"].dtype, results["d"].tolist()) == (np.float16, [2, 2])
    assert results["e"].dtype == np.int32


def test_bools_are_joined_and_turned_by_pythons_operators() -> None:
    with mgn.graph("g") as g:
        x = g.input("x", "f32[4]")
        g.output(both=(x > 0) & (x < 2), one=(x > 0) | True, no=~(x > 0), other=False | (x > 1))
        with pytest.raises(DiagnosticsError, match="operand 'a' must be bool, not f32"):
            ops.identity(x & x)
        with pytest.raises(DiagnosticsError, match="operand 'x' must be bool, not f32"):
            ops.identity(~x)
    (graph,) = graphs_of(g.module)
    values = np.array([-1, 0, 1, 2], np.float32)
    found = Interpreter().run(graph, {"x": values})
    np.testing.assert_array_equal(found["both"], (values > 0) & (values < 2))
    np.testing.assert_array_equal(found["one"], np.ones(4, np.bool_))
    np.testing.assert_array_equal(found["no"], ~(values > 0))
    np.testing.assert_array_equal(found["other"], values > 1)


def test_numpys_operators_leave_values_to_the_graph_and_its_functions_refuse_them() -> None:
    array = np.array([[1, 2], [3, 4]], np.float32)
    with mgn.graph("g") as g:
        x = g.input("x", "f32[2, 2]")
        g.output(a=array - x, b=np.float32(6) / x, c=array @ x, d=array > x)
        with pytest.raises(TypeError, match="does not support ufuncs"):
            np.exp(x)  # pyright: ignore
    (graph,) = graphs_of(g.module)
    given = np.array([[2, 1], [1, 3]], np.float32)
    results = Interpreter().run(graph, {"x": given})
    for name, wanted in zip(
        "abcd", (array - given, 6 / given, array @ given, array > given), strict=True
    ):
        np.testing.assert_array_equal(results[name], wanted)


def test_an_error_points_at_the_line_and_column_of_the_caller() -> None:
    with pytest.raises(DiagnosticsError) as caught, mgn.graph("g") as g:
        x = g.input("x", "f32[2, 3]")
        ops.relu(x) + ops.matmul(x, x)
    (error,) = caught.value.diagnostics
    source = Path(__file__).read_text().splitlines()
    assert error.file == __file__
    assert source[error.line - 1].strip() == "ops.relu(x) + ops.matmul(x, x)"
    assert source[error.line - 1][error.column - 1 :] == "ops.matmul(x, x)"
    assert error.message == "matmul of [2, 3] and [2, 3]: inner sizes 3 and 2 differ"
    assert "^" in str(error)


def test_operations_carry_the_place_of_the_caller() -> None:
    with mgn.graph("g") as g:
        x = g.input("x", "f32[2]")
        g.output(y=ops.relu(x))
    (graph,) = graphs_of(g.module)
    assert graph.block.first_op is not None
    assert __file__ in str(graph.block.first_op.location)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g, x: ops.sum(x, axes=1), "has no argument 'axes'; did you mean 'axis'"),
        (lambda g, x: g.input("x", "f32[2]"), "there are two inputs 'x'"),
        (lambda g, x: g.input("z", "f33[2]"), "unknown element type 'f33'; did you mean 'f32'"),
        (lambda g, x: g.input("z", "f32[a]"), "is no tensor type; write it as"),
        (lambda g, x: g.input("a.b", "f32"), "'a.b' is no name for an input"),
        (lambda g, x: g.input("q", "q8_0[32]"), "only a parameter can have a block format"),
        (lambda g, x: g.input("q", "i8[9000000000, 9000000000]"), "is too large"),
        (lambda g, x: g.param("w", "u8[2]", nn.constant(-1)), "'w': constant.-1. does not fit u8"),
        (lambda g, x: x[x], "a list or tensor is no index"),
        (lambda g, x: x[[0, 1]], "a list or tensor is no index"),
        (lambda g, x: x + np.array([1.0, 2.0]), "different element types f32 and f64"),
        (lambda g, x: g.output(x="a"), "output 'x' is not a value of this graph"),
        (lambda g, x: ops.constant(["a"]), "there is no element type for"),
        (lambda g, x: (g.param("w", "f32[1]"), g.param("w", "f32[2]")), "is f32.1. already"),
        (
            lambda g, x: (g.param("w", "f32", nn.ones()), g.param("w", "f32", nn.zeros())),
            r"'w' is ones\(\) at first, not zeros\(\)",
        ),
        (lambda g, x: g.module, "graph 'g' is not finished"),
    ],
)
def test_wrong_calls_are_diagnostics(call: object, message: str) -> None:
    assert callable(call)
    with pytest.raises(DiagnosticsError, match=message), mgn.graph("g") as g:
        call(g, g.input("x", "f32[2]"))


def test_operations_outside_a_graph_or_of_another_graph_are_errors() -> None:
    with pytest.raises(DiagnosticsError, match="no graph is being built"):
        ops.iota([3])
    with pytest.raises(DiagnosticsError, match="graph 'g' has no output"), mgn.graph("g") as g:
        other = g.input("x", "f32[2]")
    with pytest.raises(DiagnosticsError, match="a value of another graph"), mgn.graph("h") as h:
        h.input("x", "f32[2]") + other
    with pytest.raises(TypeError, match="no truth value"):
        bool(other)
    with pytest.raises(AttributeError, match=r"a value has no 'reshpe'; did you mean 'reshape'\?"):
        _ = other.reshpe  # pyright: ignore
    with pytest.raises(AttributeError, match=r"a value has no 'sahpe'; did you mean 'shape'\?"):
        _ = other.sahpe  # pyright: ignore
    with pytest.raises(AttributeError, match=r"no 'concat'; write ops.concat"):
        _ = other.concat  # pyright: ignore
    with pytest.raises(AttributeError, match=r"a value has no '__len__'"):
        _ = other.__len__  # pyright: ignore


def test_operations_are_methods_of_their_first_operand() -> None:
    with mgn.graph("g") as g:
        x = g.input("x", "f32[2, 3]")
        assert (x.ndim, x.size, x.dtype, x.shape) == (2, 6, np.float32, (2, 3))
        g.output(
            a=x.reshape(3, 2), b=x.reshape([6]), c=x.sum(axis=0), d=x.max(), e=x.astype("f64"),
            f=x.permute(1, 0).softmax(), g=x.add(1.0).relu(), h=x.to("i32").argmax(axis=-1),
        )  # fmt: skip
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = Interpreter().run(next(graphs_of(g.module)), {"x": array})
    np.testing.assert_array_equal(found["a"], array.reshape(3, 2))
    np.testing.assert_array_equal(found["c"], array.sum(0))
    assert found["d"] == 5 and found["e"].dtype == np.float64 and found["f"].shape == (3, 2)
    np.testing.assert_array_equal(found["g"], array + 1)
    np.testing.assert_array_equal(found["h"], [2, 2])
