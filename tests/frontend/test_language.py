"""Programs of the language, run by the reference interpreter: each feature with its values."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mgn
from mgn.diagnostics import DiagnosticsError
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.structure import graphs_of, parameters_of
from mgn.frontend.program import parse, parse_file
from mgn.modules.initialisers import initial_value
from tests.conftest import ROOT

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def run(text: str, inputs: dict[str, Any] | None = None, **parameters: Any) -> dict[str, Any]:
    """The results of a program's only graph."""
    module = parse(text).lower()
    module.verify()
    (graph,) = graphs_of(module)
    return Interpreter(parameters).run(graph, {"x": X} if inputs is None else inputs)


def value_of(expression: str, before: str = "") -> Any:
    """The value of an expression in x, f32[2, 3]."""
    text = f"{before}\ngraph g(x: f32[2, 3]) {{ r = {expression}\n return r }}"
    return run(text)["r"]


def number_of(expression: str, before: str = "") -> Any:
    """The value of a compile-time expression."""
    return value_of(expression, before).item()


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("x + 1", X + 1),
        ("2 * x - x / 4", 2 * X - X / 4),
        ("-x ** 2", -(X**2)),
        ("2 ** -x", 2.0**-X),
        ("2 ** 3 ** 2 * x", 512 * X),
        ("(-x) ** 2", X**2),
        ("x @ x.T", X @ X.T),
        ("x - x - x", -X),
        ("x % 2", X % 2),
        ("x > 2", X > 2),
        ("x != 1", X != 1),
        ("1 <= x", X >= 1),
        ("x + x[0]", X + X[0]),
        ("relu(-x + 1) @ transpose(x, [1, 0])", np.maximum(1 - X, 0) @ X.T),
        ("sum(x, axis = -1, keepdims = true)", X.sum(-1, keepdims=True)),
        ("where(x > 2, x, -1)", np.where(X > 2, X, -1)),
    ],
)
def test_operators_have_pythons_precedence_and_numpys_broadcasting(
    expression: str, wanted: np.ndarray
) -> None:
    np.testing.assert_array_equal(value_of(expression), wanted.astype(wanted.dtype))


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("7 / 2", 3),
        ("-7 / 2", -3),
        ("7 % -3", -2),
        ("7.0 / 2", 3.5),
        ("2 ** 3 ** 2", 512),
        ("2 ** -1", 0.5),
        ("-2 ** 2", -4),
        ("1 + 2 * 3 - 4", 3),
        ("1 < 2 < 3", True),
        ("3 > 2 > 2", False),
        ("not 1 == 2 and false or true", True),
        ('"a" + "b" == "ab"', True),
        ("0x1F + 1_000", 1031),
        ("[1, 2, 3][-1]", 3),
        ("sqrt(16.0) + sqrt(9)", 7.0),
        ("max(3, 4) + min(1, 2)", 5),
        ("1e-5", np.float32(1e-5)),
        (".5 + 1.", 1.5),
    ],
)
def test_compile_time_values_are_computed_when_compiling(expression: str, wanted: Any) -> None:
    assert number_of(expression) == wanted


@pytest.mark.parametrize(
    ("index", "wanted"),
    [
        ("0", X[0]),
        ("-1, 1", X[-1, 1]),
        (":, 1:", X[:, 1:]),
        ("::-1, ::2", X[::-1, ::2]),
        ("..., 0", X[..., 0]),
        ("none, :, none, 1", X[None, :, None, 1]),
        ("1:-5:-1", X[1:-5:-1]),
        (":, -2:100", X[:, -2:100]),
        ("2:1", X[2:1]),
        ("...", X),
        (":, 2:0:-2", X[:, 2:0:-2]),
    ],
)
def test_indexing_follows_numpy(index: str, wanted: np.ndarray) -> None:
    np.testing.assert_array_equal(value_of(f"x[{index}]"), wanted)


def test_literals_take_the_other_operands_element_type() -> None:
    text = (
        "graph g(h: f16[2], i: i8[2], b: bool[2]) { p = h * 2\n q = 1 + i\n r = b == true\n "
        "return p, q, r }"
    )
    inputs = {
        "h": np.array([1, 2], np.float16),
        "i": np.array([1, -1], np.int8),
        "b": np.array([True, False]),
    }
    results = run(text, inputs)
    assert [array.dtype for array in results.values()] == [np.float16, np.int8, np.bool_]
    assert results["q"].tolist() == [2, 0]
    assert results["r"].tolist() == [True, False]


def test_a_newline_ends_a_statement_except_in_brackets_and_after_operators_and_commas() -> None:
    text = """
    graph g(
      x: f32[2, 3],
    ) {
      a = x +
        1        // a comment
      b = sum(
        a
        , axis = [0,
                  1]
      ); c = b * 2 /* and
      another */
      d, e =
        c,
        b
      return d,
             e
    }
    """
    assert {k: v.item() for k, v in run(text).items()} == {"d": 42.0, "e": 21.0}


def test_a_loop_is_unrolled_and_rebinds_names_from_outside() -> None:
    text = "graph g(x: f32[2, 3]) {\n y = x\n for i in 1..4 { t = y * i; y = t + 1 }\n return y }"
    wanted = ((X * 1 + 1) * 2 + 1) * 3 + 1
    np.testing.assert_array_equal(run(text)["y"], wanted)
    assert value_of("x[0]", "").shape == (3,)


def test_a_loop_over_an_empty_range_or_a_list_runs_as_often_as_it_has_items() -> None:
    text = (
        "graph g(x: f32[2, 3]) {\n y = x\n for i in 3..3 { y = y * 0 }\n for f in [2, 5] { y "
        "= y * f }\n return y }"
    )
    np.testing.assert_array_equal(run(text)["y"], X * 10)


@pytest.mark.parametrize(("n", "wanted"), [(0, 1.0), (1, 2.0), (7, 3.0)])
def test_if_chooses_at_compile_time(n: int, wanted: float) -> None:
    text = f"""
    const N = {n}
    fn pick(x) {{
      if N == 0 {{ return x * 0 + 1 }}
      else if N == 1 {{ return x * 0 + 2 }}
      else {{
        y = x * 0 + 3
      }}
      return x * 0 + 3
    }}
    graph g(x: f32[2, 3]) {{ r = pick(x); return r }}
    """
    np.testing.assert_array_equal(run(text)["r"], np.full_like(X, wanted))


def test_the_branch_not_taken_is_not_typed() -> None:
    text = "graph g(x: f32[2, 3]) { y = x\n if false { y = x @ x }\n return y }"
    np.testing.assert_array_equal(run(text)["y"], X)


def test_functions_take_keywords_defaults_and_compile_time_types() -> None:
    text = """
    fn scale(x, by: float = 2, shift: int = 0, on: bool = true, tag: str = "t", axes: ints = [0]) {
      if not on { return x }
      return sum(x * by + shift, axis = axes)
    }
    graph g(x: f32[2, 3]) {
      a = scale(x)
      b = scale(x, shift = 1, by = 3, axes = [1])
      c = scale(on = false, x = x)
      return a, b, c
    }
    """
    results = run(text)
    np.testing.assert_array_equal(results["a"], (X * 2).sum(0))
    np.testing.assert_array_equal(results["b"], (X * 3 + 1).sum(1))
    np.testing.assert_array_equal(results["c"], X)


def test_a_function_shadows_an_operation_and_sees_no_names_of_its_caller() -> None:
    text = """
    const K = 10
    fn relu(x) { return x + K }
    fn both(x) { return x, relu(x) }
    graph g(x: f32[2, 3]) { K = 5; a, b = both(x); return a, b, k = x * K }
    """
    results = run(text)
    np.testing.assert_array_equal(results["b"], X + 10)
    np.testing.assert_array_equal(results["k"], X * 5)


def test_a_typed_tensor_parameter_may_use_earlier_parameters() -> None:
    text = (
        "fn f(n: int, x: f32[2, n]) { return x * n }\ngraph g(x: f32[2, 3]) { r = f(3, x); "
        "return r }"
    )
    np.testing.assert_array_equal(run(text)["r"], X * 3)


def test_external_names_come_from_as_scopes_and_braces() -> None:
    text = """
    param shared: f32[3]
    fn lin(x, name: str) {
      param w: f32[3] as "{name}.weight" = normal(std = 0.5)
      return x * w
    }
    graph g(x: f32[2, 3]) {
      for i in 0..2 {
        scope "layers.{i}" {
          h = lin(x, "fc{i * 10 + 1}")
          scope "deep" { param b: f32[] = constant(2) }
        }
        x = h + b * shared
      }
      return x
    }
    """
    module = parse(text).lower()
    parameters = parameters_of(module)
    assert list(parameters) == [
        "shared",
        "layers.0.fc1.weight",
        "layers.0.deep.b",
        "layers.1.fc11.weight",
        "layers.1.deep.b",
    ]
    initialiser = parameters["layers.0.fc1.weight"].initialiser
    assert initialiser is not None
    assert (initialiser.function.data, initialiser.values) == ("normal", (0.0, 0.5))
    assert parameters["shared"].initialiser is None


def test_a_param_may_have_the_name_of_a_graph() -> None:
    text = "graph g(x: f32[2, 3]) { param g: f32[3] = ones(); r = x * g; return r }"
    weights = np.array([1, 2, 3], np.float32)
    np.testing.assert_array_equal(run(text, g=weights)["r"], X * weights)


def test_two_params_of_one_name_and_type_are_one_tensor() -> None:
    text = """
    fn f(x) { param w: f32[3] = ones(); return x * w }
    graph g(x: f32[2, 3]) { r = f(f(x)); return r }
    """
    assert list(parameters_of(parse(text).lower())) == ["w"]
    weights = np.array([1, 2, 3], np.float32)
    np.testing.assert_array_equal(run(text, w=weights)["r"], X * weights * weights)


@pytest.mark.parametrize(
    ("call", "values"),
    [
        ("zeros()", ()),
        ("constant(2)", (2.0,)),
        ("uniform(high = 2, low = -1)", (-1.0, 2.0)),
        ("normal(0.5)", (0.5, 1.0)),
        ("he_normal()", ()),
        ("glorot_uniform()", ()),
    ],
)
def test_initialisers_take_arguments_by_place_and_name(
    call: str, values: tuple[float, ...]
) -> None:
    text = f"graph g(x: f32[2]) {{ param w: f32[2] = {call}\n return y = x + w }}"
    initialiser = parameters_of(parse(text).lower())["w"].initialiser
    assert initialiser is not None
    assert initialiser.values == values


def test_dimensions_have_defaults_and_are_bound_when_lowering() -> None:
    program = parse("const D = 2\ngraph g[B = D + 1, S](x: f32[B, S * 2]) { y = x * S; return y }")
    (graph,) = program.graphs
    assert (graph.dimensions, graph.required) == (("B", "S"), ("S",))
    module = program.lower(dims={"S": 4})
    (op,) = graphs_of(module)
    assert [tuple(a.type.get_shape()) for a in op.block.args] == [(3, 8)]
    module = program.lower(dims={"S": 1, "B": 0}, graph="g")
    (op,) = graphs_of(module)
    assert [tuple(a.type.get_shape()) for a in op.block.args] == [(0, 2)]


def test_an_integer_const_takes_another_value_and_what_is_computed_from_it_follows() -> None:
    program = parse(
        "const D = 4, HALF = D / 2, EPS = 0.5\n"
        "graph g[S = 3](x: f32[S, D]) { y = reshape(x, [-1, HALF]) * EPS; return y }\n"
        "graph h[D = 5](x: f32[D]) { return y = x }"
    )
    assert program.sizes == ("D", "HALF")
    (op,) = graphs_of(program.lower({"D": 6, "S": 2}, "g"))
    assert [tuple(value.type.get_shape()) for value in op.block.last_op.operands] == [(4, 3)]
    (op,) = graphs_of(program.lower({"D": 7}, "h"))
    assert tuple(op.block.args[0].type.get_shape()) == (7,)
    for name, size in (("EPS", 1), ("HALFS", 1), ("HALF", -1)):
        with pytest.raises(DiagnosticsError, match=name):
            program.lower({name: size}, "g")


def test_a_const_of_an_import_takes_another_value_in_all_graphs(tmp_path: Path) -> None:
    (tmp_path / "sizes.mgn").write_text(
        "const D = 4\nfn wide(x) { return broadcast_to(x, [D + 10, D]) }\n"
    )
    (tmp_path / "main.mgn").write_text(
        'import "sizes.mgn"\ngraph a(x: f32[D]) { return y = wide(x) }\n'
        "graph b[S = D](x: f32[S]) { return y = x + D }\n"
    )
    module = mgn.parse_file(tmp_path / "main.mgn")
    dims = module.dims_of(["a", "b"], {"D": 2, "S": 3})
    assert dims == [{"D": 2}, {"D": 2, "S": 3}]
    assert "tensor<12x2xf32>" in str(module.lower("a", dims[0]))
    assert "tensor<3xf32>" in str(module.lower("b", dims[1]))


def test_the_shape_of_a_tensor_is_a_list_of_compile_time_numbers() -> None:
    text = (
        "fn halves(x) { n = x.shape[1]; return reshape(x, [x.shape[0], 2, n / 2]) }\n"
        "graph g(x: f32[2, 6], c: f32[]) { param w: f32[x.shape[-1]] = ones()\n"
        "y = x; if c.shape == [] and x.shape == [2, 6] { y = halves(x * w) }\n"
        "return y = broadcast_to(y, [2] + y.shape) }"
    )
    (graph,) = graphs_of(parse(text).lower())
    assert "tensor<2x2x2x3xf32>" in str(graph)


def test_lowering_one_graph_leaves_out_what_the_others_read() -> None:
    text = (
        "param a: f32[1]\nparam b: f32[1]\ngraph g(x: f32[1]) { return y = x + a }\ngraph "
        "h(x: f32[1]) { return y = x + b }"
    )
    program = parse(text)
    assert list(parameters_of(program.lower())) == ["a", "b"]
    assert list(parameters_of(program.lower(graph="h"))) == ["b"]
    assert [g.sym_name.data for g in graphs_of(program.lower(graph="h"))] == ["h"]


def test_results_are_named_after_variables_or_by_return() -> None:
    text = (
        "graph g(x: f32[2, 3]) { loss = sum(x); return loss, logits = x * 2, three = 3, flag "
        "= true }"
    )
    results = run(text)
    assert list(results) == ["loss", "logits", "three", "flag"]
    assert results["three"].dtype == np.int32
    assert results["flag"].dtype == np.bool_


def test_several_results_are_bound_at_once_or_indexed() -> None:
    text = (
        "graph g(x: f32[2, 3]) { a, b = split(x, [1, 2], axis = 1); c = split(x, [1, 1])[1]\n "
        "a, b = b, a; return a, b, c }"
    )
    results = run(text)
    np.testing.assert_array_equal(results["a"], X[:, 1:])
    np.testing.assert_array_equal(results["b"], X[:, :1])
    np.testing.assert_array_equal(results["c"], X[1:])


def test_a_comma_behind_one_name_takes_a_list_of_one_value_apart() -> None:
    text = (
        "graph g(x: f32[2, 3]) { a, = split(x, [2])\n gx, = grad(sum(x * x), [x])\n"
        "b, c, = split(x, [1, 1]); return a, gx, b, c }"
    )
    results = run(text)
    np.testing.assert_array_equal(results["a"], X)
    np.testing.assert_array_equal(results["gx"], 2 * X)
    np.testing.assert_array_equal(results["b"], X[:1])
    np.testing.assert_array_equal(results["c"], X[1:])


def test_braces_in_a_text_hold_true_false_and_inf_as_they_hold_names() -> None:
    before = 'const N = 3, S = "{true} {false}-{inf} {N}{ N }"'
    assert number_of('S == "true false-inf 33"', before)


def test_a_value_may_have_the_name_of_an_imported_state(tmp_path: Path) -> None:
    (tmp_path / "lib.mgn").write_text("state h: f32[2, 3]\n")
    text = 'import "lib.mgn"\ngraph g(x: f32[2, 3]) { h = x + 1; return h }'
    (tmp_path / "main.mgn").write_text(text)
    (graph,) = graphs_of(parse_file(tmp_path / "main.mgn").lower())
    np.testing.assert_array_equal(Interpreter().run(graph, {"x": X})["h"], X + 1)


def test_constants_may_be_written_in_any_order_and_hold_lists_and_texts() -> None:
    before = 'const A = B * 2, NAMES = ["p", "q"],\n  B = 4\nconst OK = NAMES[1] == "q"'
    assert number_of("A", before) == 8
    assert number_of("OK", before) is True


def test_a_constant_tensor_is_written_as_nested_lists() -> None:
    wanted = np.array([[1, -2], [0, 4]], np.float16)
    np.testing.assert_array_equal(value_of("constant([[1, -2], [0, 4.0]], T = f16)"), wanted)
    assert value_of("constant([1, 2])").dtype == np.int32
    assert value_of("constant(0.5, shape = [2, 2])").tolist() == [[0.5, 0.5], [0.5, 0.5]]


def test_imports_are_relative_to_the_file_and_a_diamond_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "base.mgn").write_text("const K = 3\nparam w: f32[3] = ones()\n")
    (tmp_path / "sub" / "left.mgn").write_text('import "../base.mgn"\nfn left(x) { return x * K }')
    (tmp_path / "right.mgn").write_text('import "base.mgn"\nfn right(x) { return x * w }')
    main = tmp_path / "main.mgn"
    main.write_text(
        'import "sub/left.mgn"\nimport "right.mgn"\n'
        "graph g(x: f32[2, 3]) { r = left(right(x)) + K; return r }"
    )
    module = parse_file(main).lower()
    (graph,) = graphs_of(module)
    result = Interpreter({"w": np.full(3, 2, np.float32)}).run(graph, {"x": X})["r"]
    np.testing.assert_array_equal(result, X * 6 + 3)


def test_operations_carry_the_place_of_their_source() -> None:
    module = parse("graph g(x: f32[2]) {\n  y = x + relu(x)\n  return y\n}", "here.mgn").lower()
    (graph,) = graphs_of(module)
    places = {op.name: str(op.location) for op in graph.block.ops}
    assert places["mgn.relu"] == 'loc("here.mgn":2:11)'
    assert places["mgn.add"] == 'loc("here.mgn":2:9)'


def test_every_element_type_can_be_declared() -> None:
    names = ["f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u32", "u16", "u8", "bool"]
    inputs = ", ".join(f"x_{name}: {name}[2]" for name in names)
    results = ", ".join(f"y_{name} = identity(x_{name})" for name in names)
    text = (
        f"param q: q8_0[4, 64]\nparam p: q4_1[2, 32]\ngraph g({inputs}, s: f32) {{ return s, "
        f"{results} }}"
    )
    module = parse(text).lower()
    module.verify()
    (graph,) = graphs_of(module)
    assert len(graph.block.args) == 13


def test_the_contracts_example_lowers_in_its_full_size() -> None:
    path = ROOT / "examples" / "smollm2.mgn"
    if not path.exists():
        pytest.skip("examples/smollm2.mgn is not there")
    module = parse_file(path).lower()
    assert len(parameters_of(module)) == 30 * 9 + 2


@pytest.mark.parametrize(
    ("type", "initialiser", "low", "high"),
    [
        ("u8", "normal(-50, 10)", 0, 0),
        ("u8", "uniform(300, 400)", 255, 255),
        ("i8", "uniform(-1e9, -1e8)", -128, -128),
        ("u32", "normal(0, 1)", 0, 5),
        ("i64", "uniform(1e30, 1e31)", 2**63 - 1, 2**63 - 1),
        ("f16", "constant(1e6)", np.inf, np.inf),
        ("f16", "uniform(-1e6, -9e5)", -np.inf, -np.inf),
    ],
)
@pytest.mark.filterwarnings("error")
def test_first_values_that_do_not_fit_are_the_nearest_that_do(
    type: str, initialiser: str, low: float, high: float
) -> None:
    program = parse(f"graph g(x: f32) {{ param w: {type}[64] = {initialiser}\n return y = w }}")
    drawn = initial_value(parameters_of(program.lower())["w"], 0)
    assert low <= drawn.min() and drawn.max() <= high
