"""Rules as rows of tables, right and wrong ones, and what trials have to say of them."""

import pytest

from mgn.passes.saturate.rules.rule import Rule, RuleClass
from mgn.testing import UnsoundRule, check_rule

EXACT, REASSOCIATES, FAST = RuleClass.EXACT, RuleClass.REASSOCIATES, RuleClass.FAST

Row = tuple[str, str, str, RuleClass, str]
"""Name, left side, right side, class, condition."""


def is_refused(row: Row) -> None:
    """Trials find an instance on which the sides of a wrong rule differ."""
    name, left, right, equality, when = row
    with pytest.raises(UnsoundRule, match="its sides differ"):
        check_rule(Rule(name, left, right, equality, "never", when))


def is_accepted(row: Row, wanted: int) -> None:
    """A right rule passes so many trials."""
    name, left, right, equality, when = row
    assert check_rule(Rule(name, left, right, equality, "it holds", when), wanted=wanted).passes
