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
        "class",
        "as reassociates",
        lambda rule: "exponentials" in rule.name or "softmax-unshifted" in rule.name,
        "where exp overflows on the left, the promise asks nothing of the right",
    ),
    (
        "class",
        "as reassociates",
        lambda rule: rule.name in ("exp-minus-one", "log-one-plus", "shift-and-back"),
        "the right side is the more accurate one by itself; fast is for what surrounds it",
    ),
    (
        "condition",
        r"without wide\(\w\)",
        lambda rule: rule.equality is RuleClass.FAST,
        "a fast row promises nothing of roundings, in half precision neither",
    ),
    (
        "condition",
        r"without wide\(\w\)",
        lambda rule: rule.equality is RuleClass.REASSOCIATES,
        "the promise, which is one of every type, is kept in half precision too",
    ),
    (
        "condition",
        r"without nonzero\(c\)",
        lambda rule: rule.name.startswith("div-of"),
        "a quotient of constants by 0 is not computed, and the rule does not act",
    ),
    (
        "condition",
        r"without scalar\(c\)",
        lambda rule: rule.name.startswith(("div-of", "mul-of")),
        "a constant is one number everywhere, and broadcasts alike on both sides",
    ),
    (
        "attribute",
        "softcap left out",
        lambda rule: "capped" not in rule.name,
        "what is written is the default",
    ),
    (
        "left out",
        r"for turned\(k, keys_last\(k, N\)\)",
        lambda rule: True,
        "where the shape of the keys as they are fits, it is the same",
    ),
    *(
        (
            kind,
            "",
            lambda rule: rule.name.endswith(("-then-dropped", "-then-kept")),
            "both sides have one type only where reduced axes have size 1, or the shape is kept",
        )
        for kind in ("attribute", "flag", "left out")
    ),
    (
        "number",
        r"^right, \d for 3$",
        lambda rule: rule.name.startswith("shared-"),
        "the axes of a shape that is kept are counted alike: another count that fits is the same",
    ),
    (
        "variable",
        r"^right, [vz] for [qkv]$",
        lambda rule: "attention" in rule.name,
        "of the shape functions of one head: the leading axes of q, k and v are the same",
    ),
    (
        "condition",
        r"without matrix\([qv]\)",
        lambda rule: "attention" in rule.name,
        "a vector does not act: no shape of one head fits it, or the axis is not the last",
    ),
    (
        "condition",
        r"without constant\(\w\)",
        lambda rule: "far" in rule.when or "finite" in rule.when or "positive" in rule.when,
        "another condition on the same name asks for a constant too",
    ),
    (
        "condition",
        r"without moderate\(c\)",
        lambda rule: rule.equality is RuleClass.APPROXIMATES,
        "a row that approximates is tried on numbers of order 1 alone",
    ),
    (
        "operation",
        "^left, sqrt for rsqrt",
        lambda rule: rule.name == "matmul-of-normed",
        "diag(r) moves out of a product whatever r is, where the squares of a are finite",
    ),
    (
        "condition",
        "without (given|read_once|thin_batches|thin_rows|less_work)",
        lambda rule: True,
        "it says when the row is worth while, not when it holds",
    ),
    (
        "left out",
        r"^right, .* for (reshape\(\w, shape=one_head|one_head)",
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
