"""Rows of the rule table: what is computed of turned values is computed before they are turned.

A program turns heads, `[…, S, heads, d]` to `[…, heads, S, d]`, before it normalises, rotates and
repeats them; attention reads them as they lay. Here all of that comes before the permutation, which
so meets the one that undoes it. The last axis stays where it is.
"""

from mgn.passes.saturate.rules.rule import Rule, RuleClass

EXACT, REASSOCIATES = RuleClass.EXACT, RuleClass.REASSOCIATES

ALONE = ("neg", "sqrt", "rsqrt", "recip")
TOGETHER = ("add", "sub", "mul", "div")
"""What norms and rotations consist of."""

TURNED_X, TABLE = "transpose(x, perm=P)", "reshape(y, shape=moved(lifted(y, P), P))"

TURNED: tuple[Rule, ...] = (
    *(
        Rule(
            f"{name}-of-turned",
            f"{name}({TURNED_X})",
            f"transpose({name}(x), perm=P)",
            EXACT,
            "each element by itself",
            "keeps_last(P)",
        )
        for name in ALONE
    ),
    *(
        Rule(
            f"{name}-of-both-turned",
            f"{name}({TURNED_X}, transpose(y, perm=P))",
            f"transpose({name}(x, y), perm=P)",
            EXACT,
            "each element by itself, beside the same one",
            "keeps_last(P)",
        )
        for name in TOGETHER
    ),
    *(
        Rule(
            f"{name}-of-{side}-turned",
            f"{name}({left})",
            f"transpose({name}({right}), perm=P)",
            EXACT,
            "each element by itself, beside the same one of what broadcasts over moved axes",
            "keeps_last(P) and stays_in_order(y, P)",
        )
        for side, left, right, names in (
            ("left", f"{TURNED_X}, y", f"x, {TABLE}", TOGETHER),
            ("right", f"y, {TURNED_X}", f"{TABLE}, x", ("sub", "div")),
        )
        for name in names
    ),
    Rule(
        "sum-of-turned",
        f"sum({TURNED_X}, axis=A, keepdims=True)",
        "transpose(sum(x, axis=places(A, P), keepdims=True), perm=P)",
        REASSOCIATES,
        "the same terms",
        "keeps_last(P)",
    ),
    Rule(
        "slice-of-turned",
        f"slice({TURNED_X}, starts=A, stops=B, steps=C)",
        "transpose(slice(x, starts=moved(A, P), stops=moved(B, P), steps=moved(C, P)), perm=P)",
        EXACT,
        "the same elements",
        "keeps_last(P)",
    ),
    Rule(
        "repeated-and-turned",
        "transpose(broadcast_to(reshape(x, shape=D), shape=E), perm=P)",
        "broadcast_to(reshape(transpose(reshape(x, shape=without_group(D, -3)), "
        "perm=heads_inward(without_group(D, -3), 1)), shape=unmerged(D, 2)), "
        "shape=unmerged(E, 2))",
        EXACT,
        "each head is turned before it is repeated",
        "repeats_heads(D, E, P)",
    ),
)
