"""Every row of the rule table: both sides are equal on random instances."""

import numpy as np
import pytest
from rule_trials import try_rule
from saturate_programs import build_graph, saturated
from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.types import tensor
from mgn.passes.saturate.encode import encode_graph
from mgn.passes.saturate.engine import saturate_facts
from mgn.passes.saturate.patterns import PatternError
from mgn.passes.saturate.rule import Rule, RuleClass
from mgn.passes.saturate.rules import RULES, register_rule


@pytest.mark.parametrize("name", list(RULES))
def test_both_sides_of_every_rule_are_equal_on_random_instances(name: str) -> None:
    outcome = try_rule(RULES[name])
    assert outcome.acted > 0, "the rule acted on no instance"
    assert outcome.agreed == outcome.acted


@pytest.mark.parametrize("name", list(RULES))
def test_every_rule_names_operations_and_predicates_that_exist(name: str) -> None:
    RULES[name].check()
    assert RULES[name].reason


def test_a_rule_whose_sides_differ_in_type_does_not_act() -> None:
    drops_broadcast = Rule("w", "sub(x, y)", "x", RuleClass.EXACT, "ignores y")

    def body(b: Emitter, x: SSAValue, y: SSAValue) -> SSAValue:
        return b.sub(x, y)

    graph = build_graph(body, tensor("f32", (4,)), tensor("f32", (3, 4)))
    encoded = encode_graph(graph)
    assert saturate_facts(encoded.facts, [drops_broadcast]).fired["w"] == 0


def test_a_neutral_element_that_broadcasts_is_kept() -> None:
    def body(b: Emitter, x: SSAValue) -> SSAValue:
        return b.mul(x, b.constant_array(np.ones((3, 4), np.float32)))

    after, _ = saturated(body, tensor("f32", (4,)))
    assert after.results_returned[0].type == tensor("f32", (3, 4))


def test_a_condition_on_how_a_value_is_made_is_asked_of_every_value_of_a_type() -> None:
    def body(b: Emitter, x: SSAValue, y: SSAValue) -> list[SSAValue]:
        shifted = b.sub(x, b.max_reduce(x, axis=-1, keepdims=True))
        powers = [b.exp(value) for value in (shifted, y)]
        return [b.div(item, b.sum(item, axis=-1, keepdims=True)) for item in powers]

    encoded = encode_graph(build_graph(body, tensor("f32", (4, 8)), tensor("f32", (4, 8))))
    report = saturate_facts(encoded.facts, [RULES["softmax-unshifted"]])
    assert report.fired["softmax-unshifted"] == 1


def test_registering_a_rule_makes_it_act() -> None:
    rule = Rule("double", "add(x, x)", "mul(x, 2)", RuleClass.EXACT, "x + x = 2 x")
    register_rule(rule)
    try:
        _, report = saturated(lambda b, x: b.add(x, x), tensor("f32", (4,)))
        assert report.fired["double"] == 1
        with pytest.raises(PatternError, match="already"):
            register_rule(rule)
    finally:
        del RULES["double"]


@pytest.mark.parametrize(
    ("left", "right", "when", "message"),
    [
        ("nothing(x)", "x", "", "unknown operation 'nothing'"),
        ("neg(x)", "y", "", "'y' is not bound"),
        ("neg(x)", "x", "unheard(x)", "unknown predicate 'unheard'"),
        ("neg(x", "x", "", "not a pattern"),
        ("x", "x", "", "must be an operation"),
        ("neg(x)", "x", "1 < 2", "predicates joined by 'and'"),
    ],
)
def test_a_malformed_rule_is_refused(left: str, right: str, when: str, message: str) -> None:
    with pytest.raises(PatternError, match=message):
        register_rule(Rule("bad", left, right, RuleClass.EXACT, "never", when))


def test_only_the_allowed_classes_act() -> None:
    def body(b: Emitter, x: SSAValue) -> SSAValue:
        return b.mul(b.add(x, 0.0), 1.0)

    exact = frozenset({RuleClass.EXACT})
    _, report = saturated(body, tensor("f32", (4,)), classes=exact)
    assert report.fired["mul-one"] > 0
    assert report.fired["add-zero"] == 0
