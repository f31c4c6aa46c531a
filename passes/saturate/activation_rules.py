"""Rows of the rule table: activations in the orders that exporters write them, towards one order.

The half of a gelu and the numbers of its polynomial may stand anywhere; each row moves one of them
outwards, until `recognition.py` knows the expression.
"""

from mgn.passes.saturate.rule import Rule, RuleClass

REASSOCIATES = RuleClass.REASSOCIATES

CUBE = "mul(mul(x, x), x)"

ACTIVATIONS: tuple[Rule, ...] = (
    Rule(
        "half-of-a-factor",
        "mul(x, mul(add(y, 1), 0.5))",
        "mul(mul(x, add(y, 1)), 0.5)",
        REASSOCIATES,
        "x ((1 + y) / 2) = (x (1 + y)) / 2",
        "wide(x)",
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
        REASSOCIATES,
        "the order of three factors",
        "constant(c) and scalar(c) and wide(x)",
    ),
    Rule(
        "scale-out-of-cube",
        "mul(mul(mul(x, x), c), x)",
        f"mul({CUBE}, c)",
        REASSOCIATES,
        "the order of four factors",
        "constant(c) and scalar(c) and wide(x)",
    ),
    Rule(
        "cubic-of-square",
        "mul(x, add(mul(mul(x, x), c), 1))",
        f"add(x, mul({CUBE}, c))",
        REASSOCIATES,
        "x (1 + c x²) = x + c x³",
        "constant(c) and scalar(c) and wide(x)",
    ),
    Rule(
        "scaled-cubic-of-square",
        "mul(mul(x, k), add(mul(mul(x, x), c), 1))",
        f"mul(add(x, mul({CUBE}, c)), k)",
        REASSOCIATES,
        "(k x) (1 + c x²) = k (x + c x³)",
        "constant(c) and scalar(c) and constant(k) and scalar(k) and wide(x)",
    ),
    Rule(
        "cubic-scaled-in-parts",
        f"add(mul(x, 0.7978845608028654), mul({CUBE}, 0.035677408136300125))",
        f"mul(add(x, mul({CUBE}, 0.044715)), 0.7978845608028654)",
        REASSOCIATES,
        "k x + (k c) x³ = k (x + c x³), with the k and c of gelu by tanh",
        "wide(x)",
    ),
    # A gate whose other factor stands between x and sigmoid(x).
    Rule(
        "silu-around-a-product",
        "mul(mul(x, y), sigmoid(x))",
        "mul(mul(x, sigmoid(x)), y)",
        REASSOCIATES,
        "the order of three factors",
        "wide(x)",
    ),
    Rule(
        "silu-before-a-product",
        "mul(x, mul(y, sigmoid(x)))",
        "mul(mul(x, sigmoid(x)), y)",
        REASSOCIATES,
        "the order of three factors",
        "wide(x)",
    ),
)
