"""Attention.

In: queries, keys and values `[…, heads, S, d]`, as PyTorch has them. Out: mgn's `attention`, which
has the heads behind the sequence: axes that the model has moved are moved back, and both vanish.
"""

from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import element_type_of, shape_of
from mgn.dialects.types import ELEMENT_TYPES
from mgn.frontend.torch.table import (
    Call,
    Unsupported,
    as_element,
    aten,
    rearranged,
    swapped,
    transposed,
)

BOOL, F32 = ELEMENT_TYPES["bool"], ELEMENT_TYPES["f32"]


def bias_of(
    b: Emitter, q: SSAValue, k: SSAValue, mask: SSAValue | None, is_causal: bool
) -> SSAValue | None:
    """What is added to the scores: of a mask of truths, 0 or -inf; of a causal one that is not
    square, those of its first rows.
    """
    rows, columns = shape_of(q)[-2], shape_of(k)[-2]
    if is_causal and rows != columns:
        seen = np.tril(np.ones((rows, columns), np.bool_))
        return b.where(b.constant_array(seen), b.constant(0.0, F32), float("-inf"))
    if mask is None or element_type_of(mask) is not BOOL:
        return mask
    return b.where(mask, b.constant(0.0, element_type_of(q)), float("-inf"))


def attended(
    b: Emitter,
    q: SSAValue,
    k: SSAValue,
    v: SSAValue,
    mask: SSAValue | None,
    is_causal: bool,
    scale: float | None,
) -> SSAValue:
    """Attention of heads in front of the sequence."""
    rank = len(shape_of(q))
    if rank < 3:
        raise Unsupported("attention without an axis of heads")
    order = swapped(rank, rank - 3, rank - 2)
    bias = bias_of(b, q, k, mask, is_causal)
    if bias is not None:
        bias = as_element(b, bias, element_type_of(q))
        if not shape_of(bias):
            bias = b.reshape(bias, (1, 1))
    heads, kv_heads = shape_of(q)[-3], shape_of(k)[-3]
    lines: list[SSAValue] = []
    for item in (q, k, v):
        *outer, n, s, d = shape_of(item)
        lines.append(rearranged(b, item, order, (*outer, s, n * d)))
    found = b.attention(
        *lines,
        bias,
        heads=heads,
        kv_heads=kv_heads,
        causal=is_causal and shape_of(q)[-2] == shape_of(k)[-2],
        scale=scale,
    )
    *outer, s, _ = shape_of(found)
    return transposed(b, b.reshape(found, (*outer, s, heads, shape_of(v)[-1])), order)


@aten("scaled_dot_product_attention")
def attention(
    b: Emitter,
    call: Call,
    q: SSAValue,
    k: SSAValue,
    v: SSAValue,
    attn_mask: SSAValue | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> SSAValue:
    """softmax(q·kᵀ·scale + mask)·v."""
    if dropout_p:
        raise Unsupported("dropout in attention")
    return attended(b, q, k, v, attn_mask, is_causal, scale)


def for_each_head(b: Emitter, item: SSAValue, q: SSAValue) -> SSAValue:
    """Keys or values once for each head of the queries, of which a group shares one."""
    heads, kv_heads = shape_of(q)[-3], shape_of(item)[-3]
    return item if heads == kv_heads else b.repeat(item, heads // kv_heads, axis=-3)


def over_groups(b: Emitter, gradient: SSAValue, item: SSAValue) -> SSAValue:
    """What the heads send back to keys or values, summed over those that share them."""
    *outer, kv_heads, length, width = shape_of(item)
    heads = shape_of(gradient)[-3]
    if heads == kv_heads:
        return gradient
    grouped = b.reshape(gradient, (*outer, kv_heads, heads // kv_heads, length, width))
    return b.sum(grouped, axis=-3)


def scores_of(
    b: Emitter,
    q: SSAValue,
    k: SSAValue,
    mask: SSAValue | None,
    is_causal: bool,
    scale: float | None,
) -> tuple[SSAValue, float]:
    """The scores with what masks do to them, in f32 or wider, and the scale."""
    element = F32 if element_type_of(q).bits == 16 else element_type_of(q)
    factor = shape_of(q)[-1] ** -0.5 if scale is None else scale
    wide_q, wide_k = (as_element(b, item, element) for item in (q, for_each_head(b, k, q)))
    scores = b.mul(b.matmul(wide_q, wide_k, transpose_b=True), float(factor))
    bias = bias_of(b, q, k, mask, is_causal)
    if bias is not None:
        return b.add(scores, as_element(b, bias, element)), float(factor)
    if is_causal:
        rows, columns = (b.iota(shape_of(scores)[-2:], axis=axis, T="i32") for axis in (-2, -1))
        scores = b.where(b.le(columns, rows), scores, float("-inf"))
    return scores, float(factor)


@aten("_scaled_dot_product_flash_attention_for_cpu")
def flash_attention(
    b: Emitter,
    call: Call,
    q: SSAValue,
    k: SSAValue,
    v: SSAValue,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: SSAValue | None = None,
    scale: float | None = None,
) -> tuple[SSAValue, SSAValue]:
    """The same, with the logarithms of the sums for the gradient."""
    if dropout_p:
        raise Unsupported("dropout in attention")
    scores, _ = scores_of(b, q, k, attn_mask, is_causal, scale)
    totals = b.logsumexp(scores, axis=-1, keepdims=False)
    return attended(b, q, k, v, attn_mask, is_causal, scale), totals


@aten("_scaled_dot_product_flash_attention_for_cpu_backward")
def flash_attention_backward(
    b: Emitter,
    call: Call,
    grad: SSAValue,
    q: SSAValue,
    k: SSAValue,
    v: SSAValue,
    out: SSAValue,
    totals: SSAValue,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: SSAValue | None = None,
    scale: float | None = None,
    **named: Any,
) -> list[SSAValue]:
    """The gradients of queries, keys and values: Dao et al. 2022 (arXiv:2205.14135), section B.4.

    A query that sees no key sends nothing back.
    """
    scores, factor = scores_of(b, q, k, attn_mask, is_causal, scale)
    element = element_type_of(scores)
    wide = {id(item): as_element(b, item, element) for item in (grad, q, k, v, out)}
    sent, queries, result = (wide[id(item)] for item in (grad, q, out))
    keys, values = (for_each_head(b, wide[id(item)], q) for item in (k, v))
    shape = (*shape_of(scores)[:-1], 1)
    sums = b.reshape(as_element(b, totals, element), shape)
    hidden = b.eq(sums, float("-inf"))
    shares = b.exp(b.sub(scores, b.where(hidden, 0.0, sums)))
    of_values = b.matmul(shares, sent, transpose_a=True)
    of_shares = b.matmul(sent, values, transpose_b=True)
    mean = b.sum(b.mul(sent, result), axis=-1, keepdims=True)
    of_scores = b.mul(b.mul(shares, b.sub(of_shares, mean)), factor)
    of_queries = b.matmul(of_scores, keys)
    of_keys = b.matmul(of_scores, queries, transpose_a=True)
    return [
        as_element(b, over_groups(b, found, item), element_type_of(item))
        for found, item in ((of_queries, q), (of_keys, k), (of_values, v))
    ]
