"""Mutants of the rule table do not survive its trials, but for those that hold all the same."""

from dataclasses import replace

import pytest

from mgn.passes.saturate.rules.rule import Rule, RuleClass
from mgn.passes.saturate.rules.table import BUILT_IN, RULES
from mgn.testing import check_rule
from tests.mutants.checks import COMMUTING
from tests.mutants.equivalent import reason_of
from tests.mutants.trials import Mutant, fate_of, mutants_of, sample, well_formed

SEED = 7


@pytest.mark.parametrize("mutant", sample(40, SEED), ids=lambda mutant: mutant.name)
def test_a_mutant_of_the_table_is_killed_or_holds(mutant: Mutant) -> None:
    if fate_of(mutant) == "survives":
        assert reason_of(mutant.rule, mutant.kind, mutant.what)


@pytest.mark.parametrize("name", COMMUTING)
def test_operations_whose_operands_may_be_swapped_commute(name: str) -> None:
    rule = Rule("swapped", f"{name}(x, y)", f"{name}(y, x)", RuleClass.EXACT, "it commutes")
    if name.startswith("logical"):
        rule = replace(rule, left=f"{name}(m, n)", right=f"{name}(n, m)")
    assert check_rule(rule, wanted=15).passes


PLANTED = (
    # row, kind, what the change is called, the field, a text of it, what is put in its place
    ("sum-then-dropped", "left out", "right, x for sum(x)", "right", "sum(x", "sum(abs(x)"),
    ("sum-then-kept", "flag", "right, False for True", "right", "sum(x", "max_reduce(x"),
    ("max_reduce-then-kept", "attribute", "axis left out of sum(x)", "right", "max_", "min_"),
    ("recip-sqrt", "condition", "without wide(x)", "right", "rsqrt(x)", "sqrt(x)"),
    ("sigmoid", "condition", "without wide(x)", "right", "sigmoid(x)", "tanh(x)"),
    ("matmul-scaled-a", "condition", "without scalar(c)", "right", "matmul(a, b", "matmul(b, a"),
    ("add-neg", "operands", "right, operands of sub(x, y) swapped", "right", "x, y", "y, x"),
    ("gelu-tanh", "number", "left, 0.45 for 0.044715", "left", "0.044715", "0.45"),
    ("heads", "number", "right, 2 for 1", "right", "scale=S", "scale=1.0"),
    ("attention", "left out", "right, q for reshape(q)", "right", "scale=1.0", "scale=2.0"),
    ("attention", "variable", "right, v for k", "right", "scale=1.0", "scale=2.0"),
    ("scores-divided-by-rows", "condition", "without given(r)", "when", "one_column(r) and ", ""),
)


@pytest.mark.parametrize(("row", "kind", "what", "field", "old", "new"), PLANTED)
def test_a_wrong_mutant_is_not_excused_whatever_it_is_called(
    row: str, kind: str, what: str, field: str, old: str, new: str
) -> None:
    text = getattr(RULES[row], field)
    assert old in text
    assert reason_of(replace(RULES[row], **{field: text.replace(old, new)}), kind, what) is None


def test_there_are_many_mutants_of_every_kind() -> None:
    chosen = sample(400, SEED)
    assert len({mutant.name for mutant in chosen}) >= 390
    assert len({mutant.kind for mutant in chosen}) == 9
    assert len({mutant.rule.name for mutant in chosen}) >= 0.5 * len(BUILT_IN)


def test_a_mutant_is_a_row_with_one_change() -> None:
    found = [mutant for mutant in mutants_of(RULES["add-neg"]) if well_formed(mutant)]
    names = {mutant.what for mutant in found}
    assert "right, operands of sub(x, y) swapped" in names
    assert "left, y for neg(y)" in names
    assert all(fate_of(mutant) == "killed" for mutant in found if mutant.kind == "left out")
