"""Rules of a user's that make ever more of what they match: they end, and cost nothing."""

from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace

import pytest
from xdsl.ir import SSAValue

import mgn
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.structure import GraphOp
from mgn.passes.saturate import (
    Rule,
    RuleClass,
    SaturateOptions,
    forget_rule,
    register_rule,
    saturate_graph,
)
from mgn.passes.saturate.egraph import engine
from mgn.passes.saturate.egraph.engine import saturate_facts
from mgn.passes.saturate.encoding.encode import encode_graph
from mgn.passes.saturate.extraction.report import SaturateReport
from mgn.passes.saturate.rules.table import CLASS_SETS, RULES, rules_of
from mgn.passes.saturate.saturate import literals_of
from tests.passes.saturate.saturate_programs import CPU, build_graph, check_same, f32

ANY_ORDER = Rule(
    "any-order",
    "add(add(a, b), c)",
    "add(a, add(b, c))",
    RuleClass.REASSOCIATES,
    "associativity of sums, wherever they stand",
)
ROUNDABOUT = Rule(
    "roundabout",
    "add(x, y)",
    "add(mul(x, 2), sub(y, x))",
    RuleClass.REASSOCIATES,
    "x + y = 2x + (y - x), as often as one likes",
)

DRIFT = Rule(
    "drift",
    "tanh(x)",
    "tanh(mul(x, 1.0000001))",
    RuleClass.APPROXIMATES,
    "nearly the same, and one thing more each time",
)


@pytest.fixture(params=[ANY_ORDER, ROUNDABOUT], ids=lambda rule: rule.name)
def rule(request: pytest.FixtureRequest) -> Rule:
    return request.param


@pytest.fixture(autouse=True)
def table() -> Iterator[None]:
    yield
    for name in {ANY_ORDER.name, ROUNDABOUT.name} & RULES.keys():
        forget_rule(name)


def sum_of(count: int) -> GraphOp:
    return build_graph(lambda b, *xs: [*accumulate(xs, b.add)][-1], *[f32(8, 16)] * count)


def residual_stream(layers: int) -> GraphOp:
    def body(b: Emitter, x: SSAValue, *weights: SSAValue) -> SSAValue:
        for w in weights:
            x = b.add(x, b.tanh(b.matmul(x, w)))
        return x

    return build_graph(body, f32(16, 16), *[f32(16, 16)] * layers)


def chosen(graph: GraphOp, options: SaturateOptions | None = None) -> SaturateReport:
    """What is chosen for a graph, which it is then compared with."""
    after = graph.clone()
    report = saturate_graph(after, CPU, options or SaturateOptions())
    check_same(graph, after)
    return report


@pytest.mark.parametrize("graph", [sum_of(12), residual_stream(8)], ids=["sum", "residual"])
def test_a_rule_that_runs_away_is_stopped_and_the_choice_is_no_worse(
    graph: GraphOp, rule: Rule
) -> None:
    without = chosen(graph)
    register_rule(rule)
    report = chosen(graph)
    assert without.saturated and not report.saturated
    assert report.cost_after <= without.cost_after
    assert f"matches of {rule.name}" in " ".join(report.limits)
    assert f"saturated: no (stopped at {report.limits[0]}" in str(report)


def test_a_rule_that_makes_one_thing_more_each_time_ends_too() -> None:
    rules = [*rules_of(), DRIFT]
    encoded = encode_graph(residual_stream(1), literals_of(rules))
    graph = saturate_facts(encoded.facts, rules, 1000.0)
    assert graph.limits == ("100 iterations",)


def test_what_it_found_until_then_is_taken_where_it_is_cheaper() -> None:
    def two_products(b: Emitter, x: SSAValue, y: SSAValue, w: SSAValue, *s: SSAValue) -> SSAValue:
        terms = [b.matmul(x, w), s[0], b.matmul(y, w), *s[1:]]
        return [*accumulate(terms, b.add)][-1]

    graph = build_graph(two_products, *[f32(64, 64)] * 7)
    fast = SaturateOptions(classes=CLASS_SETS["fast"])
    without = chosen(graph, fast)
    register_rule(ANY_ORDER)
    report = chosen(graph, fast)
    assert report.left_out == () and not report.saturated
    assert report.cost_after < 0.6 * without.cost_after


def test_a_step_that_would_take_too_long_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is read before the first step and after each; each takes twice as long."""
    clock = iter([0.0, 1.0, 3.0, 7.0])
    monkeypatch.setattr(engine, "time", SimpleNamespace(thread_time=clock.__next__))
    rules = [*rules_of(), ROUNDABOUT]
    graph = saturate_facts(encode_graph(sum_of(3), literals_of(rules)).facts, rules, 14.0)
    assert graph.limits == ("14 s",) and graph.iterations == 3


def test_the_page_explains_the_choice_without_it(tmp_path: Path) -> None:
    register_rule(ROUNDABOUT)
    inputs = ", ".join(f"x{i}: f32[4]" for i in range(8))
    terms = " + ".join(f"x{i}" for i in range(8))
    optimized = mgn.optimize(mgn.parse(f"graph g({inputs}) {{ return y = {terms} }}"))
    page = tmp_path / "page.html"
    optimized.explain(page)
    assert "matches of roundabout" in page.read_text()
    assert len(optimized.report.kernels) == 1
