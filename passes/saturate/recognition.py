"""Rows of the rule table: activations and gates put together again from their parts.

They are exact where the composite's decomposition is the very same expression.
"""

from mgn.passes.saturate.rule import Rule, RuleClass

EXACT, REASSOCIATES = RuleClass.EXACT, RuleClass.REASSOCIATES
APPROXIMATES = RuleClass.APPROXIMATES

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
    Rule("silu", "mul(x, sigmoid(x))", "silu(x)", EXACT, "the definition", "wide(x)"),
    Rule(
        "silu-quotient",
        "div(x, add(1, exp(neg(x))))",
        "silu(x)",
        REASSOCIATES,
        "a quotient as a product",
        "wide(x)",
    ),
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
        "gelu-half-outside",
        "mul(mul(x, add(1, erf(mul(x, 0.7071067811865476)))), 0.5)",
        "gelu(x)",
        REASSOCIATES,
        "x Φ(x)",
        "wide(x)",
    ),
    Rule(
        "gelu-tanh",
        "mul(mul(x, 0.5), add(1, tanh("
        "mul(add(x, mul(mul(mul(x, x), x), 0.044715)), 0.7978845608028654))))",
        "gelu(x, approx='tanh')",
        EXACT,
        "the definition",
        "wide(x)",
    ),
    Rule(
        "gelu-quotient",
        "mul(mul(x, 0.5), add(1, erf(div(x, 1.4142135623730951))))",
        "gelu(x)",
        APPROXIMATES,
        "the root of 2 is rounded, not that of 1/2",
        "wide(x)",
    ),
    Rule(
        "gelu-tanh-half-outside",
        "mul(mul(x, add(1, tanh("
        "mul(add(x, mul(mul(mul(x, x), x), 0.044715)), 0.7978845608028654)))), 0.5)",
        "gelu(x, approx='tanh')",
        REASSOCIATES,
        "Hendrycks and Gimpel 2016, with tanh",
        "wide(x)",
    ),
    # Norms.
    Rule(
        "softmax",
        "div(exp(sub(x, max_reduce(x, axis=A, keepdims=True))), "
        "sum(exp(sub(x, max_reduce(x, axis=A, keepdims=True))), axis=A, keepdims=True))",
        "softmax(x, axis=only(A))",
        EXACT,
        "the definition",
        "wide(x) and single_axis(A)",
    ),
)
