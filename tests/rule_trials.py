"""Trials of mgn's own rules: those of `mgn.testing`, with the examples that some rows want."""

from functools import partial

from rule_examples import example_of

from mgn import testing

try_rule = partial(testing.try_rule, examples=example_of)
instances = partial(testing.instances, examples=example_of)
Values = testing.Values
