"""What the list of rules says of each row, proved or exhausted, is true of it."""

import pytest

from mgn.commands.printing.listing import rules
from mgn.passes.saturate.egraph.compile_rules import commutations
from mgn.passes.saturate.rules.rule import Rule, RuleClass
from mgn.passes.saturate.rules.table import RULES, forget_rule, register_rule
from mgn.testing import check_rule
from mgn.testing.evidence import EXHAUSTED, PROVED, evidence_of
from mgn.testing.exhaustion import exhausted
from mgn.testing.proofs import proved
from tests.conftest import ROOT

TABLE = {rule.name: rule for rule in commutations()} | RULES
EXACT = RuleClass.EXACT


@pytest.mark.parametrize("name", EXHAUSTED)
def test_all_values_of_an_exhausted_rule_agree(name: str) -> None:
    types, difference = exhausted(RULES[name])
    assert difference is None
    assert set(types) >= set(EXHAUSTED[name].split())


@pytest.mark.parametrize("name", PROVED)
def test_a_proved_rule_is_proved_again(name: str) -> None:
    pytest.importorskip("z3", reason="install the extra 'prove'")
    types, refuted = proved(TABLE[name], seconds=60.0, elements=PROVED[name].split())
    assert not refuted
    assert set(types) == set(PROVED[name].split())


def test_the_list_of_rules_says_how_each_was_tried() -> None:
    assert evidence_of(RULES["neg-neg"]) == "proved"
    assert evidence_of(RULES["pow-one"]) == "exhausted"
    assert evidence_of(RULES["transpose-transpose"]) == "tried"
    assert evidence_of(Rule("mine", "neg(x)", "x", EXACT, "")) == "not tried"
    listed = rules()
    assert "neg-neg (exact, proved): two changes of sign\n" in listed
    assert "transpose-transpose (exact, tried): permutations compose\n" in listed


def test_a_rule_that_was_tried_before_it_was_registered_is_listed_so() -> None:
    row = Rule("odd", "sin(neg(x))", "neg(sin(x))", RuleClass.REASSOCIATES, "", "wide(x)")
    for trials, word in ((None, "not tried"), (check_rule, "tried"), (None, "not tried")):
        register_rule(row, trials)
        listed = rules()
        forget_rule("odd")
        assert f"odd (reassociates, {word})" in listed


@pytest.mark.parametrize(
    ("left", "right", "when"),
    [
        ("abs(x)", "max(x, neg(x))", "floating(x)"),
        ("max(abs(x), 0)", "abs(x)", "integer(x)"),
        ("div(mul(x, 2), 2)", "x", "integer(x)"),
        ("sub(0, x)", "neg(x)", "floating(x)"),
        ("mul(add(x, y), 0.5)", "add(mul(x, 0.5), mul(y, 0.5))", "floating(x)"),
        ("where(gt(x, y), x, y)", "max(x, y)", "floating(x)"),
        ("lt(sub(x, y), 0)", "lt(x, y)", "integer(x)"),
    ],
)
def test_the_solver_refutes_a_wrong_rule(left: str, right: str, when: str) -> None:
    pytest.importorskip("z3", reason="install the extra 'prove'")
    rule = Rule("wrong", left, right, EXACT, "never", when)
    types, refuted = proved(rule, elements=["f16", "i8"])
    assert refuted and not types


def test_a_wrong_rule_is_found_by_trying_all_values() -> None:
    """There are two integers of 8 bits that are not above the next smaller one."""
    wrong = Rule("wrong", "lt(sub(x, 1), x)", "eq(x, x)", EXACT, "never")
    types, difference = exhausted(wrong)
    assert difference is not None
    assert "i8" not in types and "u8" not in types


def test_the_solver_is_no_part_of_what_mgn_needs() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    needed = text.partition("dependencies = [")[2].partition("]")[0]
    assert "z3" not in needed
