"""Deliberately wrong variants of rows: the evaluation of both sides catches them.

A variant is a row with one text exchanged: a swapped operand, a dropped guard, a wrong axis, sign,
constant, form or class. It is caught where `test_rules.py` would fail on it.
"""

from dataclasses import replace

import pytest
from rule_trials import try_rule

from mgn.passes.saturate.rule import Rule, RuleClass
from mgn.passes.saturate.rules import RULES

VARIANTS = (
    # row, field, exchanged text, by which text
    ("same-transpose", "when", "identity_permutation(P)", ""),
    ("whole-slice", "right", "x", "neg(x)"),
    ("same-cast", "right", "x", "abs(x)"),
    ("add-zero", "left", "0", "1"),
    ("add-zero", "class", "", "exact"),
    ("add-minus-zero", "left", "-0.0", "0.0"),
    ("sub-zero", "left", "sub(x, 0)", "sub(0, x)"),
    ("mul-one", "left", "1", "-1"),
    ("div-one", "left", "div(x, 1)", "div(1, x)"),
    ("pow-one", "left", "1", "2"),
    ("mul-zero", "when", "integer(x)", ""),
    ("mul-zero", "right", "0.0", "1.0"),
    ("zero-sub", "class", "", "exact"),
    ("zero-sub", "right", "neg(x)", "x"),
    ("mul-minus-one", "right", "neg(x)", "abs(x)"),
    ("neg-neg", "left", "neg(neg(x))", "neg(x)"),
    ("add-neg", "right", "sub(x, y)", "sub(y, x)"),
    ("add-neg", "right", "sub(x, y)", "add(x, y)"),
    ("sub-neg", "right", "add(x, y)", "sub(x, y)"),
    ("mul-neg-neg", "left", "neg(y)", "y"),
    ("abs-neg", "right", "abs(x)", "x"),
    ("abs-abs", "right", "abs(x)", "x"),
    ("not-not", "left", "logical_not(logical_not(x))", "logical_not(x)"),
    ("max-same", "left", "max(x, x)", "max(x, y)"),
    ("min-same", "left", "min(x, x)", "min(x, y)"),
    ("scale-scale", "right", "c * d", "c + d"),
    ("scale-scale", "class", "", "exact"),
    ("shift-shift", "right", "c + d", "c - d"),
    ("shift-shift", "right", "c + d", "c * d"),
    ("div-power-of-two", "right", "1 / c", "2 / c"),
    ("div-constant", "right", "1 / c", "c * 1"),
    ("square", "right", "mul(x, x)", "mul(x, 2)"),
    ("cube", "right", "mul(mul(x, x), x)", "mul(mul(x, x), mul(x, x))"),
    ("half-power", "right", "sqrt(x)", "rsqrt(x)"),
    ("power-minus-one", "right", "recip(x)", "neg(x)"),
    ("one-over", "left", "div(1, x)", "div(x, 1)"),
    ("recip-sqrt", "right", "rsqrt(x)", "sqrt(x)"),
    ("recip-sqrt", "when", "wide(x)", ""),
    ("div-sqrt", "right", "mul(x, rsqrt(y))", "mul(y, rsqrt(x))"),
    ("div-sqrt", "class", "", "exact"),
    ("mul-recip", "right", "div(x, y)", "div(y, x)"),
    ("log-one-plus", "right", "log1p(x)", "log(x)"),
    ("exp-minus-one", "left", "sub(exp(x), 1)", "sub(1, exp(x))"),
    ("log-of-exponential-quotient", "right", "sub(x, log(y))", "sub(x, y)"),
    ("cast-cast", "when", "leaves_no_trace(A, B, x)", ""),
    ("cast-cast", "right", "cast(x, T=B)", "cast(neg(x), T=B)"),
    ("transpose-transpose", "right", "compose(P, Q)", "compose(Q, P)"),
    ("transpose-transpose", "right", "compose(P, Q)", "Q"),
    ("reshape-reshape", "right", "reshape(x, shape=R)", "neg(reshape(x, shape=R))"),
    ("flip-flip", "left", "flip(flip(x, axis=A), axis=A)", "flip(flip(x, axis=A), axis=B)"),
    ("matmul-transposed-a", "when", "swaps_last_two(P)", ""),
    ("matmul-transposed-a", "right", "transpose_a=not M", "transpose_a=M"),
    ("matmul-transposed-a", "right", "transpose_b=N", "transpose_b=not N"),
    ("matmul-transposed-b", "when", "swaps_last_two(P)", ""),
    ("matmul-transposed-b", "right", "transpose_b=not N", "transpose_b=N"),
    ("transposed-matmul", "right", "matmul(b, a,", "matmul(a, b,"),
    ("transposed-matmul", "when", "swaps_last_two(P) and ", ""),
    ("matmul-scaled-a", "right", "mul(matmul", "add(matmul"),
    ("matmul-scaled-a", "when", "constant(c) and scalar(c) and ", ""),
    ("matmul-scaled-b", "when", "constant(c) and scalar(c) and ", ""),
    ("matmul-row-scale", "when", "one_column(r) and ", ""),
    ("matmul-row-quotient", "when", "one_column(r) and ", ""),
    ("matmul-row-quotient", "right", "div(matmul", "mul(matmul"),
    ("matmul-column-scale", "when", "one_row(s) and ", ""),
    ("matmul-column-scale", "right", "transpose_a=M", "transpose_a=not M"),
    ("sum-of-products-of-one-left", "right", "add(b, c)", "sub(b, c)"),
    ("sum-of-products-of-one-left", "left", "matmul(a, c,", "matmul(c, a,"),
    ("sum-of-products-of-one-right", "right", "transpose_a=M", "transpose_a=not M"),
    ("difference-of-products-of-one-left", "right", "sub(b, c)", "sub(c, b)"),
    ("difference-of-products-of-one-right", "right", "sub(a, b)", "add(a, b)"),
    ("product-from-the-right", "right", "matmul(b, c,", "matmul(c, b,"),
    ("product-from-the-right", "right", "transpose_a=N", "transpose_a=not N"),
    ("product-from-the-left", "right", "transpose_b=Q", "transpose_b=not Q"),
    ("turned-product-from-the-left", "right", "transpose_b=not N", "transpose_b=N"),
    ("turned-product-from-the-right", "right", "transpose_a=not M", "transpose_a=M"),
    ("relu", "left", "max(x, 0)", "min(x, 0)"),
    ("sigmoid", "left", "neg(x)", "x"),
    ("sigmoid", "when", "wide(x)", ""),
    ("silu", "left", "mul(x, sigmoid(x))", "mul(y, sigmoid(x))"),
    ("silu", "when", "wide(x)", ""),
    ("silu-quotient", "left", "add(1,", "add(2,"),
    ("swiglu", "right", "swiglu(x, y)", "swiglu(y, x)"),
    ("swiglu", "when", "wide(x)", ""),
    ("geglu", "right", "approx=A", "approx='none'"),
    ("gelu", "left", "0.7071067811865476", "0.7978845608028654"),
    ("gelu", "left", "add(1, erf", "sub(1, erf"),
    ("gelu-half-outside", "left", "0.5", "2"),
    ("gelu-quotient", "left", "1.4142135623730951", "2"),
    ("gelu-tanh", "right", "approx='tanh'", "approx='none'"),
    ("gelu-tanh", "left", "0.044715", "0.44715"),
    # movement
    ("transpose-as-reshape", "when", "keeps_order(x, P)", ""),
    (
        "sum-then-kept",
        "right",
        "sum(x, axis=A, keepdims=True)",
        "max_reduce(x, axis=A, keepdims=True)",
    ),
    ("max_reduce-then-kept", "right", "max_reduce(", "min_reduce("),
    ("sum-then-dropped", "right", "sum(", "prod("),
    ("sub-of-broadcast", "right", "sub(x, y)", "sub(y, x)"),
    ("div-of-broadcast", "right", "div(x, y)", "mul(x, y)"),
    ("transpose-of-mul", "when", "scalar(c)", ""),
    ("transpose-of-div", "right", "div(transpose(x, perm=P), c)", "div(c, transpose(x, perm=P))"),
    ("reshape-of-div", "right", "div(reshape", "mul(reshape"),
    ("matmul-of-merged-batches", "right", "matmul(a, b,", "matmul(b, a,"),
    ("matmul-of-merged-batches", "right", "transpose_a=M", "transpose_a=not M"),
    ("matmul-of-thin-batches", "right", "transpose_b=N", "transpose_b=not N"),
    # norms
    ("softmax", "left", "div(exp", "mul(exp"),
    ("softmax", "left", "keepdims=True))), axis=A", "keepdims=True))), axis=B"),
    ("softmax-unshifted", "left", "div(exp(x)", "mul(exp(x)"),
    ("log-softmax-of-logsumexp", "left", "sub(x, logsumexp", "add(x, logsumexp"),
    ("log-softmax-of-parts", "right", ", y)", ", neg(y))"),
    ("variance-of-squares", "when", " and counts(n, x, A)", ""),
    ("variance-of-squares", "left", "sub(div", "add(div"),
    ("scale-of-rows-before-columns", "right", "mul(mul(x, r), s)", "mul(add(x, r), s)"),
    ("shift-of-mean-before-scale", "right", "sub(x, m)", "add(x, m)"),
    ("power-minus-half", "right", "rsqrt(x)", "sqrt(x)"),
    # rotary embedding
    ("rope", "when", " and is_half(x, D, E, F, 1)", ""),
    ("rope", "right", "theta=base_of(x, c, s, last(x), False)", "theta=100.0"),
    ("rope", "left", "neg(", "abs("),
    ("rope", "left", "add(mul(x, c)", "sub(mul(x, c)"),
    ("rope", "right", "interleaved=False", "interleaved=True"),
    ("rope", "right", "reshape(x, shape=in_rows(x, c))", "x"),
    ("rope-of-halves", "when", "is_half(x, A, B, C, 0) and is_half(x, D, E, F, 1) and ", ""),
    ("rope-of-halves", "left", "add(mul(", "sub(mul("),
    ("rope-of-halves", "right", "theta=base_of(x, c, s, half(x), False)", "theta=99.0"),
    ("rope-of-whole-pairs", "when", "is_every_other(x, A, B, C, 0) and ", ""),
    ("rope-of-whole-pairs", "right", "interleaved=True", "interleaved=False"),
    ("rope-of-pairs", "left", "sub(mul(", "add(mul("),
    ("rope-of-pairs", "right", ", 0, ", ", 1, "),
    ("slice-of-pairs", "right", "first_of_pairs(Q, A)", "first_of_pairs(Q, C)"),
    ("slice-of-pairs", "when", "takes_one_of_pairs(P, A, B, C)", ""),
    ("slice-of-pairs", "right", "reshape(x, ", "reshape(neg(x), "),
    ("turned-rope", "when", "turns_heads(x, P, D)", ""),
    ("turned-rope", "right", "interleaved=I", "interleaved=False"),
    ("turned-rope", "right", "theta=T", "theta=10000.0"),
    # attention
    ("attention", "right", "scale=1.0", "scale=2.0"),
    ("attention", "when", "last_axis(A, SHAPE) and ", ""),
    ("attention", "right", "keys_last(k, N)", "keys_last(k, not N)"),
    ("scaled-attention", "right", "scale_of(c, q)", "1.0"),
    ("divided-attention", "right", "div(q, c)", "mul(q, c)"),
    ("divided-attention", "right", "div(q, c)", "q"),
    ("capped-attention", "right", "number_of(z)", "0.0"),
    ("capped-attention", "left", "tanh(", "sigmoid("),
    ("capped-scaled-attention", "right", "scale_of(c, q)", "1.0"),
    ("capped-divided-attention", "right", "div(q, c)", "q"),
    ("capped-scaled-attention", "left", "), z)), z)", "), z)), c)"),
    ("capped-attention-with-bias", "left", "add(", "sub("),
    ("capped-attention-where-seen-far", "when", " and sees_a_key(m)", ""),
    ("capped-attention-unless-hidden-far", "when", " and leaves_a_key(m)", ""),
    ("capped-divided-attention-where-seen", "right", "softcap=number_of(z)", "softcap=0.5"),
    ("capped-divided-attention-unless-hidden", "right", "(m, -inf, 0.0)", "(m, 0.0, -inf)"),
    ("capped-attention-where-seen-filled", "when", " and far(f)", ""),
    ("capped-scaled-attention-with-bias", "left", "tanh(div(mul(", "tanh(mul(div("),
    ("capped-scaled-attention-where-seen", "right", "where(m, 0.0, -inf)", "where(m, -inf, 0.0)"),
    ("attention-with-bias", "left", "add(", "sub("),
    ("attention-where-seen", "right", "where(m, 0.0, -inf)", "where(m, -inf, 0.0)"),
    ("attention-unless-hidden", "right", "where(m, -inf, 0.0)", "where(m, 0.0, -inf)"),
    ("attention-where-seen-far", "when", " and sees_a_key(m)", ""),
    ("attention-where-seen-far", "when", " and far(f)", ""),
    ("attention-unless-hidden-far", "when", " and leaves_a_key(m)", ""),
    ("attention-where-seen-filled", "when", " and far(f)", ""),
    ("scaled-attention-unless-hidden-far", "right", "where(m, -inf, 0.0)", "where(m, 0.0, -inf)"),
    ("causal-attention", "when", " and spans(m, q, k)", ""),
    ("causal-attention", "right", "causal=True", "causal=False"),
    ("causal-attention", "right", "window=window_of(m)", "window=0"),
    ("heads", "right", "scale=S", "scale=1.0"),
    ("heads", "right", "causal=C", "causal=False"),
    ("heads", "right", "softcap=Z", "softcap=0.0"),
    ("heads", "right", "window=W", "window=0"),
    ("heads-with-bias", "right", "scale=S", "scale=1.0"),
    ("grouped-heads", "right", "causal=C", "causal=False"),
    ("shared-keys", "right", "reshape(k, ", "reshape(v, "),
    ("shared-merged-keys", "right", "reshape(k, ", "reshape(v, "),
    ("shared-merged-keys", "right", "scale=S", "scale=1.0"),
    ("attention-of-merged-batches", "right", "attention(q, k, v", "attention(q, k, k"),
)


def variant(row: str, field: str, old: str, new: str) -> Rule:
    """A row with one text exchanged."""
    rule = replace(RULES[row], name=f"wrong {row}")
    if field == "class":
        return replace(rule, equality=RuleClass(new))
    text = getattr(rule, field)
    assert old in text, "the table names a text that the row does not have"
    return replace(rule, **{field: text.replace(old, new, 1)})


@pytest.mark.parametrize(("row", "field", "old", "new"), VARIANTS)
def test_a_wrong_variant_of_a_row_is_caught(row: str, field: str, old: str, new: str) -> None:
    outcome = try_rule(variant(row, field, old, new), wanted=150, most=15000)
    assert outcome.acted > 0, "the variant acted on no instance"
    assert outcome.agreed < outcome.acted


def test_there_are_many_variants_of_most_rows() -> None:
    assert len(set(VARIANTS)) >= 120
    assert len({row for row, *_ in VARIANTS}) >= 0.7 * len(RULES)
