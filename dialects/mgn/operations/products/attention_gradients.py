"""What the gradient of attention is made of: each gives a tensor in the order of its operands, and
none needs the matrix of scores in memory (FlashAttention-2; Dao 2023, arXiv:2307.08691).

With s the scores of attention, L the log-sum-exp of their rows, g the gradient of attention's
result and D the sum of g times that result over each head:

    weights        P = exp(s - L)
    of scores     dS = P (g vᵀ - D)
    queries       dq = scale · dS k
    keys, values  dk = scale · dSᵀ q, dv = Pᵀ g
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mgn.dialects.mgn.attributes import BOOL, FLOAT, INT
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import composite, in_single_precision, shape_of
from mgn.dialects.mgn.operation import FLOATS, AttributeSpec, OperandSpec
from mgn.dialects.mgn.operations.products.attention import (
    HIDING,
    MOST_POSITIONS,
    Heads,
    canonical_attention,
    masked,
    masked_scores,
    scaled_product,
)
from mgn.dialects.shapes import Shape, ShapeError, broadcast_shapes
from mgn.dialects.types import element_of, tensor

ATTRIBUTES = (
    AttributeSpec("heads", INT),
    AttributeSpec("kv_heads", INT, None),
    AttributeSpec("causal", BOOL, False),
    AttributeSpec("window", INT, 0),
    AttributeSpec("scale", FLOAT, None),
    AttributeSpec("softcap", FLOAT, 0.0),
)
BIAS = OperandSpec("bias", FLOATS, optional=True)
SCORED = (OperandSpec("q", FLOATS), OperandSpec("k", FLOATS))
GIVEN = (
    *SCORED,
    OperandSpec("v", FLOATS),
    OperandSpec("g", FLOATS),
    OperandSpec("lse", FLOATS),
    OperandSpec("own", FLOATS),
    BIAS,
    *ATTRIBUTES,
)


def _scores_shape(
    q: TensorType, k: TensorType, bias: TensorType | None, values: Mapping[str, Any]
) -> Shape:
    """The shape `[…, heads, S, T]` of scores. ShapeError where operands do not fit."""
    heads, kv_heads = values["heads"], values["kv_heads"]
    if min(len(q.get_shape()), len(k.get_shape())) < 2:
        raise ShapeError("q and k must be […, positions, heads * head_dim]")
    if kv_heads < 1 or heads % kv_heads:
        raise ShapeError(f"heads {heads} is not a multiple of kv_heads {kv_heads}")
    (*front, rows, width), (*others, keys, key_width) = q.get_shape(), k.get_shape()
    if key_width * heads != width * kv_heads:
        raise ShapeError(f"q has heads of size {width // heads}, k {list(k.get_shape())} does not")
    if max(rows, keys) > MOST_POSITIONS:
        raise ShapeError(f"{max(rows, keys)} positions are more than {MOST_POSITIONS}")
    if values["window"] < 0 or values["softcap"] < 0:
        raise ShapeError("window and softcap must not be negative")
    scores = (*broadcast_shapes(tuple(front), tuple(others)), heads, rows, keys)
    if bias is not None and broadcast_shapes(bias.get_shape(), scores) != scores:
        raise ShapeError(f"bias {list(bias.get_shape())} does not broadcast to {list(scores)}")
    return scores


def _infer_lse(q: TensorType, k: TensorType, bias: TensorType | None, **values: Any) -> TensorType:
    *front, heads, rows, _ = _scores_shape(q, k, bias, values)
    return tensor(element_of(q), (*front, rows, heads))


def _check(operands: Sequence[TensorType], values: Mapping[str, Any]) -> Shape:
    """The leading axes of the result."""
    q, k, v, g, lse, own, *rest = operands
    bias = rest[0] if rest else None
    *front, heads, rows, keys = _scores_shape(q, k, bias, values)
    if (
        len(v.get_shape()) < 2
        or v.get_shape()[-2] != keys
        or v.get_shape()[-1] % values["kv_heads"]
    ):
        raise ShapeError(f"v {list(v.get_shape())} does not fit k {list(k.get_shape())}")
    front = list(broadcast_shapes(tuple(front), v.get_shape()[:-2]))
    width = v.get_shape()[-1] // values["kv_heads"] * heads
    for name, type, wanted in (
        ("g", g, (*front, rows, width)),
        ("lse", lse, (*front, rows, heads)),
        ("own", own, (*front, rows, heads)),
    ):
        if type.get_shape() != wanted:
            raise ShapeError(f"{name} must be {list(wanted)}, not {list(type.get_shape())}")
    return tuple(front)


def _infer_queries(*operands: Any, **values: Any) -> TensorType:
    front = _check(operands, values)
    q = operands[0]
    return tensor(element_of(q), (*front, *q.get_shape()[-2:]))


def _infer_keys(*operands: Any, **values: Any) -> TensorType:
    front = _check(operands, values)
    k, v = operands[1:3]
    width = k.get_shape()[-1] + v.get_shape()[-1]
    return tensor(element_of(k), (*front, k.get_shape()[-2], width))


@dataclass(frozen=True)
class _Scores:
    """Scores of attention `[…, *axes, S, T]`, with -inf at hidden keys; what they were before bias
    and masks.
    """

    masked: SSAValue
    free: SSAValue


def _scores(
    b: Emitter,
    layout: Heads,
    q: SSAValue,
    k: SSAValue,
    bias: SSAValue | None,
    how: Mapping[str, Any],
) -> _Scores:
    query = layout.split(b, q, layout.axes)
    product = b.matmul(query, layout.shared(b, k), transpose_b=True)
    free = scaled_product(b, product, how["scale"], how["softcap"])
    return _Scores(masked_scores(b, layout, free, bias, how["causal"], how["window"]), free)


@composite("attention_lse", (*SCORED, BIAS, *ATTRIBUTES), _infer_lse, canonical=canonical_attention)
@in_single_precision
def attention_lse(
    b: Emitter,
    q: SSAValue,
    k: SSAValue,
    bias: SSAValue | None,
    heads: int,
    kv_heads: int,
    **how: Any,
) -> SSAValue:
    """`l = attention_lse(q, k, heads = 8, causal = true)`: the log-sum-exp of each query's scores.

    Shape: operands as of attention give `[…, S, heads]`. A query that sees no key gives -inf.
    Half precision is computed in f32 and rounded once. Errors: as of attention.
    """
    layout = Heads(heads, kv_heads)
    scores = _scores(b, layout, q, k, bias, how).masked
    return layout.merge(b, b.logsumexp(scores, axis=-1, keepdims=True))


def _weights(
    b: Emitter, layout: Heads, operands: tuple[SSAValue, ...], bias: SSAValue | None, how: Any
) -> tuple[SSAValue, SSAValue]:
    """The weights of keys, and the gradient of products of queries and keys, without scale."""
    q, k, v, g, lse, own = operands
    scores = _scores(b, layout, q, k, bias, how)
    total = layout.split(b, lse, layout.axes)
    total = b.where(b.eq(total, -math.inf), 0.0, total)
    weights = b.exp(b.sub(scores.masked, total))
    sent = layout.split(b, g, layout.axes)
    seen = b.matmul(sent, layout.shared(b, v), transpose_b=True)
    changes = b.mul(weights, b.sub(seen, layout.split(b, own, layout.axes)))
    if how["softcap"] > 0:
        share = b.div(scores.free, how["softcap"])
        changes = b.mul(changes, b.sub(1.0, b.mul(share, share)))
    if bias is not None:
        changes = b.where(b.le(layout.bias(b, bias), HIDING), 0.0, changes)
    return weights, masked(b, changes, how["causal"], how["window"], 0.0)


def _hides(queries: SSAValue, bias: SSAValue | None, how: Mapping[str, Any]) -> bool:
    """Whether a query may not see all keys."""
    causal = how["causal"] and shape_of(queries)[-2] > 1
    return bias is not None or causal or how["window"] > 0


@composite("attention_query_gradient", GIVEN, _infer_queries, canonical=canonical_attention)
@in_single_precision
def attention_query_gradient(
    b: Emitter,
    q: SSAValue,
    k: SSAValue,
    v: SSAValue,
    g: SSAValue,
    lse: SSAValue,
    own: SSAValue,
    bias: SSAValue | None,
    heads: int,
    kv_heads: int,
    **how: Any,
) -> SSAValue:
    """`dq = attention_query_gradient(q, k, v, g, lse, own, heads = 8)`: what attention's queries
    get of the gradient g of its result.

    lse is `attention_lse`, own the sum of g times the result over each head, both `[…, S, heads]`.
    What hidden keys and their values hold counts for nothing, even nan. Shape: that of q, with all
    leading axes. Half precision is computed in f32 and rounded once.
    Errors: as of attention, and g, lse or own of another shape.
    """
    layout = Heads(heads, kv_heads)
    _, changes = _weights(b, layout, (q, k, v, g, lse, own), bias, how)
    if _hides(q, bias, how):
        k = cast(SSAValue, b.where(b.lt(b.abs(k), math.inf), k, 0.0))
    found = b.matmul(changes, layout.shared(b, k))
    return layout.merge(b, scaled_product(b, found, how["scale"], 0.0))


@composite("attention_key_gradient", GIVEN, _infer_keys, canonical=canonical_attention)
@in_single_precision
def attention_key_gradient(
    b: Emitter,
    q: SSAValue,
    k: SSAValue,
    v: SSAValue,
    g: SSAValue,
    lse: SSAValue,
    own: SSAValue,
    bias: SSAValue | None,
    heads: int,
    kv_heads: int,
    **how: Any,
) -> SSAValue:
    """`dkv = attention_key_gradient(q, k, v, g, lse, own, heads = 8)`: what attention's keys and
    values get of the gradient g of its result, side by side.

    Operands are those of `attention_query_gradient`. Shape: `[…, T, kv_heads * (d + e)]`, the
    columns of k and then those of v, with all leading axes. Errors: as there.
    """
    layout = Heads(heads, kv_heads)
    weights, changes = _weights(b, layout, (q, k, v, g, lse, own), bias, how)
    query, sent = (layout.split(b, x, layout.axes) for x in (q, g))
    keys = scaled_product(b, b.matmul(changes, query, transpose_a=True), how["scale"], 0.0)
    values = b.matmul(weights, sent, transpose_a=True)
    parts = [_merged(b, layout, x) for x in (keys, values)]
    front = broadcast_shapes(*(shape_of(x)[:-2] for x in parts))
    return b.concat([b.broadcast_to(x, (*front, *shape_of(x)[-2:])) for x in parts], axis=-1)


def _merged(b: Emitter, layout: Heads, x: SSAValue) -> SSAValue:
    """`[…, *axes, T, d]` as `[…, T, kv_heads * d]`, summed over query heads that share keys."""
    if layout.group > 1:
        x = b.sum(x, axis=[len(shape_of(x)) - 3], keepdims=False)
    return Heads(layout.kv_heads, layout.kv_heads).merge(b, x)
