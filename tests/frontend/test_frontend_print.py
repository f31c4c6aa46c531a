"""`print_mgn` gives text that parses and lowers to the same module."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from mgn.dialects.mgn import OPERATIONS
from mgn.dialects.mgn.structure import ConstantOp, GraphOp
from mgn.frontend.print_mgn import PrintError, print_mgn
from mgn.frontend.program import parse
from tests.frontend.operation_examples import EXAMPLES, HEADER


def assert_round_trips(module: ModuleOp) -> None:
    text = print_mgn(module)
    again = parse(text).lower()
    again.verify()
    assert module.is_structurally_equivalent(again), text


def test_every_operation_has_an_example() -> None:
    assert sorted(set(OPERATIONS) - set(EXAMPLES)) == []


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_one_operation_round_trips(name: str) -> None:
    program = f"graph g({HEADER}) {{ r = {EXAMPLES[name]}\n return r }}"
    module = parse(program).lower()
    names = [op.name for op in module.walk()]
    assert f"mgn.{name}" in names
    assert_round_trips(module)


_LITERAL = st.one_of(
    st.integers(-9, 9).map(str),
    st.floats(width=32, allow_nan=False).map(lambda v: str(v).replace("(", "")),
    st.sampled_from(["nan", "-inf", "inf", "-0.0", "1e-5"]),
)
_STATEMENT = st.one_of(
    st.sampled_from(sorted(EXAMPLES.values())),
    st.builds(
        "{} {} {}".format,
        st.sampled_from(["x", "y", "w", "(-x)"]),
        st.sampled_from(["+", "-", "*", "/", "%", "**", "==", "<", ">="]),
        _LITERAL,
    ),
    st.builds("{} {} {}".format, _LITERAL, st.sampled_from(["+", "-", "**", "!="]), st.just("x")),
    st.builds("constant({}, T = {}) + {}".format, _LITERAL, st.just("f32"), st.just("v")),
    st.builds("where(c, {}, {})".format, _LITERAL, _LITERAL),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(_STATEMENT, min_size=1, max_size=8))
def test_random_programs_round_trip(statements: list[str]) -> None:
    lines = "\n".join(f"  r{i} = {text}" for i, text in enumerate(statements))
    results = ", ".join(f"r{i}" for i in range(len(statements)))
    program = (
        f'param p: f32[2, 4] as "a.p" = normal(0.0, 0.5)\ngraph g({HEADER}) {{\n'
        f"  param q: f32[4] = ones()\n{lines}\n  z = x * p + q\n  return z, {results}\n}}"
    )
    assert_round_trips(parse(program).lower())


def test_parameters_round_trip_beside_graphs_of_their_names() -> None:
    text = """
    graph a(x: f32[2]) { param b: f32[2]; param u: f32[2]; return y = x + b + u }
    graph b(x: f32[2]) { param u: f32[2]; param b: f32[2]; param a: f32[2]; return y = x + a }
    param unread: f32[2]
    """
    assert_round_trips(parse(text).lower())


def test_parameters_that_no_graph_reads_and_their_order_stay() -> None:
    module = parse(
        'param b: f32[2] as "x.b" = uniform(-1, 1)\nparam a: q8_0[4, 32]\nparam unread: f16[]\n'
        "graph g(x: f32[2]) { return y = x + b }"
    ).lower()
    text = print_mgn(module)
    assert text.startswith(
        'param x_b: f32[2] as "x.b" = uniform(-1.0, 1.0)\nparam a: q8_0[4, 32]\n'
    )
    assert_round_trips(module)


@pytest.mark.parametrize(
    "array",
    [
        np.array([[1.5, -2.0], [np.inf, np.nan]], np.float32),
        np.arange(300, dtype=np.int64).reshape(3, 100) - 2**40,
        np.full((100,), 0.1, np.float64),
        np.array([True, False]),
        np.array(7, np.uint8),
        np.zeros((0, 3), np.float16),
    ],
)
def test_any_constant_round_trips(array: np.ndarray) -> None:
    module = parse("graph g(x: f32[2]) { return x }").lower()
    graph = next(op for op in module.ops if isinstance(op, GraphOp))
    constant = ConstantOp.from_array(array)
    graph.block.insert_op_before(constant, graph.return_op)
    assert_round_trips(module)


def test_a_name_that_the_language_lacks_is_an_error() -> None:
    module = parse("graph g(x: f32[2]) { return x }").lower()
    graph = next(op for op in module.ops if isinstance(op, GraphOp))
    replaced = GraphOp("g", ["a.b"], ["x"], graph.detach_region(graph.body))
    with pytest.raises(PrintError, match=r"'a\.b' is no name of the language"):
        print_mgn(ModuleOp([replaced]))


def test_an_attribute_of_minus_zero_is_not_its_default() -> None:
    module = parse("graph g(x: f32[2]) { return y = pad(x, [[1, 1]], -0.0) }").lower()
    assert "-0.0" in print_mgn(module)
    assert_round_trips(module)
    (pad,) = (op for op in module.walk() if op.name == "mgn.pad")
    assert "value = -0.0" in str(pad)
