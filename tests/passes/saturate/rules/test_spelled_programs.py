"""Composites in the spellings of exporters are the composites: one value, or one kernel."""

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

import mgn
from mgn.dialects.kernel.device import DEVICES
from mgn.dialects.mgn.composite import element_type_of, shape_of
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.structure import GraphOp, ReadOp, graphs_of
from mgn.passes.convert_precision import ConvertPrecision
from mgn.passes.saturate import DEFAULT_CLASSES, RuleClass, SaturateOptions, saturate_graph
from mgn.passes.simplify import simplify_graph
from tests.passes.saturate.rules.examples.spelled_programs import (
    ATTENTION,
    DIVIDED,
    FAST,
    OVERFLOWING,
    ROWS,
    SAME,
    TURNED_FIRST,
    divided,
    turned_first,
)
from tests.passes.saturate.saturate_programs import body_names, kernels_of

WITH_FAST = SaturateOptions(classes=DEFAULT_CLASSES | {RuleClass.FAST})


def options_of(name: str) -> SaturateOptions:
    """The classes of rules that a spelling needs."""
    return WITH_FAST if name in FAST else SaturateOptions()


def the_graph(module: ModuleOp) -> GraphOp:
    (graph,) = graphs_of(module)
    return graph


def _drawn(rng: np.random.Generator, value: SSAValue) -> np.ndarray:
    """Numbers; or choices, of which those of the first batch are all false."""
    array = rng.standard_normal(shape_of(value))
    if element_type_of(value).name != "bool":
        return array
    chosen = array > 0
    chosen[0] = False
    return chosen


def check_values(lowered: ModuleOp, after: GraphOp, rounding: float = 0.0) -> None:
    """A program and what was made of it compute the same of random inputs, but for roundings of
    shares of these.
    """
    before, rng = the_graph(lowered), np.random.default_rng(0)
    inputs = {
        name: _drawn(rng, argument)
        for name, argument in zip(before.input_names, before.block.args, strict=True)
    }
    reads = [op for op in before.walk() if isinstance(op, ReadOp)]
    parameters = {read.parameter_name: _drawn(rng, read.result) / 8 for read in reads}
    wanted = Interpreter(parameters, wide=True).run(before, inputs)
    slack = 1e-6 + rounding * max(np.abs(array).max() for array in inputs.values())
    for name, value in Interpreter(parameters, wide=True).run(after, inputs).items():
        np.testing.assert_allclose(value, wanted[name], rtol=1e-6, atol=slack)


@pytest.mark.parametrize("name", list(SAME))
def test_a_spelling_and_its_composite_are_one_value(name: str) -> None:
    lines, composite = SAME[name]
    program = mgn.parse(f"graph t({ROWS}) {{\n{lines}\nreturn z, w = {composite}\n}}")
    graph = the_graph(mgn.optimize(program, saturation=options_of(name)).module)
    spelled, whole = graph.results_returned
    assert spelled is whole
    check_values(program.lower(), graph)


@pytest.mark.parametrize("name", sorted(FAST & SAME.keys()))
def test_a_spelling_that_is_a_composite_in_fast_rules_alone_is_not_one_by_default(
    name: str,
) -> None:
    """Else the row that makes it one need not be fast."""
    lines, composite = SAME[name]
    program = mgn.parse(f"graph t({ROWS}) {{\n{lines}\nreturn z, w = {composite}\n}}")
    graph = the_graph(mgn.optimize(program).module)
    spelled, whole = graph.results_returned
    assert spelled is not whole
    check_values(program.lower(), graph)


@pytest.mark.parametrize("name", list(OVERFLOWING))
def test_a_spelling_that_overflows_is_another_value_unless_approximations_may_act(
    name: str,
) -> None:
    """Were they one, the program's own composite could be computed as what overflows."""
    lines, composite = OVERFLOWING[name]
    program = mgn.parse(f"graph t({ROWS}) {{\n{lines}\nreturn z, w = {composite}\n}}")
    for classes in (DEFAULT_CLASSES, frozenset(RuleClass)):
        graph = the_graph(program.lower())
        simplify_graph(graph)
        saturate_graph(graph, DEVICES["cpu"], SaturateOptions(classes=classes))
        spelled, whole = graph.results_returned
        assert (spelled is whole) == (RuleClass.APPROXIMATES in classes)
        check_values(program.lower(), graph)


@pytest.mark.parametrize("name", list(ATTENTION))
def test_attention_in_other_words_is_one_kernel(name: str) -> None:
    program = mgn.parse(ATTENTION[name])
    optimized = mgn.optimize(program, saturation=options_of(name))
    (kernel,) = optimized.report.kernels
    assert "attention" in kernel.operations
    check_values(program.lower(), the_graph(optimized.module))


@pytest.mark.parametrize(("precision", "rounding"), [("tf32", 2.0**-11), ("bf16", 0.0)])
@pytest.mark.parametrize("name", list(ATTENTION))
def test_attention_in_other_words_is_attention_where_operands_are_rounded(
    name: str, precision: str, rounding: float
) -> None:
    """Its shares, which come to 1, are not rounded then; in f64 a cast rounds nothing."""
    program = mgn.parse(ATTENTION[name])
    optimized = mgn.optimize(program, precision=precision, saturation=options_of(name))
    operations = [name for kernel in optimized.report.kernels for name in kernel.operations]
    assert operations.count("attention") == 1
    assert "matmul" not in operations
    lowered = program.lower()
    ConvertPrecision(precision).apply(Context(), lowered)
    check_values(lowered, the_graph(optimized.module), rounding)


BEFORE_SCORES = [name for name in DIVIDED if name.startswith(("queries", "keys"))]
"""What is divided before scores are computed: it stays there, within the kernel."""


@pytest.mark.parametrize("name", list(DIVIDED))
def test_a_constant_that_divides_scores_is_attention_s_scale(name: str) -> None:
    programs = [mgn.parse(text) for text in divided(name)]
    graphs = [the_graph(mgn.optimize(program).module) for program in programs]
    quotient, product = ([body_names(kernel) for kernel in kernels_of(graph)] for graph in graphs)
    if name in BEFORE_SCORES:
        quotient = [[item for item in body if item != "div"] for body in quotient]
    assert quotient == product


@pytest.mark.parametrize("device", ["cpu", "nvidia-h200"])
@pytest.mark.parametrize("name", list(TURNED_FIRST))
def test_heads_that_are_turned_early_get_the_kernels_of_heads_that_lie(
    name: str, device: str
) -> None:
    """Queries, keys and values are read where their kernel writes them."""
    spelled, plain = (mgn.parse(text) for text in turned_first(name))
    ours, wanted = (mgn.optimize(program, device=device) for program in (spelled, plain))
    assert len(ours.report.kernels) <= len(wanted.report.kernels)
    check_values(spelled.lower(), the_graph(ours.module))
