"""Programs that are large, or grow large while they are lowered: in linear time, or a message."""

import time
from collections.abc import Callable

import numpy as np
import pytest

import mgn
from mgn.diagnostics import DiagnosticsError
from mgn.dialects.mgn.structure import graphs_of
from mgn.driver.pipelines import PipelineError, parse_passes
from mgn.modules.dialect_table import make_context
from mgn.modules.mlir_text import check_module, parse_mlir, print_mlir
from mgn.modules.module import load_program
from mgn.passes.saturate.encoding.encode import MOST_JOINED, encode_graph
from mgn.passes.saturate.rules.patterns import PatternError, parse_pattern

GRAPH = "graph g(x: f32[4]) {{ y = x\n {}\n return y }}"


def seconds_of(action: Callable[[], object]) -> float:
    """The processor time of an action."""
    start = time.process_time()
    action()
    return time.process_time() - start


DOUBLING = "\n".join(
    f"fn f{i}({{0}}) {{{{ return f{i + 1}({{1}}) + f{i + 1}({{1}}) }}}}" for i in range(40)
)


@pytest.fixture
def low_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits on unrolling that are met soon."""
    monkeypatch.setattr("mgn.frontend.lowering.context.MOST_OPERATIONS", 5000)
    for module in ("context", "expressions"):
        monkeypatch.setattr(f"mgn.frontend.lowering.{module}.MOST_STEPS", 100_000)


@pytest.mark.usefixtures("low_limits")
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("t = [1]; for i in 0..60 { t = t + t }", "a list may hold 100,000 items"),
        ("t = [1]; for i in 0..60 { t = [t, t] }", "a list may hold 100,000 items"),
        ("t = [1]; for i in 0..9000 { t = [t] }", "lists nested more than 100 deep"),
        ("t = [x]; for i in 0..60 { t = t + t }\n y = concat(t)", "a list may hold 100,000 items"),
        ("t = [1]; for i in 0..1000000 { t = t + [i] }", "more than 100,000 statements and expr"),
        ("for i in 0..1000000 { a = " + "1 + " * 900 + "1 }", "more than 100,000 statements and"),
        ("y = constant(1.0, shape = [1000000, 1000000])", "has more than 16,777,216 elements"),
        ("t = [1]; for i in 0..9 { t = t + t }\n y = reshape(x, t + [4])", "at most 64 axes"),
        (
            't = "a"; for i in 0..13 { t = t + t }\n scope t { scope t { param w: f32[4] } }',
            "an external name may have 10000 characters",
        ),
    ],
)
def test_what_grows_without_bound_is_stopped_with_its_place(body: str, message: str) -> None:
    def refused() -> None:
        with pytest.raises(DiagnosticsError, match=rf"t\.mgn:\d+:\d+: error: .*{message}"):
            mgn.parse(GRAPH.format(body), "t.mgn")

    assert seconds_of(refused) < 5


@pytest.mark.usefixtures("low_limits")
@pytest.mark.parametrize(
    ("formal", "argument", "first", "message"),
    [
        ("x", "x", "y = f0(y)", "more than 5,000 operations"),
        ("n: int", "n", "z = f0(1)", "more than 100,000 statements and expressions"),
    ],
)
def test_calls_that_multiply_are_stopped(
    formal: str, argument: str, first: str, message: str
) -> None:
    functions = DOUBLING.format(formal, argument) + f"\nfn f40({formal}) {{ return {argument} }}\n"
    with pytest.raises(DiagnosticsError, match=message):
        mgn.parse(functions + GRAPH.format(first), "t.mgn")


def test_results_of_calls_that_hold_results_are_counted() -> None:
    function = "fn f(t) { return t, t }\n"
    with pytest.raises(DiagnosticsError, match="a list may hold 100,000 items"):
        mgn.parse(function + GRAPH.format("t = 1; for i in 0..60 { t = f(t) }\n y = x + t"))


def test_a_program_may_spell_more_than_unrolling_may_make() -> None:
    numbers = ", ".join("1.0" for _ in range(110_000))
    module = mgn.parse(f"graph g(x: f32[110000]) {{ return y = x +\n constant([{numbers}]) }}")
    assert len(module.lower().regions[0].block.ops) == 1


def test_a_chain_of_thousands_of_consts_is_evaluated() -> None:
    consts = "\n".join(f"const C{i} = C{i + 1} + 1" for i in range(5000))
    module = mgn.parse(f"{consts}\nconst C5000 = 1\ngraph g(x: f32[C0]) {{ return y = relu(x) }}")
    assert "tensor<5001xf32>" in str(module)


def test_a_const_behind_a_known_condition_is_not_needed() -> None:
    mgn.parse("const A = true or B\nconst B = A\n" + GRAPH.format("if B { y = relu(x) }"))


def functions(count: int) -> str:
    return "".join(f"fn f{i}(x) {{ return x + {i}.0 }}\n" for i in range(count))


def blank_lines(count: int) -> str:
    return "\n" * (200 * count)


def comments(count: int) -> str:
    return "// a\n /* b\n */" * (60 * count)


@pytest.mark.usefixtures("without_old_objects")
@pytest.mark.parametrize("part", [functions, blank_lines, comments])
def test_the_time_for_a_text_does_not_grow_with_its_square(part: Callable[[int], str]) -> None:
    """Twenty times the text would take 400 times as long. What is linear has steps, too."""
    short, long = (f"{part(count)}{GRAPH.format('y = relu(x)')}" for count in (250, 5000))
    least = min(seconds_of(lambda: mgn.parse(short)) for _ in range(3))
    assert seconds_of(lambda: mgn.parse(long)) < 150 * least


@pytest.mark.usefixtures("without_old_objects")
def test_many_statements_are_parsed_lowered_and_verified_in_linear_time() -> None:
    def times(count: int) -> list[float]:
        text = GRAPH.format("\n".join("  y = relu(y) + x" for _ in range(count)))
        module = mgn.parse(text).lower()
        printed = print_mlir(module)
        return [
            seconds_of(lambda: mgn.parse(text).lower()),
            seconds_of(lambda: check_module(module)),
            seconds_of(lambda: parse_mlir(printed, make_context())),
        ]

    few, many = times(750), times(3_000)
    assert all(long < 10 * short for short, long in zip(few, many, strict=True)), (few, many)


def test_places_after_blank_lines_comments_and_texts_are_right() -> None:
    text = "// a\n\n/* b\n c */ const A = 1\n\n\n/* d */ const B = \\\n"
    with pytest.raises(DiagnosticsError, match=r"t\.mgn:7:19: error: '.' cannot stand here"):
        mgn.parse(text, "t.mgn")


@pytest.mark.parametrize("operands", [3, 33, 100])
def test_a_concat_of_many_operands_has_their_values(operands: int) -> None:
    inputs = ", ".join(f"x{i}: f32[{i % 3}, 4]" for i in range(operands))
    names = ", ".join(f"x{i}" for i in range(operands))
    program = f"graph g({inputs}) {{ return y = concat([{names}], axis = 0) }}"
    rng = np.random.default_rng(0)
    arrays = {f"x{i}": rng.random((i % 3, 4), np.float32) for i in range(operands)}
    result = mgn.compile(mgn.parse(program))(**arrays)["y"]
    np.testing.assert_array_equal(result, np.concatenate(list(arrays.values())))


def test_a_concat_of_two_thousand_operands_is_compiled_in_pieces() -> None:
    names = ", ".join("x" for _ in range(2000))
    module = mgn.parse(f"graph g(x: f32[4]) {{ return y = concat([{names}]) }}")
    assert len(mgn.optimize(module).report.kernels) >= 1
    (graph,) = graphs_of(module.lower())
    nodes = encode_graph(graph).facts.new_nodes
    assert max(len(fact.operands) for _, fact in nodes) <= MOST_JOINED


@pytest.mark.parametrize("text", ["-" * 3000 + "x", "neg(" * 150 + "x" + ")" * 150, "(" * 9000])
def test_a_pattern_nested_too_deep_is_refused(text: str) -> None:
    with pytest.raises(PatternError):
        parse_pattern(text)


def test_a_number_that_its_type_does_not_hold_is_an_error_in_mlir() -> None:
    text = "\nmgn.constant dense<1e55> : tensor<f32>"
    with pytest.raises(DiagnosticsError, match=r"t\.mlir:2:\d+: error: "):
        load_program("mlir", text, "t.mlir")


def test_mlir_nested_too_deep_is_an_error_with_its_place() -> None:
    text = '"a.b"() {a = ' + "[" * 3000
    with pytest.raises(DiagnosticsError, match=r"t\.mlir:1:\d+: error: "):
        load_program("mlir", text, "t.mlir")


def test_a_number_too_long_for_python_in_a_pipeline_is_a_message() -> None:
    with pytest.raises(PipelineError, match="cannot read the pipeline") as caught:
        parse_passes("saturate{time=" + "9" * 5000 + "}")
    assert len(str(caught.value)) < 1000
