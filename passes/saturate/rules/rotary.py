"""Rows of the rule table: rotary position embedding put together again from its parts.

The pairs of a head are its two halves, or its even and its odd elements. A program turns whole
heads, `x cos + turned(x) sin`, or the two parts of all pairs, `(a cos - b sin, b cos + a sin)`. The
rows act where the tables of cosines and sines are known to be those of positions and of one base.
"""

from mgn.passes.saturate.rules.rule import Rule, RuleClass

EXACT, REASSOCIATES = RuleClass.EXACT, RuleClass.REASSOCIATES

FIRST, SECOND = (f"slice(x, starts={a}, stops={b}, steps={c})" for a, b, c in ("ABC", "DEF"))
REAL = f"sub(mul({FIRST}, c), mul({SECOND}, s))"
IMAGINARY = f"add(mul({SECOND}, c), mul({FIRST}, s))"
STACKED = "reshape(concat([reshape({}, shape=P), reshape({}, shape=Q)], axis=G), shape=R)"
SPELLINGS = {
    # name of the row: what is computed, how the pairs lie, which elements of a head a table has
    "rope": (
        f"add(mul(x, c), mul(concat([neg({SECOND}), {FIRST}], axis=G), s))",
        False,
        "last",
    ),
    "rope-of-halves": (f"concat([{REAL}, {IMAGINARY}], axis=G)", False, "half"),
    "rope-of-whole-pairs": (
        f"add(mul(x, c), mul({STACKED.format(f'neg({SECOND})', FIRST)}, s))",
        True,
        "last",
    ),
    "rope-of-pairs": (STACKED.format(REAL, IMAGINARY), True, "half"),
}


def _rope(name: str) -> Rule:
    """One way to turn the pairs of heads."""
    left, interleaved, width = SPELLINGS[name]
    part = "is_every_other" if interleaved else "is_half"
    placed = "stacks(P, x, G) and stacks(Q, x, G)" if interleaved else "last_axis(G, SHAPE)"
    tables = f"x, c, s, {width}(x), {interleaved}"
    return Rule(
        name,
        left,
        f"reshape(rope(reshape(x, shape=in_rows(x, c)), 0, head_dim=last(x), "
        f"theta=base_of({tables}), interleaved={interleaved}), shape=SHAPE)",
        REASSOCIATES,
        "the definition (Su et al. 2021), with tables rounded as they are",
        f"wide(x) and {part}(x, A, B, C, 0) and {part}(x, D, E, F, 1) and {placed}",
    )


ROTARY: tuple[Rule, ...] = (
    Rule(
        "slice-of-pairs",
        "reshape(slice(reshape(x, shape=P), starts=A, stops=B, steps=C), shape=Q)",
        "slice(reshape(x, shape=paired(Q)), starts=first_of_pairs(Q, A), stops=paired(Q), "
        "steps=every_other(Q))",
        EXACT,
        "one of each pair is every other element",
        "takes_one_of_pairs(P, A, B, C)",
    ),
    *(_rope(name) for name in SPELLINGS),
    Rule(
        "turned-rope",
        "rope(transpose(x, perm=P), o, head_dim=D, theta=T, interleaved=I)",
        "transpose(reshape(rope(reshape(x, shape=merged_last(x)), o, head_dim=D, theta=T, "
        "interleaved=I), shape=shape_of(x)), perm=P)",
        EXACT,
        "heads are turned by the position alone",
        "turns_heads(x, P, D)",
    ),
)
