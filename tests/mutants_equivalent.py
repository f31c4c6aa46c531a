"""Why mutants of the rule table that no trial refutes hold all the same.

In: a mutated row, the kind of its change and what was changed. Out: the reason, or None.
"""

import ast
import re
from collections.abc import Callable

from mgn.passes.saturate.rule import Rule, RuleClass
from mgn.passes.saturate.rules import RULES

Holds = Callable[[Rule], bool]
_SHAPES = re.compile(r"one_head(_bias)?\([^()]*(\([^()]*(\([^()]*\))?[^()]*\)[^()]*)*\)")


def _differs_in_shapes(rule: Rule) -> bool:
    """Whether a right side has another value only in what computes the shape of one head."""
    sides = (ast.unparse(ast.parse(row.right)) for row in (rule, RULES[rule.name]))
    one, other = (_SHAPES.sub("", side) for side in sides)
    return one == other


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
        lambda rule: "c" in rule.constants,
        "a constant is one number everywhere; where it changes a shape, the sides' types differ",
    ),
    (
        "attribute",
        "softcap left out",
        lambda rule: "capped" not in rule.name,
        "what is written is the default",
    ),
    (
        "attribute",
        "^left, (causal|window) left out",
        lambda rule: "causal=False, window=0" in RULES[rule.name].left,
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
        r"^right, \w for \w$",
        _differs_in_shapes,
        "a shape of one head asks of the others whether all of q, k and v have a head that is 1; "
        "where the answer differs, the shape is as it was, or does not fit",
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
        r"without (moderate|invertible)\(c\)",
        lambda rule: rule.equality is RuleClass.APPROXIMATES,
        "a row that approximates is tried on numbers of order 1 alone",
    ),
    (
        "operation",
        "^left, (sqrt for rsqrt|mul for div)",
        lambda rule: rule.name in ("matmul-of-normed", "tf32-matmul-of-normed"),
        "diag(r) moves out of a product whatever r is, where the squares of a are finite",
    ),
    (
        "condition",
        "without (given|read_once|thin_batches|thin_rows|less_work|share_keys)",
        lambda rule: True,
        "it says when the row is worth while, not when it holds",
    ),
    (
        "left out",
        r"^right, .* for (reshape\(|one_head)",
        lambda rule: "attention" in rule.name,
        "attention takes any leading axes: where what is left fits the type, it is the same",
    ),
    (
        "condition",
        r"without (moderate|invertible)\(c\)",
        lambda rule: rule.name.startswith(("least-", "bias-", "two-")),
        "scores keep their own scale or quotient; it is asked where they become attention's",
    ),
    (
        "number",
        r"^right, (2|1\.000001|0|-1) for 1$",
        lambda rule: "scaled_by(1.0, c, q, 1)" not in rule.right and "heads=1," in rule.right,
        "a count of heads by which a scale that was rounded is told: another one gives the scale "
        "as it was rounded, or one that is rounded to it",
    ),
    (
        "condition",
        r"without usual_scores",
        lambda rule: rule.name.startswith("capped-"),
        "scores are at most the cap, which is tried up to 3",
    ),
    (
        "class",
        "as reassociates",
        lambda rule: "small_scores" in rule.when,
        "where all scores are below 2**26, as the row assumes and the default does not",
    ),
    (
        "condition",
        "without same_type",
        lambda rule: rule.name.endswith("-of-products-of-one-right"),
        "rows are broadcast alike before a product and after it",
    ),
    (
        "condition",
        r"without stacks\(P, x, G\)",
        lambda rule: rule.name == "rope-of-pairs",
        "halves that lie along one axis have one shape, of which stacks(Q, x, G) asks",
    ),
    (
        "condition",
        "without row_statistic",
        lambda rule: rule.name == "square-of-mean-less-row",
        "the square of a difference has the bits of that of its opposite",
    ),
    (
        "operation",
        "^left, m(in|ax) for m(in|ax)",
        lambda rule: rule.name in ("max-same", "min-same"),
        "x is the larger and the smaller one of x and x",
    ),
    (
        "flag",
        "^left, False for True",
        lambda rule: rule.name == "variance-of-squares",
        "an axis that is dropped comes back by broadcasting, or the sides' types differ",
    ),
    (
        "flag",
        "^right, False for True",
        lambda rule: rule.name == "rope-of-pairs" and "interleaved=True" in rule.right,
        "tables of half the width are the same for pairs and for halves",
    ),
    (
        "flag",
        "^left, True for False",
        lambda rule: rule.name == "causal-attention" and "causal=True" in rule.left,
        "what a causal mask hides is hidden once more",
    ),
    (
        "variable",
        "^right, [qkv] for [qkv]$",
        lambda rule: rule.name.startswith("heads-as-batches"),
        "in the shape of a permutation, which is asked for its rank alone",
    ),
    (
        "class",
        "as exact",
        lambda rule: rule.name.startswith(("rope-of-", "heads", "grouped-heads")),
        "in the interpreter, which the trials ask; a device's kernels differ in the last place",
    ),
    (
        "class",
        "as reassociates",
        lambda rule: rule.name == "log-of-exponential-quotient",
        "where exp stays finite, a logarithm is below 89, and its half unit below 8 of the left's",
    ),
    (
        "number",
        r"^right, -0\.0 for 0\.0$",
        lambda rule: "softmax" in rule.left and "attention(" in rule.right,
        "a cap of -0 is none, and a score plus -0 weighs as much as plus 0",
    ),
    (
        "number",
        r"^right, (6\.8|3\.4028268)\d*e\+38 for 3\.4028234",
        lambda rule: "farthest(f)" in rule.when,
        "f32 has no such number, and the row does not act; in f64 it hides as well",
    ),
)


def reason_of(rule: Rule, kind: str, what: str) -> str | None:
    """The reason why a mutant holds."""
    for of_kind, pattern, fits, reason in REASONS:
        if of_kind == kind and re.search(pattern, what) and fits(rule):
            return reason
    return None
