"""Trials of mgn's own rules: those of `mgn.testing`, with the examples that some rows want."""

from functools import partial

from mgn import testing
from mgn.testing.instances import instances as rule_instances
from tests.passes.saturate.rules.examples.rule_examples import example_of

ACTED_ON = 6
"""Instances that a row must have acted on; fewer would let variants of `test_rules_wrong` pass."""

check_row = partial(testing.check_rule, wanted=ACTED_ON, examples=example_of)
try_rule = partial(testing.try_rule, wanted=ACTED_ON, examples=example_of)
instances = partial(rule_instances, examples=example_of)
