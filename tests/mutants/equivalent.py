"""Why mutants of the rule table that no trial refutes hold all the same.

In: a mutated row, the kind of its change and what was changed. Out: the reason, or None. Most
reasons are what `mutants_checks` sees; those below name their rows, or look at the mutant.
"""

import ast
import re
from collections.abc import Callable

from mgn.passes.saturate.rules.rule import Rule, RuleClass
from mgn.passes.saturate.rules.table import RULES
from tests.mutants.checks import executed_reason, seen_of

Holds = Callable[[Rule], bool]
_SHAPES = re.compile(r"one_head(_bias)?\([^()]*(\([^()]*(\([^()]*\))?[^()]*\)[^()]*)*\)")


def _differs_in_reshapes(rule: Rule) -> bool:
    """Whether a right side is the row's but for reshapes."""
    one, other = (
        ast.dump(_Plain().visit(ast.parse(row.right))) for row in (rule, RULES[rule.name])
    )
    return "attention" in rule.name and one == other


class _Plain(ast.NodeTransformer):
    """Leaves reshapes out."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        plain = isinstance(node.func, ast.Name) and node.func.id == "reshape"
        return node.args[0] if plain else node


def _differs_in_shapes(rule: Rule) -> bool:
    """Whether a right side has another value only in what computes the shape of one head."""
    sides = (ast.unparse(ast.parse(row.right)) for row in (rule, RULES[rule.name]))
    one, other = (_SHAPES.sub("", side) for side in sides)
    return one == other


def _differs_in_guard(rule: Rule) -> bool:
    """Whether a row without a mask differs only in what it asks whether it is nan."""
    masked = any(word in rule.name for word in ("bias", "seen", "hidden"))
    one, other = (
        ast.dump(_Unguarded().visit(ast.parse(row.left))) for row in (rule, RULES[rule.name])
    )
    return rule.name.endswith("-or-nothing") and not masked and one == other


class _Unguarded(ast.NodeTransformer):
    """Leaves out what `isnan` is asked of."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        guard = isinstance(node.func, ast.Name) and node.func.id == "isnan"
        return node.func if guard else node


REASONS: tuple[tuple[str, str, Holds, str], ...] = (
    # kind, a pattern of what was changed, of which rows, why it holds
    *(
        (
            kind,
            "^left, ",
            _differs_in_guard,
            "over the reals no score is nan where nothing hides a key, whichever scores are asked",
        )
        for kind in ("variable", "operands", "operation", "left out")
    ),
    (
        "class",
        "as reassociates",
        lambda rule: "of-divided" in rule.name or rule.name == "div-constant",
        "an inverse that f64 rounds is within one rounding of the row's type",
    ),
    (
        "class",
        "as reassociates",
        lambda rule: (
            rule.name == "softplus"
            or "exponentials" in rule.name
            or "softmax-unshifted" in rule.name
        ),
        "where exp overflows on the left, the promise asks nothing of the right",
    ),
    (
        "class",
        "as reassociates",
        lambda rule: rule.name in ("exp-minus-one", "log-one-plus", "shift-and-back"),
        "the right side is the more accurate one by itself; fast is for what surrounds it",
    ),
    (
        "class",
        "as reassociates",
        lambda rule: "small_scores" in rule.when,
        "where all scores are below 2**26, as the row assumes and the default does not",
    ),
    (
        "class",
        "as reassociates",
        lambda rule: RULES[rule.name].equality is RuleClass.ROUNDS,
        "what is left unrounded is within the rounding that the left side asks for",
    ),
    (
        "class",
        "as reassociates",
        lambda rule: rule.name.startswith("gelu-around-"),
        "a share that underflows is within the smallest normal number, which is allowed",
    ),
    (
        "class",
        "as reassociates",
        lambda rule: rule.name.endswith("-filled"),
        "a number that hides weighs less than a rounding, where scores are below 2**26",
    ),
    (
        "class",
        "as exact",
        lambda rule: (
            rule.name == "rope"
            or rule.name.startswith(
                (
                    "rope-of-",
                    "heads",
                    "grouped-heads",
                    "shared-",
                    "capped-attention",
                    "erf-of-",
                    "matmul-of-merged-",
                    "matmul-of-joined-",
                    "matmul-of-turned-",
                    "sum-of-turned",
                )
            )
        ),
        "in the interpreter, which the trials ask; a device's kernels differ in the last place",
    ),
    (
        "class",
        "as reassociates",
        lambda rule: rule.name == "log-of-exponential-quotient",
        "where exp stays finite, a logarithm is below 89, and its half unit below 8 of the left's",
    ),
    (
        "variable",
        r"^right, \w for \w$",
        _differs_in_shapes,
        "a shape of one head asks of the others whether all of q, k and v have a head that is 1; "
        "where the answer differs, the shape is as it was, or does not fit",
    ),
    (
        "left out",
        r"^right, .* for (reshape\(|one_head|turned\(k, keys_last\(k, N\)\))",
        _differs_in_reshapes,
        "attention takes any leading axes: where what is left fits the type, it is the same",
    ),
    (
        "operation",
        "^left, (sqrt for rsqrt|mul for div|sub for add|prod for sum)",
        lambda rule: rule.name in ("matmul-of-normed", "tf32-matmul-of-normed"),
        "diag(r) moves out of a product whatever r is, where the squares of a are finite",
    ),
    (
        "operation",
        r"^left, div for mul\(x, 0\)",
        lambda rule: rule.name == "mul-zero",
        "an integer divided by 0 is 0 in the language",
    ),
    (
        "condition",
        r"without negative\(c\)",
        lambda rule: rule.name.startswith("erf-of-negative-"),
        "the function is odd; the condition says which way the row turns",
    ),
    *(
        (
            kind,
            pattern,
            lambda rule: rule.name.startswith("sigmoid-of-either-sign"),
            "both forms are accurate until an exponential overflows, and then nothing is asked",
        )
        for kind, pattern in (
            ("number", "^left, 1 for 0"),
            ("operands", r"^left, operands of (le|lt|ge|gt)\(x, 0\) swapped"),
        )
    ),
    (
        "number",
        r"^right, 1\.0 for 0\.0$",
        lambda rule: "softmax" in rule.left and "where(m, " in RULES[rule.name].right,
        "a number that is added to all scores that are seen changes no weight",
    ),
    (
        "operation",
        "^left, m(in|ax) for m(in|ax)",
        lambda rule: rule.name in ("max-same", "min-same"),
        "x is the larger and the smaller one of x and x",
    ),
    *(
        (
            kind,
            pattern,
            lambda rule: rule.name.endswith(("-then-dropped", "-then-kept")),
            "both sides have one type only where reduced axes have size 1, or the shape is kept",
        )
        for kind, pattern in (
            ("flag", "^left, False for True"),
            ("attribute", "^left, keepdims left out"),
            ("left out", r"^right, x for \w+\(x, axis=A"),
        )
    ),
    (
        "flag",
        "^left, False for True",
        lambda rule: rule.name == "variance-of-squares",
        "an axis that is dropped comes back by broadcasting, or the sides' types differ",
    ),
    (
        "flag",
        "^left, True for False",
        lambda rule: rule.name.startswith("causal-attention") and "causal=True" in rule.left,
        "what a causal mask hides is hidden once more",
    ),
    (
        "number",
        r"^right, -0\.0 for 0\.0$",
        lambda rule: "softmax" in rule.left and "attention(" in rule.right,
        "a cap of -0 is none, and a score plus -0 weighs as much as plus 0",
    ),
    (
        "number",
        r", -0\.0 for 0\.0$",
        lambda rule: rule.name.startswith("unrounded-"),
        "a share of either zero adds nothing to a sum of products",
    ),
    (
        "number",
        r"^right, (6\.8|3\.4028268)\d*e\+38 for 3\.4028234",
        lambda rule: "farthest(f)" in rule.when,
        "f32 has no such number, and the row does not act; in f64 it hides as well",
    ),
)


def reason_of(rule: Rule, kind: str, what: str) -> str | None:
    """The reason why a mutant holds: what trying it beside its row shows, or else, where other
    draws do not refute it either, a reason of its row or of its change.
    """
    row = RULES[rule.name]
    reason = executed_reason(rule, row, kind, what)
    if reason is not None:
        return reason
    for of_kind, pattern, fits, reason in REASONS:
        if of_kind == kind and re.search(pattern, what) and fits(rule):
            return None if seen_of(rule, row).differs else reason
    if kind == "number" and rule.equality is RuleClass.APPROXIMATES and _is_slight(what):
        return None if seen_of(rule, row).differs else "a row that approximates may be off by that"
    return None


def _is_slight(what: str) -> bool:
    """Whether one number was exchanged for another that is off by two millionths at most."""
    found = re.fullmatch(r"(?:left|right), (\S+) for (\S+)", what)
    if found is None:
        return False
    new, old = map(float, found.groups())
    return abs(new - old) <= 2e-6 * abs(old)
