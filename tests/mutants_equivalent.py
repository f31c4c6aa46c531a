"""Why mutants of the rule table that no trial refutes hold all the same.

In: a mutated row, the kind of its change and what was changed. Out: the reason, or None.
"""

import re
from collections.abc import Callable

from mgn.passes.saturate.rule import Rule, RuleClass

Holds = Callable[[Rule], bool]

REASONS: tuple[tuple[str, str, Holds, str], ...] = (
    # kind, a pattern of what was changed, of which rows, why it holds
    (
        "operands",
        r"operands of (add|mul|max|min|logical_and|logical_or|eq|ne)\(",
        lambda rule: True,
        "the operation commutes",
    ),
    (
        "class",
        "as reassociates",
        lambda rule: "of-divided" in rule.name,
        "an inverse that f64 rounds is within one rounding of the row's type",
    ),
    (
        "operands",
        r"operands of (one_head|keys_last|turned|merged|heads|shape|base_of|in_rows|scaled_by)",
        lambda rule: True,
        "a shape or permutation that does not fit does not act, and one that does is the same",
    ),
    (
        "number",
        r"1\.0000\d*e?\S* for |0\.\d+ for 0\.\d+|\d+\.\d+ for \d+",
        lambda rule: rule.equality is RuleClass.APPROXIMATES,
        "a row that approximates may be off by two millionths",
    ),
    (
        "condition",
        "without (given|read_once|thin_batches|thin_rows|less_work)",
        lambda rule: True,
        "it says when the row is worth while, not when it holds",
    ),
    (
        "left out",
        r"^right, \w for reshape\(\w, shape=one_head",
        lambda rule: True,
        "attention takes any leading axes: where what is left fits the type, it is the same",
    ),
)


def reason_of(rule: Rule, kind: str, what: str) -> str | None:
    """The reason why a mutant holds."""
    for of_kind, pattern, fits, reason in REASONS:
        if of_kind == kind and re.search(pattern, what) and fits(rule):
            return reason
    return None
