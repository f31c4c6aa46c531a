"""The rewrite rules: one table, read by the e-graph, by the tests that evaluate both sides, and by
the manual.

A row says: under its condition, the left side may be replaced by the right side. Its class says how
equal the two are: *exact* (same bits), *reassociates* (same value over the reals), *approximates*.
That the types agree is never written: an instance whose two sides differ in type does not act.
Users add rows with `register_rule`.
"""

import ast
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from mgn.dialects.mgn import OPERATIONS
from mgn.passes.saturate.conditions import PREDICATES
from mgn.passes.saturate.patterns import (
    Call,
    Pattern,
    PatternError,
    calls_of,
    folded_variables,
    parse_conditions,
    parse_pattern,
    variables_of,
)


class RuleClass(StrEnum):
    """How equal the two sides of a rule are."""

    EXACT = "exact"
    REASSOCIATES = "reassociates"
    APPROXIMATES = "approximates"


EXACT, REASSOCIATES = RuleClass.EXACT, RuleClass.REASSOCIATES
APPROXIMATES = RuleClass.APPROXIMATES
DEFAULT_CLASSES = frozenset({EXACT, REASSOCIATES})


@dataclass(frozen=True)
class Rule:
    """One row: a name, both sides, how equal they are, why they are, and when."""

    name: str
    left: str
    right: str
    equality: RuleClass
    reason: str
    when: str = ""

    @cached_property
    def left_pattern(self) -> Call:
        pattern = parse_pattern(self.left)
        if not isinstance(pattern, Call):
            raise PatternError(f"rule {self.name}: the left side must be an operation")
        return pattern

    @cached_property
    def right_pattern(self) -> Pattern:
        return parse_pattern(self.right)

    @cached_property
    def variables(self) -> list[str]:
        """The value variables that the left side binds."""
        return variables_of(self.left_pattern)

    @cached_property
    def constants(self) -> list[str]:
        """The variables that must be constants, because the rule asks or computes with them."""
        asked = {
            argument.id
            for call in parse_conditions(self.when)
            for argument in call.args
            if getattr(call.func, "id", "") == "constant" and isinstance(argument, ast.Name)
        }
        wanted = asked | folded_variables(self.right_pattern)
        return [name for name in self.variables if name in wanted]

    def check(self) -> None:
        """Raises PatternError where the row names what does not exist."""
        for side in (self.left_pattern, self.right_pattern):
            for call in calls_of(side):
                if call.name not in OPERATIONS:
                    raise PatternError(f"rule {self.name}: unknown operation '{call.name}'")
        unbound = set(variables_of(self.right_pattern)) - set(self.variables)
        if unbound:
            raise PatternError(f"rule {self.name}: '{min(unbound)}' is not bound on the left")
        for condition in parse_conditions(self.when):
            name = getattr(condition.func, "id", "?")
            if name not in PREDICATES:
                raise PatternError(f"rule {self.name}: unknown predicate '{name}'")


RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        # Nothing to do.
        Rule("identity", "identity(x)", "x", EXACT, "it is x"),
        Rule("stop-gradient", "stop_gradient(x)", "x", EXACT, "gradients are taken before"),
        Rule("same-reshape", "reshape(x, shape=S)", "x", EXACT, "the shape is x's"),
        Rule("same-broadcast", "broadcast_to(x, shape=S)", "x", EXACT, "the shape is x's"),
        Rule("whole-slice", "slice(x, starts=A, stops=B, steps=C)", "x", EXACT, "all of x"),
        Rule("no-padding", "pad(x, padding=P, value=V)", "x", EXACT, "nothing is added"),
        Rule("same-cast", "cast(x, T=E)", "x", EXACT, "the element type is x's"),
        Rule(
            "same-transpose",
            "transpose(x, perm=P)",
            "x",
            EXACT,
            "no axis moves",
            "identity_permutation(P)",
        ),
        # Arithmetic with a neutral element.
        Rule("add-zero", "add(x, 0)", "x", REASSOCIATES, "only -0 + 0 differs, in its sign"),
        Rule("add-minus-zero", "add(x, -0.0)", "x", EXACT, "the neutral element of the sum"),
        Rule("sub-zero", "sub(x, 0)", "x", EXACT, "x - 0 keeps the sign of 0 too"),
        Rule("mul-one", "mul(x, 1)", "x", EXACT, "the neutral element of the product"),
        Rule("div-one", "div(x, 1)", "x", EXACT, "dividing by 1 does not round"),
        Rule("pow-one", "pow(x, 1)", "x", EXACT, "the first power"),
        Rule(
            "mul-zero",
            "mul(x, 0)",
            "full(shape=SHAPE, value=0.0, T=ELEMENT)",
            EXACT,
            "integers have neither nan nor infinity",
            "integer(x)",
        ),
        Rule("zero-sub", "sub(0, x)", "neg(x)", REASSOCIATES, "only 0 - 0 differs, in its sign"),
        Rule("mul-minus-one", "mul(x, -1)", "neg(x)", EXACT, "a change of sign"),
        # Signs.
        Rule("neg-neg", "neg(neg(x))", "x", EXACT, "two changes of sign"),
        Rule("add-neg", "add(x, neg(y))", "sub(x, y)", EXACT, "IEEE 754 defines x - y so"),
        Rule("sub-neg", "sub(x, neg(y))", "add(x, y)", EXACT, "IEEE 754 defines x - y so"),
        Rule("mul-neg-neg", "mul(neg(x), neg(y))", "mul(x, y)", EXACT, "signs cancel"),
        Rule(
            "abs-neg",
            "abs(neg(x))",
            "abs(x)",
            EXACT,
            "the sign is dropped, also of the least integer",
        ),
        Rule("abs-abs", "abs(abs(x))", "abs(x)", EXACT, "nothing is left to drop"),
        Rule("not-not", "logical_not(logical_not(x))", "x", EXACT, "two negations"),
        Rule("max-same", "max(x, x)", "x", EXACT, "the larger of x and x"),
        Rule("min-same", "min(x, x)", "x", EXACT, "the smaller of x and x"),
        # Constants folded together.
        Rule(
            "scale-scale",
            "mul(mul(x, c), d)",
            "mul(x, c * d)",
            REASSOCIATES,
            "one rounding less",
            "floating(x) and finite(c) and finite(d)",
        ),
        Rule(
            "shift-shift",
            "add(add(x, c), d)",
            "add(x, c + d)",
            REASSOCIATES,
            "one rounding less",
            "floating(x) and finite(c) and finite(d)",
        ),
        Rule(
            "div-constant",
            "div(x, c)",
            "mul(x, 1 / c)",
            REASSOCIATES,
            "the quotient rounds once, the product twice",
            "floating(x) and nonzero(c)",
        ),
        # Powers, quotients, roots.
        Rule("square", "pow(x, 2)", "mul(x, x)", REASSOCIATES, "the second power"),
        Rule(
            "half-power",
            "pow(x, 0.5)",
            "sqrt(x)",
            APPROXIMATES,
            "differs at -inf and -0",
        ),
        Rule("power-minus-one", "pow(x, -1)", "recip(x)", REASSOCIATES, "the inverse"),
        Rule("one-over", "div(1, x)", "recip(x)", EXACT, "the definition", "floating(x)"),
        Rule("recip-sqrt", "recip(sqrt(x))", "rsqrt(x)", EXACT, "the definition"),
        Rule(
            "div-sqrt",
            "div(x, sqrt(y))",
            "mul(x, rsqrt(y))",
            REASSOCIATES,
            "a quotient as a product",
        ),
        Rule("mul-recip", "mul(x, recip(y))", "div(x, y)", REASSOCIATES, "one rounding less"),
        Rule("log-one-plus", "log(add(x, 1))", "log1p(x)", REASSOCIATES, "the definition"),
        Rule("exp-minus-one", "sub(exp(x), 1)", "expm1(x)", REASSOCIATES, "the definition"),
        # Casts: only a widening inner cast leaves no trace.
        Rule(
            "cast-cast",
            "cast(cast(x, T=A), T=B)",
            "cast(x, T=B)",
            EXACT,
            "the inner cast loses nothing",
            "holds_all(A, x)",
        ),
        # Movement.
        Rule(
            "transpose-transpose",
            "transpose(transpose(x, perm=P), perm=Q)",
            "transpose(x, perm=compose(P, Q))",
            EXACT,
            "permutations compose",
        ),
        Rule(
            "reshape-reshape",
            "reshape(reshape(x, shape=S), shape=R)",
            "reshape(x, shape=R)",
            EXACT,
            "the order of elements stays",
        ),
        Rule(
            "broadcast-broadcast",
            "broadcast_to(broadcast_to(x, shape=S), shape=R)",
            "broadcast_to(x, shape=R)",
            EXACT,
            "broadcasting composes",
        ),
        Rule("flip-flip", "flip(flip(x, axis=A), axis=A)", "x", EXACT, "reversed twice"),
        # Matrix products take transposed operands as they are.
        Rule(
            "matmul-transposed-a",
            "matmul(transpose(a, perm=P), b, transpose_a=M, transpose_b=N)",
            "matmul(a, b, transpose_a=not M, transpose_b=N)",
            EXACT,
            "the same products in the same order",
            "swaps_last_two(P)",
        ),
        Rule(
            "matmul-transposed-b",
            "matmul(a, transpose(b, perm=P), transpose_a=M, transpose_b=N)",
            "matmul(a, b, transpose_a=M, transpose_b=not N)",
            EXACT,
            "the same products in the same order",
            "swaps_last_two(P)",
        ),
        Rule(
            "transposed-matmul",
            "transpose(matmul(a, b, transpose_a=M, transpose_b=N), perm=P)",
            "matmul(b, a, transpose_a=not N, transpose_b=not M)",
            EXACT,
            "(A B)ᵀ = Bᵀ Aᵀ",
            "swaps_last_two(P) and matrix(a) and matrix(b)",
        ),
        Rule(
            "matmul-scaled-a",
            "matmul(mul(a, c), b, transpose_a=M, transpose_b=N)",
            "mul(matmul(a, b, transpose_a=M, transpose_b=N), c)",
            REASSOCIATES,
            "a product is linear",
            "constant(c) and scalar(c) and wide(a)",
        ),
        Rule(
            "matmul-scaled-b",
            "matmul(a, mul(b, c), transpose_a=M, transpose_b=N)",
            "mul(matmul(a, b, transpose_a=M, transpose_b=N), c)",
            REASSOCIATES,
            "a product is linear",
            "constant(c) and scalar(c) and wide(a)",
        ),
        # Recognition: activations put together again from their parts.
        Rule("relu", "max(x, 0)", "relu(x)", EXACT, "the definition; nan passes on"),
        Rule(
            "sigmoid",
            "recip(add(1, exp(neg(x))))",
            "sigmoid(x)",
            REASSOCIATES,
            "the definition",
        ),
        Rule("silu", "mul(x, sigmoid(x))", "silu(x)", REASSOCIATES, "the definition"),
        Rule(
            "silu-quotient",
            "div(x, add(1, exp(neg(x))))",
            "silu(x)",
            REASSOCIATES,
            "one rounding less",
        ),
        Rule("softplus", "log1p(exp(x))", "softplus(x)", APPROXIMATES, "exp may overflow"),
        Rule("swiglu", "mul(silu(x), y)", "swiglu(x, y)", EXACT, "the definition"),
        Rule("geglu", "mul(gelu(x), y)", "geglu(x, y)", EXACT, "the definition"),
        Rule(
            "gelu",
            "mul(mul(x, 0.5), add(1, erf(mul(x, 0.7071067811865476))))",
            "gelu(x)",
            REASSOCIATES,
            "x Φ(x)",
        ),
        Rule(
            "gelu-half-outside",
            "mul(mul(x, add(1, erf(mul(x, 0.7071067811865476)))), 0.5)",
            "gelu(x)",
            REASSOCIATES,
            "x Φ(x)",
        ),
        Rule(
            "gelu-tanh",
            "mul(mul(x, 0.5), add(1, tanh("
            "mul(add(x, mul(mul(mul(x, x), x), 0.044715)), 0.7978845608028654))))",
            "gelu(x, approx='tanh')",
            REASSOCIATES,
            "Hendrycks and Gimpel 2016, with tanh",
        ),
    )
}


def register_rule(rule: Rule) -> None:
    """Adds a row for all later runs. PatternError where it is malformed or its name is taken."""
    if rule.name in RULES:
        raise PatternError(f"there is a rule named {rule.name} already")
    rule.check()
    RULES[rule.name] = rule


def rules_of(classes: frozenset[RuleClass] = DEFAULT_CLASSES) -> list[Rule]:
    """The rows that may act when only these classes are allowed."""
    return [rule for rule in RULES.values() if rule.equality in classes]
