"""Mutants of the rule table do not survive its trials, but for those that hold all the same."""

import pytest
from mutants import Mutant, fate_of, mutants_of, sample, well_formed
from mutants_equivalent import reason_of

from mgn.passes.saturate.rules import BUILT_IN, RULES

SEED = 7


@pytest.mark.parametrize("mutant", sample(40, SEED), ids=lambda mutant: mutant.name)
def test_a_mutant_of_the_table_is_killed_or_holds(mutant: Mutant) -> None:
    if fate_of(mutant) == "survives":
        assert reason_of(mutant.rule, mutant.kind, mutant.what)


def test_there_are_many_mutants_of_every_kind() -> None:
    chosen = sample(350, SEED)
    assert len({mutant.name for mutant in chosen}) >= 340
    assert len({mutant.kind for mutant in chosen}) == 9
    assert len({mutant.rule.name for mutant in chosen}) >= 0.5 * len(BUILT_IN)


def test_a_mutant_is_a_row_with_one_change() -> None:
    found = [mutant for mutant in mutants_of(RULES["add-neg"]) if well_formed(mutant)]
    names = {mutant.what for mutant in found}
    assert "right, operands of sub(x, y) swapped" in names
    assert "left, y for neg(y)" in names
    assert all(fate_of(mutant) == "killed" for mutant in found if mutant.kind == "left out")
