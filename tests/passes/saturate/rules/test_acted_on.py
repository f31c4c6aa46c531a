"""Instances that are looked at together are those that a rule acts on one by one."""

import itertools
from dataclasses import replace

import pytest

from mgn.passes.saturate.rules.rule import Rule
from mgn.passes.saturate.rules.table import RULES
from mgn.testing.instances import Instance
from mgn.testing.left_sides import Unfit
from mgn.testing.trials import acted_on, values_of
from tests.passes.saturate.rules.examples.rule_trials import instances

COUNT = 60
ROWS = ("scale-scale", "add-neg", "matmul-row-quotient", "mul-of-biased-scores", "recip-sqrt")
"""Rows with constants, a condition of readers, and such that act on few of what is drawn."""


def acts(rule: Rule, instance: Instance) -> bool:
    try:
        values_of(rule, instance)
    except Unfit:
        return False
    return True


@pytest.mark.parametrize("name", ROWS)
def test_a_rule_acts_on_the_same_instances_together_as_alone(name: str) -> None:
    rule = RULES[name]
    drawn = list(itertools.islice(instances(rule, 3), COUNT))
    alone = [instance for instance in drawn if acts(rule, instance)]
    found = [instance for instance, _ in acted_on(rule, iter(drawn))]
    assert alone
    assert [id(item) for item in found] == [id(item) for item in alone]


def test_what_acts_on_nothing_is_found_to_do_so() -> None:
    rule = replace(RULES["add-neg"], when="integer(x) and floating(x)")
    drawn = itertools.islice(instances(rule, 3), COUNT)
    assert not list(acted_on(rule, drawn))
