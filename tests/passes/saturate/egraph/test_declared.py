"""E-graphs that were declared for one program are used for others, and hold nothing of it."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.types import tensor
from mgn.passes.saturate.egraph import declared
from mgn.passes.saturate.egraph.engine import SaturatedGraph, saturate_facts
from mgn.passes.saturate.encoding.encode import encode_graph
from mgn.passes.saturate.rules.rule import Rule, RuleClass, RuleError
from mgn.passes.saturate.rules.table import RULES
from tests.passes.saturate.saturate_programs import build_graph

ROWS = [RULES["neg-neg"], RULES["add-neg"]]
WRONG = Rule("wrong", "neg(x)", "1", RuleClass.EXACT, "never")
ALSO = Rule("also", "neg(x)", "2", RuleClass.EXACT, "never")


def saturated_chain(length: int, shape: tuple[int, ...], rows: list[Rule] = ROWS) -> SaturatedGraph:
    """Negations of x, each added to x: programs of any length declare the same."""

    def body(b: Emitter, x: SSAValue) -> SSAValue:
        value = x
        for _ in range(length):
            value = b.add(x, b.neg(value))
        return value

    graph = build_graph(body, tensor("f32", shape))
    return saturate_facts(encode_graph(graph).facts, rows, keep_program=True)


def held(result: SaturatedGraph) -> tuple[object, ...]:
    """All that is read back."""
    return result.nodes, result.leaves, result.class_of, result.fired, result.program


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declared._kept, "egraphs", {})


def test_what_came_before_changes_nothing() -> None:
    chains: list[tuple[int, tuple[int, ...]]] = [(1, (3,)), (5, (2, 2)), (2, (3,))]
    alone = []
    for chain in chains:
        declared._kept.egraphs.clear()
        alone.append(held(saturated_chain(*chain)))
    declared._kept.egraphs.clear()
    together = [held(saturated_chain(*chain)) for chain in chains]
    assert len(declared._kept.egraphs) == 1
    assert together == alone


def test_an_e_graph_that_failed_is_not_kept() -> None:
    for _ in range(2):
        with pytest.raises(RuleError, match="values that differ are equated"):
            saturated_chain(1, (), [WRONG, ALSO])
        assert not declared._kept.egraphs


def test_few_are_kept_those_that_were_used_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declared, "MOST_KEPT", 2)
    for rows in (ROWS[:1], ROWS[1:], ROWS[:1], ROWS):
        saturated_chain(1, (3,), rows)
    assert [sum("(rule" in text for text in key) for key in declared._kept.egraphs] == [4, 5]


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_threads_keep_e_graphs_of_their_own() -> None:
    alone = held(saturated_chain(2, (3,)))
    for _ in range(2):
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: held(saturated_chain(2, (3,))), range(12)))
        assert found == [alone] * 12
