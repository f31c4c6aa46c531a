"""Scaled dot-product attention with head sharing, masks, bias and soft capping."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mgn.dialects.mgn.attributes import BOOL, FLOAT, INT
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import (
    composite,
    element_type_of,
    shape_of,
)
from mgn.dialects.mgn.operation import FLOATS, AttributeSpec, OperandSpec
from mgn.dialects.shapes import Shape, ShapeError, broadcast_shapes
from mgn.dialects.types import ELEMENT_TYPES, element_of, tensor

SIGNATURE = (
    OperandSpec("q", FLOATS),
    OperandSpec("k", FLOATS),
    OperandSpec("v", FLOATS),
    OperandSpec("bias", FLOATS, optional=True),
    AttributeSpec("heads", INT),
    AttributeSpec("kv_heads", INT, None),
    AttributeSpec("causal", BOOL, False),
    AttributeSpec("window", INT, 0),
    AttributeSpec("scale", FLOAT, None),
    AttributeSpec("softcap", FLOAT, 0.0),
    AttributeSpec("rounded_weights", BOOL, False),
)


MOST_POSITIONS = (1 << 31) - (1 << 16)
"""Of queries or keys: i32 numbers them, and those that a tile has beyond the last."""

HIDING = -3.38e38
"""A bias up to this stands in the place of its score: -inf, and the least f32 and bf16 numbers."""


def lowering(keys: int) -> int:
    """By how many powers of two weights of at most 1 are lowered so that the sum over all keys, of
    values times weights, is at most half of the largest value.
    """
    return max(keys - 1, 0).bit_length() + 1


def canonical_attention(
    q: TensorType,
    k: TensorType,
    *others: TensorType | None,
    heads: int,
    kv_heads: int | None,
    scale: float | None,
    window: int,
    **_: Any,
) -> Mapping[str, Any]:
    """What attention and its parts do with the attributes that were left out. ShapeError."""
    if len(q.get_shape()) < 2 or heads < 1 or q.get_shape()[-1] % heads:
        raise ShapeError(f"q {list(q.get_shape())} is not […, S, {heads} * head_dim]")
    head_dim = q.get_shape()[-1] // heads
    return {
        "kv_heads": heads if kv_heads is None else kv_heads,
        "scale": 1.0 / math.sqrt(max(head_dim, 1)) if scale is None else scale,
        "window": 0 if len(k.get_shape()) > 1 and window >= k.get_shape()[-2] else window,
    }


def _infer_attention(
    q: TensorType,
    k: TensorType,
    v: TensorType,
    bias: TensorType | None,
    heads: int,
    kv_heads: int,
    window: int,
    softcap: float,
    **_: Any,
) -> TensorType:
    shapes = q.get_shape(), k.get_shape(), v.get_shape()
    if min(len(shape) for shape in shapes) < 2:
        raise ShapeError("q, k and v must be […, positions, heads * head_dim]")
    if kv_heads < 1 or heads % kv_heads:
        raise ShapeError(f"heads {heads} is not a multiple of kv_heads {kv_heads}")
    (rows, width), (keys, key_width), (values, value_width) = (shape[-2:] for shape in shapes)
    if key_width * heads != width * kv_heads:
        raise ShapeError(f"q has heads of size {width // heads}, k {list(shapes[1])} does not")
    if keys != values or value_width % kv_heads:
        raise ShapeError(f"v {list(shapes[2])} does not fit k {list(shapes[1])}")
    if max(rows, keys) > MOST_POSITIONS:
        raise ShapeError(f"{max(rows, keys)} positions are more than {MOST_POSITIONS}")
    if window < 0 or softcap < 0:
        raise ShapeError("window and softcap must not be negative")
    batch = broadcast_shapes(*(shape[:-2] for shape in shapes))
    scores = (*batch, heads, rows, keys)
    if bias is not None and broadcast_shapes(bias.get_shape(), scores) != scores:
        raise ShapeError(f"bias {list(bias.get_shape())} does not broadcast to {list(scores)}")
    return tensor(element_of(q), (*batch, rows, value_width // kv_heads * heads))


def _infer_parts(
    q: TensorType,
    k: TensorType,
    v: TensorType,
    bias: TensorType | None,
    heads: int,
    each: int,
    **values: Any,
) -> TensorType:
    if each < 1:
        raise ShapeError(f"a part has at least one key, not {each}")
    whole = _infer_attention(q, k, v, bias, heads=heads, **values)
    *front, width = whole.get_shape()
    parts = -(-k.get_shape()[-2] // each)
    element = element_of(q)
    wide = ELEMENT_TYPES["f32"] if element.bits == 16 else element
    return tensor(wide, (parts, *front, heads, width // heads + 2))


@dataclass(frozen=True)
class Heads:
    """How heads are laid out: `[…, heads, S, d]`, or `[…, kv_heads, group, S, d]` where they share
    keys.
    """

    heads: int
    kv_heads: int

    @property
    def group(self) -> int:
        return self.heads // self.kv_heads

    @property
    def axes(self) -> Shape:
        return (self.heads,) if self.group == 1 else (self.kv_heads, self.group)

    def split(self, b: Emitter, x: SSAValue, sizes: Shape) -> SSAValue:
        """`[…, S, heads * d]` as `[…, *sizes, S, d]`."""
        shape = shape_of(x)
        rank = len(shape) - 2
        width = shape[-1] // math.prod(sizes)
        parts = b.reshape(x, (*shape[:-1], *sizes, width))
        heads = range(rank + 1, rank + 1 + len(sizes))
        return b.transpose(parts, (*range(rank), *heads, rank, rank + 1 + len(sizes)))

    def shared(self, b: Emitter, x: SSAValue) -> SSAValue:
        """Keys or values as `[…, *axes, T, d]`, with 1 for the axis along which they are shared."""
        return self.split(b, x, (self.heads,) if self.group == 1 else (self.kv_heads, 1))

    def merge(self, b: Emitter, x: SSAValue) -> SSAValue:
        """`[…, *axes, S, d]` as `[…, S, heads * d]`."""
        shape = shape_of(x)
        rank = len(shape) - 2 - len(self.axes)
        heads = range(rank, rank + len(self.axes))
        rows = b.transpose(x, (*range(rank), len(shape) - 2, *heads, len(shape) - 1))
        return b.reshape(rows, (*shape[:rank], shape[-2], self.heads * shape[-1]))

    def merge_parts(self, b: Emitter, x: SSAValue) -> SSAValue:
        """`[…, *axes, parts, S, d]` as `[parts, …, S, heads, d]`."""
        shape = shape_of(x)
        rank = len(shape) - 3 - len(self.axes)
        heads = range(rank, rank + len(self.axes))
        order = (len(shape) - 3, *range(rank), len(shape) - 2, *heads, len(shape) - 1)
        rows = b.transpose(x, order)
        return b.reshape(rows, (shape[-3], *shape[:rank], shape[-2], self.heads, shape[-1]))

    def bias(self, b: Emitter, bias: SSAValue) -> SSAValue:
        """A bias that broadcasts to `[…, heads, S, T]` as one that broadcasts to `[…, *axes, S,
        T]`.
        """
        shape = shape_of(bias)
        if self.group == 1 or len(shape) < 3:
            return bias
        axes = self.axes if shape[-3] == self.heads else (1, 1)
        return b.reshape(bias, (*shape[:-3], *axes, *shape[-2:]))


def masked(b: Emitter, scores: SSAValue, causal: bool, window: int, hidden: float) -> SSAValue:
    """Scores, or what lies as they do, with another number at the keys a query does not see."""
    if not causal and not window:
        return scores
    *_, rows, keys = shape_of(scores)
    key = b.iota((1, keys), axis=1, T="i32")
    query = b.add(b.iota((rows, 1), axis=0, T="i32"), keys - rows)
    visible = b.le(key, query) if causal else None
    if window > 0:
        near = b.gt(key, b.sub(query, window))
        visible = near if visible is None else b.logical_and(visible, near)
    return b.where(visible, scores, hidden)


def _scaled(b: Emitter, product: SSAValue, scale: float) -> SSAValue:
    """A product times a scale, or divided where the type holds the scale's inverse and not it."""
    dtype = element_type_of(product).dtype
    assert dtype is not None
    with np.errstate(over="ignore"):
        nearest = float(dtype.type(scale))
        inverse = float(dtype.type(1.0 / scale)) if scale else 0.0
    divides = nearest != scale and inverse != 0 and 1.0 / inverse == scale
    return b.div(product, inverse) if divides else b.mul(product, scale)


def scores_of(
    b: Emitter,
    layout: Heads,
    q: SSAValue,
    k: SSAValue,
    bias: SSAValue | None,
    causal: bool,
    window: int,
    scale: float,
    softcap: float,
) -> SSAValue:
    """Scores `[…, *axes, S, T]`, with -inf at the keys a query does not see."""
    query = layout.split(b, q, layout.axes)
    product = b.matmul(query, layout.shared(b, k), transpose_b=True)
    scores = scaled_product(b, product, scale, softcap)
    return masked_scores(b, layout, scores, bias, causal, window)


def scaled_product(b: Emitter, product: SSAValue, scale: float, softcap: float) -> SSAValue:
    """Products of queries and keys as scores, before bias and masks."""
    scores = _scaled(b, product, scale)
    return b.mul(b.tanh(b.div(scores, softcap)), softcap) if softcap > 0 else scores


def masked_scores(
    b: Emitter, layout: Heads, scores: SSAValue, bias: SSAValue | None, causal: bool, window: int
) -> SSAValue:
    """Scores with their bias, and -inf at the keys a query does not see."""
    if bias is not None:
        own = layout.bias(b, bias)
        scores = b.where(b.le(own, HIDING), own, b.add(scores, own))
    return masked(b, scores, causal, window, -math.inf)


def _powers(b: Emitter, scores: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue]:
    """Weights along the last axis that are not divided yet, their total, the largest score; a row
    of -inf gives zeros.
    """
    largest = b.max_reduce(scores, axis=-1, keepdims=True)
    shift = b.where(b.eq(largest, -math.inf), 0.0, largest)
    weights = b.exp(b.sub(scores, shift))
    return weights, b.sum(weights, axis=-1, keepdims=True), largest


def _rounded(b: Emitter, weights: SSAValue, rounded_weights: bool) -> SSAValue:
    """Weights as they are multiplied by values: rounded to bf16, or as they are."""
    element = element_type_of(weights)
    return b.cast(b.cast(weights, "bf16"), element) if rounded_weights else weights


def _weighted(b: Emitter, weights: SSAValue, scores: SSAValue, values: SSAValue) -> SSAValue:
    """Sums of values by weights, to which a value counts that is not finite where its key is seen,
    whatever its weight.
    """
    finite = b.lt(b.abs(values), math.inf)
    seen = b.cast(b.ne(scores, -math.inf), element_type_of(values).name)

    def reached(least: float) -> SSAValue:
        """Whether a row sees a value that is infinite, of the sign of `least`, or nan."""
        beyond = b.le(values, least) if least < 0 else b.ge(values, least)
        other = b.cast(b.logical_or(beyond, b.isnan(values)), element_type_of(values).name)
        return b.gt(b.matmul(seen, other), 0.0)

    sums = b.matmul(weights, b.where(finite, values, 0.0))
    sums = b.where(reached(math.inf), b.add(sums, math.inf), sums)
    return b.where(reached(-math.inf), b.add(sums, -math.inf), sums)


@composite("attention", SIGNATURE, _infer_attention, canonical=canonical_attention)
def attention(
    b: Emitter,
    q: SSAValue,
    k: SSAValue,
    v: SSAValue,
    bias: SSAValue | None,
    heads: int,
    kv_heads: int,
    causal: bool,
    window: int,
    scale: float,
    softcap: float,
    rounded_weights: bool,
) -> SSAValue:
    """`y = attention(q, k, v, heads = 9, kv_heads = 3, causal = true)`: softmax(q·kᵀ·scale +
    bias)·v.

    Shape: q `[…, S, heads * d]`, k `[…, T, kv_heads * d]`, v `[…, T, kv_heads * e]` give `[…, S,
    heads * e]`; leading axes broadcast, and each key head serves heads / kv_heads query heads. In
    order: scale (default 1 / sqrt(d); a quotient where the type holds its inverse and not it),
    `softcap * tanh(scores / softcap)`, bias, masks. With causal, query i sees keys `j <= i + (T -
    S)`; a window w > 0 keeps `j > i + (T - S) - w`, which are all where `w >= T`. A bias of
    -3.38e38 or less, as the least number of bf16 and of f32, stands in the place of its score, and
    -inf hides the key, as masks do. What a hidden key and its value hold counts for nothing, even
    nan. A query that sees no key gives 0, as in PyTorch since 2.5.
    Half precision is computed in f32 and rounded once. With rounded_weights, exp(score - largest)
    is rounded to bf16 before a value is multiplied by it; the sum that is divided by is of what was
    not rounded yet, and gradients know nothing of it. Errors: sizes that do not divide into heads,
    heads not a multiple of kv_heads, a bias that does not broadcast. Vaswani et al. 2017
    (arXiv:1706.03762), Ainslie et al. 2023 (arXiv:2305.13245).
    """
    if element_type_of(q).bits == 16:
        wide = [_in_full(b, x) for x in (q, k, v, bias) if x is not None]
        how: dict[str, Any] = {"causal": causal, "window": window}
        how |= {"scale": scale, "softcap": softcap}
        how |= {"heads": heads, "kv_heads": kv_heads, "rounded_weights": rounded_weights}
        whole = b.call("attention", *wide, **how)
        assert isinstance(whole, SSAValue)
        return b.cast(whole, element_type_of(q))
    layout = Heads(heads, kv_heads)
    scores = scores_of(b, layout, q, k, bias, causal, window, scale, softcap)
    *_, rows, keys = shape_of(scores)
    may_be_blind = bias is not None or (causal and rows > keys)
    if rounded_weights or may_be_blind:
        weights, total, _ = _powers(b, scores)
        total = b.where(b.eq(total, 0.0), 1.0, total) if may_be_blind else total
        weights = b.div(_rounded(b, weights, rounded_weights), total)
    else:
        weights = b.softmax(scores, axis=-1)
    values = layout.shared(b, v)
    hides = bias is not None or window > 0 or (causal and rows > 1)
    sums = _weighted(b, weights, scores, values) if hides else b.matmul(weights, values)
    return layout.merge(b, sums)


@composite(
    "attention_parts",
    (*SIGNATURE, AttributeSpec("each", INT)),
    _infer_parts,
    canonical=canonical_attention,
)
def attention_parts(
    b: Emitter,
    q: SSAValue,
    k: SSAValue,
    v: SSAValue,
    bias: SSAValue | None,
    heads: int,
    kv_heads: int,
    causal: bool,
    window: int,
    scale: float,
    softcap: float,
    rounded_weights: bool,
    each: int,
) -> SSAValue:
    """`p = attention_parts(q, k, v, heads = 8, each = 256)`: attention over each part of so many
    keys, as `merge_attention_parts` puts them together.

    Shape: operands as of attention give `[parts, …, S, heads, e + 2]`: of the keys of a part the
    sum of their values times exp(score - largest), the total of these weights, the largest score.
    The weights are lowered by a power of two that lets no sum over all keys overflow.
    A part of which a query sees no key has sums and a total of 0 and a largest score of -inf. Half
    precision gives f32. Errors: as of attention, and parts of no keys.
    """
    q, k, v = (_in_full(b, x) for x in (q, k, v))
    bias = None if bias is None else _in_full(b, bias)
    layout = Heads(heads, kv_heads)
    scores = scores_of(b, layout, q, k, bias, causal, window, scale, softcap)
    values = layout.shared(b, v)
    *front, rows, count = shape_of(scores)
    parts = -(-count // each)
    missing = [0, parts * each - count]
    scores = b.pad(scores, [*[[0, 0]] * (len(front) + 1), missing], -math.inf)
    scores = b.reshape(scores, (*front, rows, parts, each))
    rank = len(front)
    scores = b.transpose(scores, (*range(rank), rank + 1, rank, rank + 2))
    *outer, _, width = shape_of(values)
    values = b.pad(values, [*[[0, 0]] * len(outer), missing, [0, 0]], 0.0)
    values = b.reshape(values, (*outer, parts, each, width))
    weights, total, largest = _powers(b, scores)
    lowered = 2.0 ** -lowering(count)
    weights = _rounded(b, weights, rounded_weights)
    weights, total = b.mul(weights, lowered), b.mul(total, lowered)
    sums = _weighted(b, weights, scores, values)
    whole = b.concat([sums, total, largest], axis=-1)
    return layout.merge_parts(b, whole)


def _in_full(b: Emitter, x: SSAValue) -> SSAValue:
    return b.cast(x, "f32") if element_type_of(x).bits == 16 else x


def merge_attention_parts(b: Emitter, parts: SSAValue) -> SSAValue:
    """The attention `[…, S, heads * e]` whose parts are given."""
    *front, heads, size = shape_of(parts)
    axes = len(front) + 2

    def columns(start: int, stop: int) -> SSAValue:
        """Some columns of each head, as many as its values."""
        shape = (*front, heads, stop - start)
        found = b.slice(parts, [0] * (axes - 1) + [start], [*shape[:-1], stop], [1] * axes)
        found = b.broadcast_to(found, (*front, heads, size - 2))
        return b.reshape(found, (*front, heads * (size - 2)))

    sums, totals = columns(0, size - 2), columns(size - 2, size - 1)
    largest = columns(size - 1, size)
    element = element_type_of(parts)
    nothing, zero, one = (b.full((), number, T=element) for number in (-math.inf, 0.0, 1.0))
    most = b.max_reduce(largest, axis=[0], keepdims=True)
    shift = b.where(b.eq(most, nothing), zero, most)
    weights = b.exp(b.sub(largest, shift))
    total = b.sum(b.mul(totals, weights), axis=[0])
    return b.div(b.sum(b.mul(sums, weights), axis=[0]), b.where(b.eq(total, zero), one, total))
