"""Rows of the rule table: activations and gates put together again from their parts.

They are exact where the composite's decomposition is the very same expression. Where `1 + tanh(y)`
stands for a sigmoid, it has lost what is left of one near 0: such a row is fast.
"""

from mgn.passes.saturate.rules.rule import Rule, RuleClass

EXACT, REASSOCIATES = RuleClass.EXACT, RuleClass.REASSOCIATES
FAST, APPROXIMATES = RuleClass.FAST, RuleClass.APPROXIMATES

EXPONENTIAL = "exp(sub(x, max_reduce(x, axis=A, keepdims=True)))"
"""The exponentials of a row less its maximum, of which one is 1 and none is more."""

CUBIC = "mul(add(x, mul(mul(mul(x, x), x), 0.044715)), 0.7978845608028654)"
"""What gelu by tanh takes the tangent of."""

EXPONENTIALS = "div(exp(x), add(exp(x), 1))"
"""sigmoid(x), but where exp(x) overflows."""

RECOGNITION: tuple[Rule, ...] = (
    # Recognition: activations put together again from their parts.
    Rule("relu", "max(x, 0)", "relu(x)", EXACT, "the definition; nan passes on"),
    Rule(
        "sigmoid",
        "recip(add(1, exp(neg(x))))",
        "sigmoid(x)",
        EXACT,
        "the definition",
        "wide(x)",
    ),
    Rule(
        "sigmoid-quotient",
        "div(y, add(1, exp(neg(x))))",
        "mul(y, sigmoid(x))",
        REASSOCIATES,
        "a quotient as a product",
        "wide(x)",
    ),
    Rule(
        "sigmoid-of-exponentials",
        EXPONENTIALS,
        "sigmoid(x)",
        APPROXIMATES,
        "the left is nan where exp(x) overflows",
        "wide(x)",
    ),
    Rule(
        "sigmoid-of-scaled-exponentials",
        "div(mul(y, exp(x)), add(exp(x), 1))",
        "mul(y, sigmoid(x))",
        APPROXIMATES,
        "the left is nan where exp(x) overflows",
        "wide(x)",
    ),
    *(
        Rule(
            f"sigmoid-of-either-sign-by-{name}",
            f"where({name}(x, 0), {parts})",
            "sigmoid(x)",
            REASSOCIATES,
            "of two ways to compute it, the one that does not overflow",
            "wide(x)",
        )
        for name, parts in (
            ("ge", f"sigmoid(x), {EXPONENTIALS}"),
            ("gt", f"sigmoid(x), {EXPONENTIALS}"),
            ("lt", f"{EXPONENTIALS}, sigmoid(x)"),
            ("le", f"{EXPONENTIALS}, sigmoid(x)"),
        )
    ),
    Rule("silu", "mul(x, sigmoid(x))", "silu(x)", EXACT, "the definition", "wide(x)"),
    Rule("softplus", "log1p(exp(x))", "softplus(x)", APPROXIMATES, "exp may overflow"),
    Rule("swiglu", "mul(silu(x), y)", "swiglu(x, y)", EXACT, "the definition", "wide(x)"),
    Rule(
        "geglu",
        "mul(gelu(x, approx=A), y)",
        "geglu(x, y, approx=A)",
        EXACT,
        "the definition",
        "wide(x)",
    ),
    Rule(
        "gelu",
        "mul(mul(x, 0.5), add(1, erf(mul(x, 0.7071067811865476))))",
        "gelu(x)",
        EXACT,
        "the definition",
        "wide(x)",
    ),
    Rule(
        "gelu-of-share",
        "mul(x, mul(add(1, erf(mul(x, 0.7071067811865476))), 0.5))",
        "gelu(x)",
        REASSOCIATES,
        "x Φ(x)",
        "wide(x)",
    ),
    Rule(
        "gelu-tanh",
        f"mul(mul(x, 0.5), add(1, tanh({CUBIC})))",
        "gelu(x, approx='tanh')",
        EXACT,
        "the definition",
        "wide(x)",
    ),
    Rule(
        "gelu-tanh-of-share",
        f"mul(x, mul(add(tanh({CUBIC}), 1), 0.5))",
        "gelu(x, approx='tanh')",
        REASSOCIATES,
        "the order of three factors; a half rounds nothing",
        "wide(x)",
    ),
    Rule(
        "gelu-by-sigmoid",
        f"mul(x, sigmoid(mul({CUBIC}, 2)))",
        "gelu(x, approx='tanh')",
        FAST,
        "(1 + tanh(y)) / 2 = sigmoid(2 y)",
        "wide(x)",
    ),
    # Norms: another spelling becomes the one that the composite decomposes to.
    Rule(
        "softmax",
        "div(exp(sub(x, max_reduce(x, axis=A, keepdims=True))), "
        "sum(exp(sub(x, max_reduce(x, axis=A, keepdims=True))), axis=A, keepdims=True))",
        "softmax(x, axis=only(A))",
        EXACT,
        "the definition",
        "wide(x) and single_axis(A)",
    ),
    Rule(
        "softmax-by-reciprocal",
        "div(exp(sub(x, max_reduce(x, axis=A, keepdims=True))), "
        "sum(exp(sub(x, max_reduce(x, axis=A, keepdims=True))), axis=A, keepdims=True))",
        "mul(exp(sub(x, max_reduce(x, axis=A, keepdims=True))), "
        "recip(sum(exp(sub(x, max_reduce(x, axis=A, keepdims=True))), axis=A, keepdims=True)))",
        REASSOCIATES,
        "one quotient a row: the sum lies between 1 and the length of a row",
        "wide(x)",
    ),
    Rule(
        "shares-before-product",
        f"div(matmul({EXPONENTIAL}, y, transpose_b=N), sum({EXPONENTIAL}, axis=A, keepdims=True))",
        f"matmul(div({EXPONENTIAL}, sum({EXPONENTIAL}, axis=A, keepdims=True)), y, transpose_b=N)",
        REASSOCIATES,
        "the shares of positive terms: their sum lies between 1 and the length of a row",
        "wide(x) and reduces_last(A, x)",
    ),
    Rule(
        "quotient-after-product",
        "div(matmul(x, y, transpose_b=N), sum(x, axis=A, keepdims=True))",
        "matmul(div(x, sum(x, axis=A, keepdims=True)), y, transpose_b=N)",
        FAST,
        "the shares of a row's terms before or after their weighted sum",
        "wide(x) and reduces_last(A, x)",
    ),
    Rule(
        "softmax-unshifted",
        "div(exp(x), sum(exp(x), axis=A, keepdims=True))",
        "softmax(x, axis=only(A))",
        APPROXIMATES,
        "the left overflows where the right does not",
        "wide(x) and single_axis(A) and unshifted(x)",
    ),
    Rule(
        "exponential-of-log-softmax",
        "exp(sub(sub(x, m), log(sum(exp(sub(x, m)), axis=A, keepdims=True))))",
        "div(exp(sub(x, m)), sum(exp(sub(x, m)), axis=A, keepdims=True))",
        REASSOCIATES,
        "a difference of logarithms as a quotient",
        "wide(x)",
    ),
    Rule(
        "log-softmax-of-logsumexp",
        "sub(x, logsumexp(x, axis=A, keepdims=True))",
        "log_softmax(x, axis=only(A))",
        REASSOCIATES,
        "the definition, but for infinite rows",
        "wide(x) and single_axis(A)",
    ),
    Rule(
        "log-softmax-of-parts",
        f"sub(x, add(log(sum({EXPONENTIAL}, axis=A, keepdims=True)), "
        "max_reduce(x, axis=A, keepdims=True)))",
        f"sub(sub(x, max_reduce(x, axis=A, keepdims=True)), "
        f"log(sum({EXPONENTIAL}, axis=A, keepdims=True)))",
        REASSOCIATES,
        "the maximum taken off first: then both terms have one sign",
        "wide(x)",
    ),
    Rule(
        "variance-of-squares",
        "sub(div(sum(mul(x, x), axis=A, keepdims=True), n), "
        "mul(div(sum(x, axis=A, keepdims=True), n), div(sum(x, axis=A, keepdims=True), n)))",
        "var(x, axis=A, keepdims=True)",
        APPROXIMATES,
        "the left cancels where the mean is large",
        "wide(x) and counts(n, x, A)",
    ),
    Rule(
        "scale-of-rows-before-columns",
        "mul(x, mul(r, s))",
        "mul(mul(x, r), s)",
        FAST,
        "the order of two scales",
        "wide(x) and row_statistic(x, r) and vector(s)",
    ),
    Rule(
        "scale-of-columns-before-rows",
        "mul(mul(x, s), r)",
        "mul(mul(x, r), s)",
        FAST,
        "the order of two scales",
        "wide(x) and row_statistic(x, r) and vector(s)",
    ),
    Rule(
        "square-of-mean-less-row",
        "mul(sub(r, x), sub(r, x))",
        "mul(sub(x, r), sub(x, r))",
        EXACT,
        "a square has no sign",
        "row_statistic(x, r)",
    ),
    Rule(
        "shift-of-mean-before-scale",
        "add(mul(x, s), sub(b, mul(m, s)))",
        "add(mul(sub(x, m), s), b)",
        FAST,
        "x s + (b - m s) = (x - m) s + b",
        "wide(x)",
    ),
)
