"""How programs compute and mask the scores of attention: tables for the rule rows of attention.py.

A number of -1e30 or less hides a score of less than 2^70 in size, which rows of such masks take it
to be; what -1e9 hides is for fast rows.
"""

from mgn.passes.saturate.rules.rule import RuleClass

REASSOCIATES, FAST, APPROXIMATES = RuleClass.REASSOCIATES, RuleClass.FAST, RuleClass.APPROXIMATES

LEAST = "-3.4028234663852886e38"
"""The least f32 number: a bias that stands in the place of its score, so that nothing of a score
that is chosen away comes through, and keys weigh alike where no other is seen.
"""

PRODUCT = "matmul(q, k, transpose_b=N)"
SCORES = {
    # name of the row: how scores are computed, the scale, what must hold
    "attention": (PRODUCT, "1.0", ""),
    "scaled-attention": (f"mul({PRODUCT}, c)", "scaled_by(1.0, c, q, 1)", " and moderate(c)"),
    "divided-attention": (
        f"div({PRODUCT}, c)",
        "divided_by(1.0, c)",
        " and moderate(c) and invertible(c)",
    ),
}
CAPS = {
    # beginning of the row's name: the capped scores, the cap, what must hold
    "": ("{}", "0.0", ""),
    "capped-": (
        "mul(tanh(div({}, z)), z)",
        "number_of(z)",
        " and positive(z)",
    ),
}
BIASES = {
    # end of the row's name: the masked scores, the bias, what must hold, how equal both sides are
    "": ("{}", "", "", REASSOCIATES),
    "-with-bias": ("add({}, m)", "m", " and usual_scores(q, k)", REASSOCIATES),
    "-where-seen": ("where(m, {}, -inf)", "where(m, 0.0, -inf)", "", REASSOCIATES),
    "-unless-hidden": ("where(m, -inf, {})", "where(m, -inf, 0.0)", "", REASSOCIATES),
    "-where-seen-and-bias": (
        "add(where(m, {}, -inf), y)",
        "add(where(m, 0.0, -inf), y)",
        " and usual_scores(q, k, y)",
        REASSOCIATES,
    ),
    "-unless-hidden-and-bias": (
        "add(where(m, -inf, {}), y)",
        "add(where(m, -inf, 0.0), y)",
        " and usual_scores(q, k, y)",
        REASSOCIATES,
    ),
    "-with-bias-where-seen": (
        "where(m, add({}, y), -inf)",
        "where(m, y, -inf)",
        " and usual_scores(q, k, y)",
        REASSOCIATES,
    ),
    "-with-bias-unless-hidden": (
        "where(m, -inf, add({}, y))",
        "where(m, -inf, y)",
        " and usual_scores(q, k, y)",
        REASSOCIATES,
    ),
    "-where-seen-far": (
        "where(m, {}, f)",
        "where(m, 0.0, -inf)",
        " and far(f) and sees_a_key(m) and small_scores(q, k)",
        FAST,
    ),
    "-unless-hidden-far": (
        "where(m, f, {})",
        "where(m, -inf, 0.0)",
        " and far(f) and leaves_a_key(m) and small_scores(q, k)",
        FAST,
    ),
    "-where-seen-farthest": (
        "where(m, {}, f)",
        f"where(m, 0.0, {LEAST})",
        " and farthest(f) and finite(f) and usual_scores(q, k)",
        REASSOCIATES,
    ),
    "-unless-hidden-farthest": (
        "where(m, f, {})",
        f"where(m, {LEAST}, 0.0)",
        " and farthest(f) and finite(f) and usual_scores(q, k)",
        REASSOCIATES,
    ),
    "-where-seen-farthest-and-bias": (
        "add(where(m, {}, f), y)",
        f"add(where(m, 0.0, {LEAST}), y)",
        " and farthest(f) and finite(f) and usual_scores(q, k, y)",
        REASSOCIATES,
    ),
    "-unless-hidden-farthest-and-bias": (
        "add(where(m, f, {}), y)",
        f"add(where(m, {LEAST}, 0.0), y)",
        " and farthest(f) and finite(f) and usual_scores(q, k, y)",
        REASSOCIATES,
    ),
    "-with-bias-where-seen-farthest": (
        "where(m, add({}, y), f)",
        f"where(m, y, {LEAST})",
        " and farthest(f) and finite(f) and usual_scores(q, k, y)",
        REASSOCIATES,
    ),
    "-with-bias-unless-hidden-farthest": (
        "where(m, f, add({}, y))",
        f"where(m, {LEAST}, y)",
        " and farthest(f) and finite(f) and usual_scores(q, k, y)",
        REASSOCIATES,
    ),
    "-where-seen-filled": (
        "where(m, {}, f)",
        "where(m, 0.0, f)",
        " and far(f)",
        APPROXIMATES,
    ),
    "-unless-hidden-filled": (
        "where(m, f, {})",
        "where(m, f, 0.0)",
        " and far(f)",
        APPROXIMATES,
    ),
}
REASONS = {
    "": "softmax of q kᵀ times v is attention's definition",
    "-with-bias": "the definition, but for rows of -inf, where the left is 0 / 0",
    "-where-seen": "a score of -inf is any finite score plus -inf",
    "-unless-hidden": "a score of -inf is any finite score plus -inf",
    "-where-seen-and-bias": "a score of -inf is any finite score plus -inf",
    "-unless-hidden-and-bias": "a score of -inf is any finite score plus -inf",
    "-with-bias-where-seen": "a score of -inf is any finite score plus -inf",
    "-with-bias-unless-hidden": "a score of -inf is any finite score plus -inf",
    "-where-seen-far": "beside a key that is seen, one of -1e9 weighs nothing",
    "-unless-hidden-far": "beside a key that is seen, one of -1e9 weighs nothing",
    "-where-seen-farthest": "a score and -1e30 come to -1e30, in f32 and in f64",
    "-unless-hidden-farthest": "a score and -1e30 come to -1e30, in f32 and in f64",
    "-where-seen-farthest-and-bias": "a score, a bias and -1e30 come to -1e30",
    "-unless-hidden-farthest-and-bias": "a score, a bias and -1e30 come to -1e30",
    "-with-bias-where-seen-farthest": "a score and -1e30 come to -1e30, in f32 and in f64",
    "-with-bias-unless-hidden-farthest": "a score and -1e30 come to -1e30, in f32 and in f64",
    "-where-seen-filled": "-1e9 hides a score of any usual size",
    "-unless-hidden-filled": "-1e9 hides a score of any usual size",
}

GUARDED = ("", "-with-bias", "-where-seen", "-unless-hidden")
"""Masks beside which exporters write 0 for the shares of a query that sees no key."""
