"""Rows of the rule table: attention put together again from its parts.

First softmax(scores)·v becomes attention in one head, with its leading axes as batches. Then an
axis of heads before the positions becomes heads of the last axis. The movement for that cancels
against the program's own. Then keys that are repeated for several heads are read where they are.

Scales of queries and keys stay where they are, and are computed with them.
"""

from mgn.passes.saturate.rules.attention_scores import (
    BIASES,
    CAPS,
    GUARDED,
    PRODUCT,
    REASONS,
    SCORES,
)
from mgn.passes.saturate.rules.rule import Rule, RuleClass

EXACT, REASSOCIATES = RuleClass.EXACT, RuleClass.REASSOCIATES
FAST, ROUNDS = RuleClass.FAST, RuleClass.ROUNDS


def _one_head(cap: str, scores: str, mask: str, guarded: bool = False) -> Rule:
    """One way to compute scores, capped or not, masked in one way, as attention in one head. Shares
    that are nan may be 0 where `guarded`.
    """
    product, scale, asked = SCORES[scores]
    capped, most, asked_of_cap = CAPS[cap]
    pattern, bias, asked_of_mask, equality = BIASES[mask]
    operands = (
        "reshape(q, shape=one_head(q, q, k, v)), "
        "reshape(transpose(k, perm=keys_last(k, N)), "
        "shape=one_head(turned(k, keys_last(k, N)), q, k, v)), "
        "reshape(v, shape=one_head(v, q, k, v))"
    )
    if bias:
        shape = f"one_head_bias({'m, y' if 'y' in bias else 'm'}, q, k, v)"
        operands += f", reshape({bias}, shape={shape})"
    shares = f"softmax({pattern.format(capped.format(product))}, axis=A)"
    return Rule(
        cap + scores + mask + "-or-nothing" * guarded,
        f"matmul({f'where(isnan({shares}), 0.0, {shares})' if guarded else shares}, v)",
        f"reshape(attention({operands}, heads=1, scale={scale}, softcap={most}), shape=SHAPE)",
        equality,
        "a query that sees no key gives 0" if guarded else REASONS[mask],
        "last_axis(A, SHAPE) and wide(q) and matrix(q) and matrix(v)"
        f"{asked}{asked_of_cap}{asked_of_mask}",
    )


def _biased_scores(name: str) -> tuple[Rule, ...]:
    """What is added to scores, or taken off, as one bias."""
    score, _, asked = SCORES[name]
    return (
        Rule(
            f"bias-taken-off-{name}",
            f"sub({score}, m)",
            f"add({score}, neg(m))",
            EXACT,
            "IEEE 754 defines x - y so",
            "batched(k) and several_columns(m)" + asked,
        ),
        Rule(
            f"least-bias-of-{name}",
            f"max(add({score}, m), f)",
            f"add({score}, max(m, f))",
            REASSOCIATES,
            "a score and -1e30 come to -1e30, in f32 and in f64",
            "wide(q) and batched(k) and farthest(f) and usual_scores(q, k)" + asked,
        ),
        *(
            Rule(
                f"{word}-of-{name}",
                f"softmax({operation}(add({score}, b), m), axis=A)",
                f"softmax(add({score}, {operation}(b, m)), axis=A)",
                REASSOCIATES,
                "the order of three terms",
                "wide(q) and usual_scores(q, k, b)" + asked,
            )
            for word, operation in (("two-biases", "add"), ("bias-less-bias", "sub"))
        ),
    )


SCORING = "causal=C, window=W, scale=S, softcap=Z"
ATTRIBUTES = SCORING + ", rounded_weights=R"
"""Those of attention: what changes scores is not said of weights that are rounded afterwards."""

REPEATED_K, REPEATED_V = (
    f"reshape(broadcast_to(reshape({x}, shape={single}), shape={wide}), shape={result})"
    for x, single, wide, result in ("kDEF", "vGHI")
)


def _in_heads(name: str, axes: int, bias: bool, reason: str) -> Rule:
    """Attention in one head whose last leading axes are heads, merged."""
    parts = ", ".join(
        f"reshape(transpose({x}, perm=heads_inward({x}, {axes})), shape=merged({x}, {axes}))"
        for x in "qkv"
    )
    given = "q, k, v, m" if bias else "q, k, v"
    if bias:
        parts += f", reshape(m, shape=merged_bias(m, q, {axes}))"
    return Rule(
        name + ("-with-bias" if bias else ""),
        f"attention({given}, heads=1, kv_heads=1, {ATTRIBUTES})",
        f"transpose(reshape(attention({parts}, heads=heads_of(q, {axes}), "
        f"kv_heads=heads_of(k, {axes}), {ATTRIBUTES}), shape=unmerged(SHAPE, {axes})), "
        f"perm=heads_outward(SHAPE, {axes}))",
        REASSOCIATES,
        reason,
        f"splits(q, k, v, {axes})",
    )


def _in_batches(bias: bool) -> Rule:
    """Attention whose heads share keys, in one head: each head is a batch.

    It looks at the keys once for each head and not once for a group, in fuller tiles. Of heads that
    share none, both are the same kernel; attention that rules merged came from such batches.
    """
    split = {x: f"in_groups({x}, {heads}, Y)" for x, heads in (("q", "X"), ("k", "Y"), ("v", "Y"))}
    parts = [
        f"transpose(reshape({x}, shape={shape}), perm=heads_outward({shape}, 2))"
        for x, shape in split.items()
    ]
    if bias:
        parts.append("reshape(m, shape=bias_in_groups(m, X, Y))")
    return Rule(
        "heads-as-batches" + ("-with-bias" if bias else ""),
        f"attention({'q, k, v, m' if bias else 'q, k, v'}, heads=X, kv_heads=Y, {ATTRIBUTES})",
        f"reshape(transpose(attention({', '.join(parts)}, heads=1, kv_heads=1, {ATTRIBUTES}), "
        f"perm=heads_inward({split['q']}, 2)), shape=SHAPE)",
        REASSOCIATES,
        "each head is a batch of its own (Vaswani et al. 2017)",
        "share_keys(X, Y) and given(q)",
    )


def _shared_split(bias: bool) -> Rule:
    """Attention in one head over keys that are repeated along the axis of heads."""
    parts = ["reshape(transpose(q, perm=heads_inward(q, 1)), shape=merged(q, 1))"]
    for x, single in (("k", "D"), ("v", "G")):
        split = f"without_group({single}, -3)"
        parts.append(
            f"reshape(transpose(reshape({x}, shape={split}), perm=heads_inward({split}, 1)), "
            f"shape=merged({split}, 1))"
        )
    given = f"q, {REPEATED_K}, {REPEATED_V}"
    if bias:
        given += ", m"
        parts.append("reshape(m, shape=merged_bias(m, q, 1))")
    return Rule(
        "shared-keys" + ("-with-bias" if bias else ""),
        f"attention({given}, heads=1, kv_heads=1, {ATTRIBUTES})",
        f"transpose(reshape(attention({', '.join(parts)}, heads=heads_of(q, 1), "
        f"kv_heads=heads_of(without_group(D, -3), 1), {ATTRIBUTES}), shape=unmerged(SHAPE, 1)), "
        "perm=heads_outward(SHAPE, 1))",
        REASSOCIATES,
        "heads of a group read the same keys (Ainslie et al. 2023)",
        "repeats(D, E, F, -3) and repeats(G, H, I, -3) and splits(q, F, I, 1) and "
        "same_leading(E, H, 2)",
    )


def _shared_merged(bias: bool) -> Rule:
    """Attention over keys that are repeated within the last axis."""
    given = f"q, {REPEATED_K}, {REPEATED_V}"
    parts = "q, reshape(k, shape=merged_keys(D)), reshape(v, shape=merged_keys(G))"
    if bias:
        given, parts = f"{given}, m", f"{parts}, m"
    return Rule(
        "shared-merged-keys" + ("-with-bias" if bias else ""),
        f"attention({given}, heads=X, kv_heads=Y, {ATTRIBUTES})",
        f"attention({parts}, heads=X, kv_heads=heads_of(D, 1), {ATTRIBUTES})",
        REASSOCIATES,
        "heads of a group read the same keys (Ainslie et al. 2023)",
        "repeats_merged(D, E, F, Y) and repeats_merged(G, H, I, Y) and same_leading(E, H, 1)",
    )


SCALINGS = {
    # what scales: the operation, the scale that it makes of one, what must hold of a constant
    "scaled": ("mul", "scaled_by(S, c, q, X)", "moderate(c)"),
    "divided": ("div", "divided_by(S, c)", "moderate(c) and invertible(c)"),
}


def _scaled_operand(word: str, x: str, bias: bool) -> Rule:
    """Attention whose queries or keys are scaled before it."""
    operation, scale, asked = SCALINGS[word]
    given = "q, k, v, m" if bias else "q, k, v"
    heads = "heads=X, kv_heads=Y, causal=C, window=W"
    return Rule(
        f"attention-of-{word}-{x}" + ("-with-bias" if bias else ""),
        f"attention({given.replace(x, f'{operation}({x}, c)')}, {heads}, scale=S, softcap=Z)",
        f"attention({given}, {heads}, scale={scale}, softcap=Z)",
        FAST,
        "scores are linear in queries and in keys",
        f"wide(q) and scalar(c) and {asked}",
    )


GENTLE = {"scaled": ("mul", "gentle(c)"), "divided": ("div", "gentle_divisor(c)")}
"""What scales keys and may scale queries in their place: the operation, what must hold of it."""


def _scale_of_queries(word: str, bias: bool) -> Rule:
    """Attention whose keys are scaled before it, as one whose queries are."""
    operation, asked = GENTLE[word]
    more = ", m" * bias
    heads = f"heads=X, kv_heads=Y, {SCORING}"
    return Rule(
        f"attention-of-queries-{word}-as-keys" + ("-with-bias" if bias else ""),
        f"attention(q, {operation}(k, c), v{more}, {heads})",
        f"attention({operation}(q, c), k, v{more}, {heads})",
        REASSOCIATES,
        "scores are linear in queries and in keys, and a scale from 1/8 to 1 keeps either in range",
        f"wide(q) and scalar(c) and {asked}",
    )


ROUNDED = {"tf32-": "round_tf32({})", "half-": "cast(cast({}, T=U), T=V)"}
"""How a run's precision rounds an operand of a product."""
SHARES = {
    "shares": "softmax(s, axis=A)",
    "shares-or-nothing": "where(m, 0.0, softmax(s, axis=A))",
    "weights": "exp(s)",
}
"""A product's operand that attention does not round, before or after it is divided by its sum."""
SHARING = {
    "": "matmul({}, v, transpose_a=M, transpose_b=N)",
    "-on-the-right": "matmul(v, {}, transpose_a=M, transpose_b=N)",
    "-of-merged-batches": "matmul(reshape({}, shape=B), v, transpose_a=M, transpose_b=N)",
}
"""A product with such an operand."""

MASKED = {"seen": "where(m, {}, {})", "hidden": "where(m, {1}, {0})"}
"""A value where a mask says so, and another one elsewhere."""

ATTENTION: tuple[Rule, ...] = (
    *(
        Rule(
            f"{name}-of-{mask}",
            f"{name}({masked.format('x', 'f')}, c)",
            masked.format(f"{name}(x, c)", f"f {sign} c"),
            EXACT,
            "a choice of two values is scaled as the one chosen",
            "floating(x) and scalar(c) and nonzero(c)",
        )
        for name, sign in (("mul", "*"), ("div", "/"))
        for mask, masked in MASKED.items()
    ),
    *(
        Rule(
            f"hidden-by-factor-{name}",
            f"softmax({name}(mul(x, b), m), axis=A)",
            "softmax(add(x, where(ne(b, 0.0), 0.0, -inf)), axis=A)",
            FAST,
            "beside a key that is seen, one of -1e9 weighs nothing; as GPT-2 hides keys",
            f"wide(x) and last_axis(A, SHAPE) and hides(b, m, {sign}) and small_scores(x)",
        )
        for name, sign in (("add", 1), ("sub", -1))
    ),
    Rule(
        "softmax-of-merged-batches",
        "softmax(reshape(x, shape=S), axis=A)",
        "reshape(softmax(x, axis=-1), shape=SHAPE)",
        EXACT,
        "each row by itself",
        "merges_batches(x, S) and last_axis(A, S)",
    ),
    Rule(
        "softmax-of-shifted",
        "softmax(sub(x, max_reduce(x, axis=B, keepdims=True)), axis=A)",
        "softmax(x, axis=A)",
        REASSOCIATES,
        "a row's largest element is taken off in any case",
        "wide(x) and last_axis(A, SHAPE) and reduces_last(B, x)",
    ),
    *(rule for score in SCORES for rule in _biased_scores(score)),
    *(
        Rule(
            f"{name}-of-biased-scores",
            f"{name}(add({PRODUCT}, m), c)",
            f"add({name}({PRODUCT}, c), {name}(m, c))",
            REASSOCIATES,
            "scores and their bias are scaled each for itself, by no more than 1",
            f"scalar(c) and {asked}(c) and wide(q) and batched(k)",
        )
        for name, asked in (("mul", "at_most_one"), ("div", "at_least_one"))
    ),
    *(
        Rule(
            f"scores-{word}-by-rows",
            f"{operation}({PRODUCT}, r)",
            f"matmul({operation}(q, r), k, transpose_b=N)",
            FAST,
            "a scale that is computed is the queries'",
            "one_column(r) and computed(r) and batched(k) and wide(q)",
        )
        for word, (operation, *_) in SCALINGS.items()
    ),
    *(_one_head(cap, scores, mask) for cap in CAPS for scores in SCORES for mask in BIASES),
    *(_one_head("", scores, mask, guarded=True) for scores in SCORES for mask in GUARDED),
    *(
        Rule(
            f"unrounded-{kind}{shares}{place}",
            product.format(rounded.format(operand)),
            product.format(operand),
            ROUNDS,
            "a run's precision says what may be rounded; attention's weights are not",
            "single(s)" + (" and half(U)" if kind == "half-" else ""),
        )
        for kind, rounded in ROUNDED.items()
        for shares, operand in SHARES.items()
        for place, product in SHARING.items()
    ),
    Rule(
        "shares-on-the-right",
        "matmul(v, softmax(s, axis=A), transpose_a=M, transpose_b=True)",
        "transpose(matmul(softmax(s, axis=A), v, transpose_b=not M), perm=keys_last(SHAPE, False))",
        REASSOCIATES,
        "Vᵀ Pᵀ = (P V)ᵀ",
        "last_axis(A, SHAPE) and matrix(v)",
    ),
    Rule(
        "shares-of-columns",
        "matmul(softmax(s, axis=A), v, transpose_a=True, transpose_b=N)",
        "matmul(softmax(transpose(s, perm=keys_last(s, False)), axis=-1), v, transpose_b=N)",
        REASSOCIATES,
        "shares along the columns of K Qᵀ are those along the rows of Q Kᵀ",
        "last_axis_but_one(A, s) and matrix(v)",
    ),
    Rule(
        "causal-attention",
        "attention(q, k, v, m, heads=X, kv_heads=Y, causal=False, window=0, scale=S, softcap=Z, "
        "rounded_weights=R)",
        "attention(q, k, v, heads=X, kv_heads=Y, causal=True, window=window_of(m), scale=S, "
        "softcap=Z, rounded_weights=R)",
        REASSOCIATES,
        "a bias of 0 and -inf that is attention's own mask",
        "is_window(m) and spans(m, q, k) and usual_scores(q, k)",
    ),
    Rule(
        "causal-attention-far",
        "attention(q, k, v, m, heads=X, kv_heads=Y, causal=False, window=0, scale=S, softcap=Z, "
        "rounded_weights=R)",
        "attention(q, k, v, heads=X, kv_heads=Y, causal=True, window=window_of(m), scale=S, "
        "softcap=Z, rounded_weights=R)",
        FAST,
        "a bias that is attention's own mask where -1e9 hides a score",
        "is_far_window(m) and spans(m, q, k) and small_scores(q, k)",
    ),
    *(
        _in_heads("heads", 1, bias, "each head is a batch of its own (Vaswani et al. 2017)")
        for bias in (False, True)
    ),
    *(
        _in_heads("grouped-heads", 2, bias, "heads of a group read the same keys")
        for bias in (False, True)
    ),
    *(_scale_of_queries(word, bias) for word in GENTLE for bias in (False, True)),
    *(_scaled_operand(word, x, bias) for word in SCALINGS for x in "qk" for bias in (False, True)),
    *(_in_batches(bias) for bias in (False, True)),
    *(_shared_split(bias) for bias in (False, True)),
    *(_shared_merged(bias) for bias in (False, True)),
    Rule(
        "attention-of-merged-batches",
        f"attention(reshape(q, shape=D), reshape(k, shape=E), reshape(v, shape=F), heads=1, "
        f"kv_heads=1, {ATTRIBUTES})",
        f"reshape(attention(q, k, v, heads=1, kv_heads=1, {ATTRIBUTES}), shape=SHAPE)",
        REASSOCIATES,
        "batches in any shape",
        "merges_batches(q, D) and merges_batches(k, E) and merges_batches(v, F) "
        "and same_batches(q, k) and same_batches(q, v)",
    ),
)
