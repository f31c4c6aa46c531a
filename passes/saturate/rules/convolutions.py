"""Rows of the rule table: convolutions.

A batch norm after a convolution becomes part of its weights and of a bias, which are computed when
parameters are set. Where images have their channels last, a convolution is a product, and its
filters are the rows of the right operand. None is exact on a device: what is scaled before it is
added up is rounded before.
"""

from mgn.passes.saturate.rules.rule import Rule, RuleClass

CONVOLUTION = "convolution(x, {}, stride=S, padding=P, dilation=D, groups=G)"
FILTERS = CONVOLUTION.format("w")
SCALED = CONVOLUTION.format("mul(w, reshape(s, shape=of_filters(w)))")
FOLDED = (
    "parameters(w) and parameters(s) and parameters(m) and parameters(h) and per_filter(s, w) and "
    "per_filter(m, w) and per_filter(h, w) and usual_channels(x, w, s, m, h) and wide(x)"
)

COLUMNS = "matmul(x, {}, transpose_b=True)"
NORMALISED_PRODUCTS = {
    "normalised-product": COLUMNS,
    "normalised-product-of-places": f"reshape({COLUMNS}, shape=S)",
}
"""A product with a column for each filter, by the names of their rows."""


def _normalised_product(name: str, product: str) -> Rule:
    """A product whose columns are scaled and shifted."""
    scaled = product.format("mul(w, reshape(s, shape=of_filters(w)))")
    filters = "per_column(s, w) and per_column(m, w) and per_column(h, w)"
    last = " and rows_last(S, w)" if "S" in product else ""
    return Rule(
        name,
        f"add(mul(sub({product.format('w')}, m), s), h)",
        f"add({scaled}, sub(h, mul(m, s)))",
        RuleClass.REASSOCIATES,
        "a product is linear in each column",
        "parameters(w) and parameters(s) and parameters(m) and parameters(h) and "
        f"{filters}{last} and usual_channels(x, w, s, m, h) and wide(x)",
    )


CONVOLUTIONS: tuple[Rule, ...] = (
    *(_normalised_product(name, product) for name, product in NORMALISED_PRODUCTS.items()),
    Rule(
        "normalised-convolution",
        f"add(mul(sub({FILTERS}, m), s), h)",
        f"add({SCALED}, sub(h, mul(m, s)))",
        RuleClass.REASSOCIATES,
        "a convolution is linear in each filter",
        FOLDED,
    ),
    Rule(
        "normalised-convolution-with-bias",
        f"add(mul(sub(add({FILTERS}, c), m), s), h)",
        f"add({SCALED}, add(mul(sub(c, m), s), h))",
        RuleClass.REASSOCIATES,
        "a convolution is linear in each filter",
        FOLDED + " and parameters(c) and per_filter(c, w)",
    ),
)
