"""Rows of the rule table: convolutions.

A batch norm after a convolution becomes part of its weights and of a bias, which are computed when
parameters are set. None is exact on a device: what is scaled before it is added up is rounded
before.
"""

from mgn.passes.saturate.rules.rule import Rule, RuleClass

CONVOLUTION = "convolution(x, {}, stride=S, padding=P, dilation=D, groups=G)"
FILTERS = CONVOLUTION.format("w")
SCALED = CONVOLUTION.format("mul(w, reshape(s, shape=of_filters(w)))")
FOLDED = (
    "parameters(w) and parameters(s) and parameters(m) and parameters(h) and per_filter(s, w) and "
    "per_filter(m, w) and per_filter(h, w) and usual_channels(x, w, s, m, h) and wide(x)"
)

CONVOLUTIONS: tuple[Rule, ...] = (
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
