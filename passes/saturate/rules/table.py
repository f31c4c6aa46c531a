"""The rewrite rules: one table, read by the e-graph, by the tests that evaluate both sides, and by
the manual.

A row says: under its condition, the left side may be replaced by the right side. Its class says how
equal the two are:

- *exact*: the same bits;
- *reassociates*: the same value over the reals, with an error of the same order;
- *spreads*: the same, and neighbouring results share their errors;
- *fast*: the same value over the reals, with no promise of the error;
- *approximates*: another value;
- *rounds*: the same over the reals but for roundings of a product's operands. Each operand is
  rounded at most once on either side. Such a row acts where a run's precision allows these
  roundings.

Two conditions hold of every row and are never written. An instance whose two sides differ in type
does not act. Folded constants do not round, unless the row approximates. Users add rows with
`register_rule`, and take them back with `forget_rule`.
"""

from collections.abc import Callable
from typing import cast

from mgn.dialects.mgn.operation import OPERATIONS
from mgn.passes.saturate.rules.activations import ACTIVATIONS
from mgn.passes.saturate.rules.algebra import ALGEBRA
from mgn.passes.saturate.rules.attention import ATTENTION
from mgn.passes.saturate.rules.attention_gradients import ATTENTION_GRADIENTS
from mgn.passes.saturate.rules.convolutions import CONVOLUTIONS
from mgn.passes.saturate.rules.movement import MOVEMENT
from mgn.passes.saturate.rules.one_hot import ONE_HOT
from mgn.passes.saturate.rules.orders import ORDERS
from mgn.passes.saturate.rules.patterns import PatternError, calls_of
from mgn.passes.saturate.rules.products import PRODUCTS
from mgn.passes.saturate.rules.recognition import RECOGNITION
from mgn.passes.saturate.rules.rotary import ROTARY
from mgn.passes.saturate.rules.rule import Rule, RuleClass, RuleError
from mgn.passes.saturate.rules.turned import TURNED

DEFAULT_CLASSES = frozenset({RuleClass.EXACT, RuleClass.REASSOCIATES})
ROUNDING_CLASSES = DEFAULT_CLASSES | {RuleClass.ROUNDS}
"""The classes that act by default, and where a precision rounds the operands of products."""

CLASS_SETS = {"fast": DEFAULT_CLASSES | {RuleClass.SPREADS, RuleClass.FAST}}
"""Names that stand for several classes where a run chooses them; each other name is one class."""

BUILT_IN = (
    *(*ALGEBRA, *MOVEMENT, *TURNED, *PRODUCTS, *CONVOLUTIONS, *ACTIVATIONS, *RECOGNITION, *ROTARY),
    *ATTENTION,
    *ATTENTION_GRADIENTS,
    *ONE_HOT,
    *ORDERS,
)
"""mgn's own rows."""

_OWN_NAMES = {rule.name for rule in BUILT_IN}

RULES: dict[str, Rule] = {rule.name: rule for rule in BUILT_IN}

TRIED: set[Rule] = set()
"""Rows of users that trials passed before they were registered."""


def register_rule(rule: Rule, trials: Callable[[Rule], object] | None = None) -> None:
    """Adds a row for all later runs. PatternError where it is malformed or its name is taken.

    `trials`, as `mgn.testing.check_rule`, are made of the row first: the error that they raise
    where it does not hold is passed on, and the row is not added.
    """
    given = cast("object", rule)
    if not isinstance(given, Rule):
        raise PatternError(f"register_rule takes a Rule, not {type(given).__name__}")
    if rule.name in RULES:
        raise PatternError(f"there is a rule named {rule.name} already")
    rule.check()
    if trials is not None:
        trials(rule)
        TRIED.add(rule)
    RULES[rule.name] = rule


def forget_rule(name: str) -> None:
    """Takes a row back that was registered. PatternError for any other."""
    if RULES.get(name) is None or RULES[name] in BUILT_IN:
        raise PatternError(f"no rule was registered under the name {name!r}")
    TRIED.discard(RULES.pop(name))


def rules_of(classes: frozenset[RuleClass] = DEFAULT_CLASSES) -> list[Rule]:
    """The rows that may act when only these classes are allowed. RuleError where one names an
    operation of the user's own that was forgotten.
    """
    found = [rule for rule in RULES.values() if rule.equality in classes]
    for rule in found:
        if rule.name not in _OWN_NAMES:
            _check_operations(rule)
    return found


def _check_operations(rule: Rule) -> None:
    for side in (rule.left_pattern, rule.right_pattern):
        for call in calls_of(side):
            if call.name not in OPERATIONS:
                raise RuleError(
                    f"rule {rule.name} names the operation '{call.name}', which was forgotten; "
                    f"forget_rule({rule.name!r}) takes the rule back"
                )
