"""Rows of the rule table: elementwise algebra.

In half precision each operation rounds visibly, so a row that removes a rounding asks `wide(x)`.
Two constants that are added up may be a trick that rounds, `(x + c) - c`: only those of one sign
become one.
"""

from mgn.passes.saturate.rules.rule import Rule, RuleClass

EXACT, REASSOCIATES = RuleClass.EXACT, RuleClass.REASSOCIATES
FAST, APPROXIMATES = RuleClass.FAST, RuleClass.APPROXIMATES

SHIFTED = "exp(sub(x, max_reduce(x, axis=A, keepdims=True)))"
"""The exponentials of a row less its maximum, of which one is 1 and none is more."""

ALGEBRA: tuple[Rule, ...] = (
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
    Rule("pow-one", "pow(x, 1)", "x", REASSOCIATES, "the first power, which devices may round"),
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
    *(
        Rule(
            f"neg-{word}-constant",
            f"{name}(neg(x), c)",
            f"neg({name}(x, c))",
            EXACT,
            "a change of sign rounds nothing",
            "constant(c)" + asked,
        )
        for word, name, asked in (("times", "mul", ""), ("over", "div", " and floating(x)"))
    ),
    Rule(
        "abs-neg",
        "abs(neg(x))",
        "abs(x)",
        EXACT,
        "the sign is dropped, also of the least integer; what has none wraps around",
        "signed(x)",
    ),
    Rule("abs-abs", "abs(abs(x))", "abs(x)", EXACT, "nothing is left to drop"),
    # Done twice as done once.
    Rule("relu-relu", "relu(relu(x))", "relu(x)", EXACT, "nothing below 0 is left"),
    Rule("sign-sign", "sign(sign(x))", "sign(x)", EXACT, "the sign of a sign"),
    Rule("floor-floor", "floor(floor(x))", "floor(x)", EXACT, "it is whole"),
    Rule("ceil-ceil", "ceil(ceil(x))", "ceil(x)", EXACT, "it is whole"),
    Rule(
        "clamp-clamp",
        "clamp(clamp(x, min=A, max=B), min=A, max=B)",
        "clamp(x, min=A, max=B)",
        EXACT,
        "it lies between the limits",
    ),
    Rule("abs-times-abs", "mul(abs(x), abs(x))", "mul(x, x)", EXACT, "signs cancel"),
    Rule("not-not", "logical_not(logical_not(x))", "x", EXACT, "two negations"),
    Rule("max-same", "max(x, x)", "x", EXACT, "the larger of x and x"),
    Rule("min-same", "min(x, x)", "x", EXACT, "the smaller of x and x"),
    # Constants folded together.
    *(
        Rule(
            name,
            left,
            right,
            REASSOCIATES,
            "one rounding less, where the constants fold without any",
            f"wide(x) and {asked}(c) and {asked}(d)",
        )
        for name, left, right, asked in (
            ("scale-scale", "mul(mul(x, c), d)", "mul(x, c * d)", "finite"),
            ("quotient-quotient", "div(div(x, c), d)", "div(x, c * d)", "nonzero"),
            ("scale-quotient", "div(mul(x, c), d)", "mul(x, c / d)", "nonzero"),
            ("scale-quotient-inverted", "div(mul(x, c), d)", "div(x, d / c)", "nonzero"),
            ("quotient-scale", "mul(div(x, c), d)", "mul(x, d / c)", "nonzero"),
            ("quotient-scale-inverted", "mul(div(x, c), d)", "div(x, c / d)", "nonzero"),
        )
    ),
    Rule(
        "shift-shift",
        "add(add(x, c), d)",
        "add(x, c + d)",
        REASSOCIATES,
        "one rounding less, where the constants fold without any, and nothing that cancels",
        "wide(x) and finite(c) and finite(d) and same_sign(c, d)",
    ),
    Rule(
        "shift-and-back",
        "add(add(x, c), d)",
        "add(x, c + d)",
        FAST,
        "one rounding less, where the constants fold without any",
        "wide(x) and finite(c) and finite(d)",
    ),
    Rule(
        "div-power-of-two",
        "div(x, c)",
        "mul(x, 1 / c)",
        EXACT,
        "a change of exponent",
        "floating(x) and power_of_two(c)",
    ),
    Rule(
        "div-constant",
        "div(x, c)",
        "mul(x, 1 / c)",
        APPROXIMATES,
        "1 / c is rounded",
        "wide(x) and nonzero(c)",
    ),
    # One product in place of two.
    *(
        Rule(
            f"common-factor-of-{name}",
            f"{name}(mul(x, y), mul(x, z))",
            f"mul(x, {name}(y, z))",
            FAST,
            "one product and its rounding less; of given sums, as 0 has any number of them",
            "wide(x) and given(y) and given(z)",
        )
        for name in ("add", "sub")
    ),
    Rule(
        "scaled-shift",
        "mul(add(mul(x, c), d), e)",
        "add(mul(x, c * e), d * e)",
        REASSOCIATES,
        "a scale of no more than 1 that rounds nothing",
        "wide(x) and finite(c) and finite(d) and power_of_two(e) and at_most_one(e)",
    ),
    Rule(
        "shift-scaled-up",
        "mul(add(mul(x, c), d), e)",
        "add(mul(x, c * e), d * e)",
        FAST,
        "one rounding less, where the constants fold without any",
        "wide(x) and finite(c) and finite(d) and finite(e)",
    ),
    # Powers, quotients, roots.
    Rule("square", "pow(x, 2)", "mul(x, x)", REASSOCIATES, "the second power"),
    Rule(
        "cube",
        "pow(x, 3)",
        "mul(mul(x, x), x)",
        REASSOCIATES,
        "the third power",
        "wide(x)",
    ),
    Rule(
        "half-power",
        "pow(x, 0.5)",
        "sqrt(x)",
        REASSOCIATES,
        "differs only at -inf and -0",
    ),
    Rule(
        "power-minus-half",
        "pow(x, -0.5)",
        "rsqrt(x)",
        REASSOCIATES,
        "differs only at -inf and -0",
        "wide(x)",
    ),
    Rule("power-minus-one", "pow(x, -1)", "recip(x)", REASSOCIATES, "the inverse"),
    Rule("one-over", "div(1, x)", "recip(x)", EXACT, "the definition", "floating(x)"),
    Rule("recip-sqrt", "recip(sqrt(x))", "rsqrt(x)", EXACT, "the definition", "wide(x)"),
    Rule(
        "div-sqrt",
        "div(x, sqrt(y))",
        "mul(x, rsqrt(y))",
        REASSOCIATES,
        "a quotient as a product",
        "wide(x)",
    ),
    Rule(
        "mul-recip", "mul(x, recip(y))", "div(x, y)", REASSOCIATES, "one rounding less", "wide(x)"
    ),
    # More accurate by themselves; beside `(1 + x) - 1`, which makes up for their error, less so.
    Rule("log-one-plus", "log(add(x, 1))", "log1p(x)", FAST, "the definition", "wide(x)"),
    Rule("exp-minus-one", "sub(exp(x), 1)", "expm1(x)", FAST, "the definition", "wide(x)"),
    Rule(
        "log-of-softmax",
        f"log(div({SHIFTED}, sum({SHIFTED}, axis=A, keepdims=True)))",
        f"sub(sub(x, max_reduce(x, axis=A, keepdims=True)), log(sum({SHIFTED}, axis=A, "
        "keepdims=True)))",
        REASSOCIATES,
        "log_softmax spelled as the logarithm of softmax: its two terms have one sign",
        "wide(x)",
    ),
    Rule(
        "log-of-exponential-quotient",
        "log(div(exp(x), y))",
        "sub(x, log(y))",
        FAST,
        "a logarithm of a quotient",
        "wide(x)",
    ),
    # Casts: only a widening inner cast leaves no trace.
    Rule(
        "cast-cast",
        "cast(cast(x, T=A), T=B)",
        "cast(x, T=B)",
        EXACT,
        "the inner cast loses nothing",
        "leaves_no_trace(A, B, x)",
    ),
    Rule("round-round", "round_tf32(round_tf32(x))", "round_tf32(x)", EXACT, "it is round already"),
)
