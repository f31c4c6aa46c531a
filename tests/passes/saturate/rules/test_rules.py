"""Every row of the rule table: both sides are equal on random instances."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.types import tensor
from mgn.passes.saturate import saturate_graph
from mgn.passes.saturate.egraph.engine import saturate_facts
from mgn.passes.saturate.encoding.encode import encode_graph
from mgn.passes.saturate.rules.patterns import PatternError
from mgn.passes.saturate.rules.rule import Rule, RuleClass, RuleError
from mgn.passes.saturate.rules.table import RULES, forget_rule, register_rule
from mgn.testing import UnsoundRule, check_rule
from tests.passes.saturate.rules.examples.rule_trials import check_row
from tests.passes.saturate.saturate_programs import CPU, build_graph, saturated


@pytest.mark.parametrize("name", list(RULES))
def test_both_sides_of_every_rule_are_equal_on_random_instances(name: str) -> None:
    assert check_row(RULES[name]).passes


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
        forget_rule("double")
    with pytest.raises(PatternError, match="no rule was registered under the name 'double'"):
        forget_rule("double")
    with pytest.raises(PatternError, match="no rule was registered under the name 'neg-neg'"):
        forget_rule("neg-neg")


def test_registering_a_rule_with_trials_refuses_one_that_does_not_hold() -> None:
    """The least integer has no absolute value."""
    wrong = Rule("sizes", "max(abs(x), 0)", "abs(x)", RuleClass.EXACT, "", "integer(x)")
    with pytest.raises(UnsoundRule, match=r"x: i\d+\[.*\] = -\d+\n"):
        register_rule(wrong, trials=check_rule)
    assert "sizes" not in RULES
    right = Rule("sizes", "max(abs(x), 0)", "abs(x)", RuleClass.FAST, "", "floating(x)")
    register_rule(right, trials=check_rule)
    forget_rule("sizes")


@pytest.mark.parametrize(
    ("left", "right", "when", "message"),
    [
        ("nothing(x)", "x", "", "unknown operation 'nothing'"),
        ("sofmax(x)", "x", "", "unknown operation 'sofmax'; did you mean 'softmax'?"),
        ("sum(x, axes=A)", "x", "", "'sum' has no attribute 'axes'; did you mean 'axis'?"),
        ("neg(x)", "y", "", "'y' is not bound"),
        ("neg(x)", "x", "unheard(x)", "unknown predicate 'unheard'; there are constant, .* wide, "),
        ("neg(x)", "x", "float(x)", "unknown predicate 'float'; .*; did you mean 'floating'"),
        ("neg(x", "x", "", "not a pattern"),
        ("x * 1", "x", "", r"must be an operation, as neg\(x\), not 'x \* 1'"),
        ("sum(x, axis=A)", "sum(x, axis=A, keepdims=false)", "", "'false' .*; it is spelt False"),
        ("mul(x, c)", "leaky_relu(x, slope=c)", "", r"'slope' .* is no value .*; number_of\(c\)"),
        ("neg(x)", "x", "1 < 2", "predicates joined by 'and', not '1 < 2'; there are constant, "),
        ("neg(x)", "x", "wide(x) or integer(x)", "predicates joined by 'and'"),
        ("neg(x)", "x", "wide(y)", "'y' is not bound"),
        ("neg(x)", "x", "wide(x, x)", r"are wanted, wide\(x\): wide\(x, x\)"),
        ("neg(x, y)", "x", "", "'neg': 2 operands do not fit"),
        ("neg(x)", "add(x)", "", "'add': 1 operands do not fit"),
        ("neg(x + y)", "x", "", "the left side does arithmetic"),
        ("neg(nan)", "nan", "", "'nan' does not stand for a value"),
        ("sum(x, axis=x)", "x", "", "'x' does not stand for a value"),
        ("neg(SHAPE)", "SHAPE", "", "'SHAPE' does not stand for a value"),
        ("neg(x, slope=S)", "x", "", "'neg' has no attribute 'slope'"),
        ("transpose(x)", "x", "", "'transpose' needs its attribute 'perm'"),
        ("transpose(x, perm='a')", "x", "", "'perm' of 'transpose' must be a list of integers"),
        ("sum(x, axis=[0, A])", "x", "", "'A' is not bound"),
        ("neg(x)", "transpose(x, perm=P)", "", "'P' is not bound"),
        ("transpose(x, perm=P)", "transpose(x, perm=turn(P))", "", "unknown function 'turn'"),
        ("transpose(x, perm=P)", "transpose(x, perm=compose(P))", "", "not the arguments"),
        ("mul(x, c)", "mul(x, c ** 2)", "", r"cannot compute c \*\* 2"),
        ("mul(x, c)", "mul(x, +c + 1)", "", r"cannot compute \+c \+ 1"),
        ("add(x, 99999999999999999999)", "x", "", "does not fit 64 bits"),
        ("neg(x, **y)", "x", "", "not a pattern"),
        ("neg(\0)", "x", "", "not a pattern"),
        ("neg(" * 200, "x", "", r"not a pattern: '(neg\(){25}…': '\(' was never closed"),
        ("split(x, sizes=S, axis=A)", "x", "", "'split' has several results"),
        ("neg(x)", "split(x, sizes=[1], axis=0)", "", "'split' has several results"),
    ],
)
def test_a_malformed_rule_is_refused(left: str, right: str, when: str, message: str) -> None:
    with pytest.raises(PatternError, match=message):
        register_rule(Rule("bad", left, right, RuleClass.EXACT, "never", when))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": 'of "two" words'}, "a row is texts, its name words"),
        ({"when": None}, "a row is texts"),
        ({"equality": "exact"}, "'exact' is no RuleClass"),
    ],
)
def test_a_row_of_other_kinds_is_refused(change: dict[str, Any], message: str) -> None:
    row = Rule("bad", "neg(x)", "x", RuleClass.EXACT, "never")
    with pytest.raises(PatternError, match=message):
        register_rule(replace(row, **change))


def test_an_axis_that_is_counted_from_the_back_is_matched_alone() -> None:
    def body(b: Emitter, x: SSAValue) -> list[SSAValue]:
        return [b.log(b.softmax(x, axis=axis)) for axis in (0, 1, 2)]

    rule = Rule("last", "log(softmax(x, axis=-2))", "log_softmax(x, axis=-2)", RuleClass.EXACT, "")
    encoded = encode_graph(build_graph(body, tensor("f32", (2, 3, 4))))
    result = saturate_facts(encoded.facts, [rule])
    assert result.fired["last"] == 1
    made = [key for key, nodes in result.nodes.items() if "log_softmax" in {n.name for n in nodes}]
    assert made == [result.class_of[encoded.outputs[1]]]


def test_what_is_no_rule_is_not_registered() -> None:
    with pytest.raises(PatternError, match="check_rule takes a Rule, not str"):
        check_rule("x")  # pyright: ignore
    with pytest.raises(PatternError, match="register_rule takes a Rule, not str"):
        register_rule("x")  # pyright: ignore


@pytest.mark.parametrize(
    ("row", "types", "message"),
    [
        (("neg(x)", "x", "swaps_last_two(x)"), (4,), "rule bad fails on a match: TypeError"),
        (("mul(x, y)", "x", "keeps_order(x, 7)"), (4,), "rule bad fails on a match: TypeError"),
        (("relu(x)", "3"), (), "values that differ are equated; rules that acted: bad"),
    ],
)
def test_a_rule_that_fails_where_it_acts_is_named(
    row: tuple[str, ...], types: tuple[int, ...], message: str
) -> None:
    left, right, *when = row
    bad = Rule("bad", left, right, RuleClass.EXACT, "never", *when)
    bad.check()

    def body(b: Emitter, x: SSAValue) -> list[SSAValue]:
        return [b.neg(x), b.mul(x, x), b.relu(x), b.tanh(b.constant(2.0, "f32"))]

    facts = encode_graph(build_graph(body, tensor("f32", types))).facts
    also = Rule("also", "relu(x)", "4", RuleClass.EXACT, "never")
    with pytest.raises(RuleError, match=message):
        saturate_facts(facts, [bad, also])


def test_a_pattern_may_be_written_in_several_lines() -> None:
    rule = Rule("lines", "mul(\n  x,\n  x)", "pow(x,\n 2)", RuleClass.REASSOCIATES, "x x = x²")
    rule.check()
    graph = build_graph(lambda b, x: b.mul(x, x), tensor("f32", (4,)))
    assert saturate_facts(encode_graph(graph).facts, [rule]).fired["lines"] == 1


def test_a_number_that_the_element_type_does_not_hold_is_not_written() -> None:
    rule = Rule("large", "neg(neg(x))", "add(x, 300)", RuleClass.EXACT, "never")
    graph = build_graph(lambda b, x: b.neg(b.neg(x)), tensor("i8", (4,)))
    assert saturate_facts(encode_graph(graph).facts, [rule]).fired["large"] == 0


@pytest.mark.parametrize(
    ("left", "right", "sound"),
    [
        ("concat([x, y], axis=A)", "concat([y, x], axis=A)", False),
        ("sum(neg(x), axis=A, keepdims=K)", "neg(sum(x, axis=A, keepdims=K))", True),
        ("leaky_relu(x, slope=S)", "max(x, leaky_relu(x, slope=S))", False),
        ("elu(x, alpha=S)", "elu(x, alpha=S * 1.0)", True),
        ("log(softmax(x))", "log_softmax(x)", True),
        ("log(softmax(x, axis=-2))", "log_softmax(x, axis=-2)", True),
        ("neg(sum(x))", "sum(neg(x))", True),
        ("neg(sum(x, axis=[-1]))", "sum(neg(x), axis=[-1])", True),
        ("softmax(x)", "softmax(x, axis=0)", False),
        ("neg(concat([x, neg(y)], axis=-1))", "concat([neg(x), y], axis=-1)", True),
        ("neg(reshape(x, shape=[-1]))", "reshape(neg(x), shape=[-1])", True),
    ],
)
def test_rows_with_any_attribute_are_tried(left: str, right: str, sound: bool) -> None:
    row = Rule("of-attributes", left, right, RuleClass.REASSOCIATES, "")
    if sound:
        assert check_rule(row, wanted=3).passes
    else:
        with pytest.raises(UnsoundRule, match="its sides differ"):
            check_rule(row)


def told_of(row: Rule) -> str:
    """What is said of a rule that does not hold."""
    with pytest.raises(UnsoundRule) as caught:
        check_rule(row)
    return str(caught.value)


def test_a_nan_that_one_side_drops_is_found() -> None:
    told = told_of(
        Rule("absorption", "min(max(x, y), x)", "x", RuleClass.EXACT, "not where y is nan")
    )
    assert re.search(
        r"rule absorption: its sides differ on instance \d+ that it acted on\n"
        r"  x: (\w+\[.*\]) = (\S+)\n  y: \w+\[.*\] = nan\n"
        r"  min\(max\(x, y\), x\) = nan( at \[.*\])?\n  x = \2( at \[.*\])?\n"
        r"  they differ in \d+ of \d+ elements, compared to the bit, in the declared types\n"
        r"note: in f64 they agree; a row of RuleClass.REASSOCIATES",
        told,
    ), told


def test_a_rule_that_is_wrong_at_ties_alone_is_found() -> None:
    """Halves are rounded to even, not up."""
    row = Rule("up", "round(x)", "floor(add(x, 0.5))", RuleClass.REASSOCIATES, "", "wide(x)")
    assert re.search(r"x: f\d+\[.*\] = -?\d\.5\n  round\(x\) = ", told_of(row))


def test_what_can_be_done_about_a_rule_is_told() -> None:
    rounded = Rule("third", "mul(x, 0.3333333)", "div(x, 3)", RuleClass.REASSOCIATES, "", "wide(x)")
    assert "note: they agree to 2e-06; a row of RuleClass.APPROXIMATES" in told_of(rounded)
    assert check_rule(replace(rounded, equality=RuleClass.APPROXIMATES), wanted=3).passes
    when = "wide(x) and positive(c)"
    wrong = Rule("double", "mul(x, c)", "mul(x, c * 2)", RuleClass.APPROXIMATES, "", when)
    told = told_of(wrong)
    (constant,) = re.findall(r"  c = (\S+), a constant\n", told)
    sides = re.findall(r"mul\(x, c.*\) = (\S+)", told)
    (x,) = re.findall(r"x: f\d+.* = (\S+)\n", told)
    assert [float(side) for side in sides] == [float(x) * float(constant) * n for n in (1, 2)]
    assert "'mgn-opt --list-predicates' says" in told


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("left", "right", "equality", "when"),
    [
        ("exp(abs(x))", "exp(x)", RuleClass.REASSOCIATES, "wide(x)"),
        ("add(x, y)", "sub(x, y)", RuleClass.REASSOCIATES, "wide(x)"),
        ("sqrt(abs(x))", "abs(x)", RuleClass.EXACT, "wide(x)"),
        ("mul(div(x, 2), 2)", "x", RuleClass.EXACT, "integer(x)"),
    ],
)
def test_a_rule_that_no_class_may_have_is_not_given_one(
    left: str, right: str, equality: RuleClass, when: str, seed: int
) -> None:
    """Whichever instance is the first, and however its sides were compared."""
    with pytest.raises(UnsoundRule) as caught:
        check_rule(Rule("wrong", left, right, equality, "", when), seed=seed)
    assert "a row of RuleClass" not in str(caught.value)


def test_a_condition_on_a_number_needs_no_other_that_it_is_constant() -> None:
    rule = Rule("scaled", "abs(mul(x, c))", "mul(abs(x), c)", RuleClass.EXACT, "", "positive(c)")
    graph = build_graph(lambda b, x: b.abs(b.mul(x, 3.0)), tensor("f32", (4,)))
    assert rule.constants == ["c"]
    assert saturate_facts(encode_graph(graph).facts, [rule]).fired["scaled"] == 1


def test_an_unsigned_negation_keeps_its_place() -> None:
    def body(b: Emitter, x: SSAValue) -> list[SSAValue]:
        return [b.abs(b.neg(x))]

    graph = build_graph(body, tensor("u8", (3,)))
    saturate_graph(graph, CPU)
    found = Interpreter().run(graph, {"x0": np.array([1, 2, 200], np.uint8)})
    assert found["y0"].tolist() == [255, 254, 56]


def test_only_the_allowed_classes_act() -> None:
    def body(b: Emitter, x: SSAValue) -> SSAValue:
        return b.mul(b.add(x, 0.0), 1.0)

    exact = frozenset({RuleClass.EXACT})
    _, report = saturated(body, tensor("f32", (4,)), classes=exact)
    assert report.fired["mul-one"] > 0
    assert report.fired["add-zero"] == 0
