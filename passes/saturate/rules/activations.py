"""Rows of the rule table: activations in the orders that exporters write them, towards one order.

The half of a gelu and the numbers of its polynomial may stand anywhere; each row moves one of them
outwards, until `recognition.py` knows the expression. A share, of 0 to 1, keeps what it scales from
overflowing: a row that takes it off is fast.
"""

from mgn.passes.saturate.rules.rule import Rule, RuleClass

EXACT, REASSOCIATES, FAST = RuleClass.EXACT, RuleClass.REASSOCIATES, RuleClass.FAST

CUBE = "mul(mul(x, x), x)"
TANH_SCALE = 0.7978845608028654
SHARES = {
    # activation: what x is multiplied by, and what comes of it
    "silu": ("sigmoid(x)", "silu(x)"),
    "gelu": ("mul(add(erf(mul(x, 0.7071067811865476)), 1), 0.5)", "gelu(x)"),
    "gelu-tanh": (
        f"mul(add(tanh(mul(add(x, mul({CUBE}, 0.044715)), {TANH_SCALE})), 1), 0.5)",
        "gelu(x, approx='tanh')",
    ),
    "gelu-sigmoid": (
        f"sigmoid(mul(mul(add(x, mul({CUBE}, 0.044715)), {TANH_SCALE}), 2))",
        "gelu(x, approx='tanh')",
    ),
}

ACTIVATIONS: tuple[Rule, ...] = (
    *(
        Rule(
            f"half-{place}-one-and-{name}",
            halved.format(f"add({name}(z), 1)"),
            f"mul({rest}, mul(add({name}(z), 1), 0.5))",
            REASSOCIATES if rest == "x" else FAST,
            "the order of the factors; a half rounds nothing",
            "wide(x)",
        )
        for name in ("erf", "tanh")
        for place, halved, rest in (
            ("beside", "mul(mul(x, 0.5), {})", "x"),
            ("around", "mul(mul(x, {}), 0.5)", "x"),
            ("before", "mul(mul(mul(x, 0.5), y), {})", "mul(x, y)"),
            ("opposite", "mul(mul(x, 0.5), mul(y, {}))", "mul(x, y)"),
            ("across", "mul(mul(x, {}), mul(y, 0.5))", "mul(x, y)"),
            ("after", "mul(mul(mul(x, {}), y), 0.5)", "mul(x, y)"),
            ("outside", "mul(mul(x, mul(y, {})), 0.5)", "mul(x, y)"),
        )
    ),
    Rule(
        "half-and-half",
        "add(mul(y, 0.5), 0.5)",
        "mul(add(y, 1), 0.5)",
        REASSOCIATES,
        "y / 2 + 1/2 = (1 + y) / 2",
        "wide(y)",
    ),
    *(
        Rule(
            f"one-and-{name}",
            f"add(x, mul(x, {name}(y)))",
            f"mul(x, add({name}(y), 1))",
            REASSOCIATES,
            f"x + x {name}(y) = x (1 + {name}(y))",
            "wide(x)",
        )
        for name in ("erf", "tanh")
    ),
    Rule(
        "sigmoid-of-tanh",
        "mul(add(tanh(x), 1), 0.5)",
        "sigmoid(mul(x, 2))",
        REASSOCIATES,
        "(1 + tanh(x)) / 2 = 1 / (1 + exp(-2 x))",
        "wide(x)",
    ),
    Rule(
        "erf-of-negation",
        "erf(neg(x))",
        "neg(erf(x))",
        REASSOCIATES,
        "erf is odd, and 1 - erf(-x) is how erfc(-x) is exported",
        "wide(x)",
    ),
    *(
        Rule(
            f"{name}-of-negative-{word}",
            f"{name}({scaled}(x, c))",
            right.format(f"{scaled}(x, c * -1)"),
            equality,
            reason,
            "negative(c) and wide(x)",
        )
        for name, right, equality, reason in (
            ("erf", "neg(erf({}))", REASSOCIATES, "erf is odd"),
            ("exp", "exp(neg({}))", EXACT, "a change of sign rounds nothing"),
        )
        for word, scaled in (("scale", "mul"), ("quotient", "div"))
    ),
    Rule(
        "erf-of-quotient",
        "erf(div(x, 1.4142135623730951))",
        "erf(mul(x, 0.7071067811865476))",
        REASSOCIATES,
        "x / √2 is x √½; each root is rounded for itself",
        "wide(x)",
    ),
    # The polynomial of gelu by tanh: (x + c x³) k.
    Rule(
        "scale-out-of-square",
        "mul(mul(x, c), x)",
        "mul(mul(x, x), c)",
        FAST,
        "the order of three factors",
        "constant(c) and scalar(c) and wide(x)",
    ),
    Rule(
        "scale-out-of-cube",
        "mul(mul(mul(x, x), c), x)",
        f"mul({CUBE}, c)",
        FAST,
        "the order of four factors",
        "constant(c) and scalar(c) and wide(x)",
    ),
    Rule(
        "cubic-of-square",
        "mul(x, add(mul(mul(x, x), c), k))",
        f"add(mul(x, k), mul({CUBE}, c))",
        FAST,
        "x (k + c x²) = k x + c x³",
        "constant(c) and scalar(c) and constant(k) and scalar(k) and wide(x)",
    ),
    Rule(
        "scaled-cubic-of-square",
        "mul(mul(x, k), add(mul(mul(x, x), c), 1))",
        f"mul(add(x, mul({CUBE}, c)), k)",
        FAST,
        "(k x) (1 + c x²) = k (x + c x³)",
        "constant(c) and scalar(c) and constant(k) and scalar(k) and wide(x)",
    ),
    Rule(
        "twice-the-scale-of-tanh",
        f"mul(x, {2 * TANH_SCALE})",
        f"mul(mul(x, {TANH_SCALE}), 2)",
        REASSOCIATES,
        "the scale of gelu by sigmoid, and by tanh",
        "wide(x)",
    ),
    *(
        Rule(
            f"cubic-scaled-in-parts-by-{name}",
            f"add(mul(x, {scale}), mul({CUBE}, {scale * 0.044715}))",
            f"mul(add(x, mul({CUBE}, 0.044715)), {scale})",
            REASSOCIATES,
            "k x + (k c) x³ = k (x + c x³), with the k and c of gelu by tanh",
            "wide(x)",
        )
        for name, scale in (("tanh", TANH_SCALE), ("sigmoid", 2 * TANH_SCALE))
    ),
    # A gate whose other factor stands between x and its share, and may keep it from underflowing.
    *(
        Rule(
            f"{name}-{place}-a-product",
            product.format(share),
            f"mul({whole}, y)",
            FAST,
            "the order of three factors",
            "wide(x)",
        )
        for name, (share, whole) in SHARES.items()
        for place, product in (("around", "mul(mul(x, y), {})"), ("before", "mul(x, mul(y, {}))"))
    ),
)
