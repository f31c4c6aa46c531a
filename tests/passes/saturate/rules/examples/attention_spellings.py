"""Attention as exporters write it: each a function over the emitter, with its operands' types.

In: nothing. Out: `SPELLINGS` by name: the body, its operand types, and the attributes of the
composite that it is.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.types import tensor
from tests.passes.saturate.saturate_programs import f32

B, S, H, D = 2, 16, 4, 8
WIDTH = H * D


@dataclass(frozen=True)
class Spelling:
    """One way to write attention on merged q, k and v, and a mask where there is one."""

    body: Callable[..., SSAValue]
    types: tuple[TensorType, ...]
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])


def split(b: Emitter, x: SSAValue, heads: int = H) -> SSAValue:
    """`[B, S, heads * D]` as `[B, heads, S, D]`."""
    return b.transpose(b.reshape(x, [B, S, heads, D]), [0, 2, 1, 3])


def merge(b: Emitter, x: SSAValue) -> SSAValue:
    """`[B, H, S, D]` as `[B, S, H * D]`."""
    return b.reshape(b.transpose(x, [0, 2, 1, 3]), [B, S, WIDTH])


def softmax(b: Emitter, x: SSAValue) -> SSAValue:
    """Softmax with the maximum as a value without the reduced axis."""
    rows = [*x.type.get_shape()[:-1], 1]  # pyright: ignore
    shifted = b.exp(b.sub(x, b.reshape(b.max_reduce(x, axis=-1), rows)))
    return b.div(shifted, b.reshape(b.sum(shifted, axis=-1), rows))


def _bert(b: Emitter, q: SSAValue, k: SSAValue, v: SSAValue, mask: SSAValue) -> SSAValue:
    """ONNX from PyTorch: keys transposed at once, a quotient, an additive mask."""
    keys = b.transpose(b.reshape(k, [B, S, H, D]), [0, 2, 3, 1])
    scores = b.add(b.div(b.matmul(split(b, q), keys), D**0.5), mask)
    return merge(b, b.matmul(softmax(b, scores), split(b, v)))


def _gpt(b: Emitter, q: SSAValue, k: SSAValue, v: SSAValue) -> SSAValue:
    """A triangle of ones, and the least number where it is 0."""
    scores = b.mul(b.matmul(split(b, q), split(b, k), transpose_b=True), D**-0.5)
    seen = b.tril(b.broadcast_to(b.constant(True, "bool"), [1, 1, S, S]))
    scores = b.where(seen, scores, float(np.finfo(np.float32).min))
    return merge(b, b.matmul(b.softmax(scores), split(b, v)))


def _masked_fill(b: Emitter, q: SSAValue, k: SSAValue, v: SSAValue) -> SSAValue:
    """The queries scaled, and -inf where a triangle of numbers is 0."""
    scores = b.matmul(b.mul(split(b, q), D**-0.5), split(b, k), transpose_b=True)
    triangle = b.constant_array(np.tril(np.ones((S, S), np.float32)))
    scores = b.where(b.eq(triangle, 0.0), float("-inf"), scores)
    return merge(b, b.matmul(softmax(b, scores), split(b, v)))


def _constant_mask(b: Emitter, q: SSAValue, k: SSAValue, v: SSAValue) -> SSAValue:
    """A constant added that is far below 0 above the diagonal."""
    scores = b.mul(b.matmul(split(b, q), split(b, k), transpose_b=True), D**-0.5)
    mask = np.triu(np.full((S, S), np.finfo(np.float32).min), 1)[None, None]
    scores = b.add(scores, b.constant_array(mask.astype(np.float32)))
    return merge(b, b.matmul(b.softmax(scores), split(b, v)))


def _seen(b: Emitter, q: SSAValue, k: SSAValue, v: SSAValue, mask: SSAValue) -> SSAValue:
    """A mask of the caller's."""
    scores = b.mul(b.matmul(split(b, q), split(b, k), transpose_b=True), D**-0.5)
    scores = b.where(mask, scores, float("-inf"))
    return merge(b, b.matmul(b.softmax(scores), split(b, v)))


def _seen_or_nothing(b: Emitter, q: SSAValue, k: SSAValue, v: SSAValue, seen: SSAValue) -> SSAValue:
    """ONNX from PyTorch since 2.5: shares that are nan, since no key is seen, are 0."""
    scores = b.mul(b.matmul(split(b, q), split(b, k), transpose_b=True), D**-0.5)
    shares = b.softmax(b.where(seen, scores, float("-inf")))
    return merge(b, b.matmul(b.where(b.isnan(shares), 0.0, shares), split(b, v)))


def _shared_keys(b: Emitter, q: SSAValue, k: SSAValue, v: SSAValue) -> SSAValue:
    """Keys of two heads repeated for four, after the heads were moved."""
    keys, values = (b.repeat(split(b, x, 2), 2, axis=1) for x in (k, v))
    scores = b.mul(b.matmul(split(b, q), keys, transpose_b=True), D**-0.5)
    return merge(b, b.matmul(b.softmax(scores), values))


def _shared_keys_early(b: Emitter, q: SSAValue, k: SSAValue, v: SSAValue) -> SSAValue:
    """Keys of two heads repeated for four, before the heads are moved."""
    wide = (b.repeat(b.reshape(x, [B, S, 2, D]), 2, axis=2) for x in (k, v))
    keys, values = (b.transpose(x, [0, 2, 1, 3]) for x in wide)
    scores = b.mul(b.matmul(split(b, q), keys, transpose_b=True), D**-0.5)
    return merge(b, b.matmul(b.softmax(scores), values))


def _batched(b: Emitter, q: SSAValue, k: SSAValue, v: SSAValue) -> SSAValue:
    """Batches and heads as one axis, as torch.bmm wants them."""
    a, c, d = (b.reshape(split(b, x), [B * H, S, D]) for x in (q, k, v))
    scores = b.mul(b.matmul(a, c, transpose_b=True), D**-0.5)
    mixed = b.matmul(b.softmax(scores), d)
    return merge(b, b.reshape(mixed, [B, H, S, D]))


def _batched_with_mask(
    b: Emitter, q: SSAValue, k: SSAValue, v: SSAValue, mask: SSAValue
) -> SSAValue:
    """Batches and heads as one axis, but for the mask."""
    a, c, d = (b.reshape(split(b, x), [B * H, S, D]) for x in (q, k, v))
    scores = b.reshape(b.matmul(b.mul(a, D**-0.5), c, transpose_b=True), [B, H, S, S])
    share = b.reshape(b.softmax(b.add(scores, mask)), [B * H, S, S])
    return merge(b, b.reshape(b.matmul(share, d), [B, H, S, D]))


def _capped(b: Emitter, q: SSAValue, k: SSAValue, v: SSAValue) -> SSAValue:
    """Gemma 2: scores softly capped before the mask, keys of two heads repeated for four."""
    keys, values = (_repeated(b, split(b, x, 2)) for x in (k, v))
    scores = b.mul(b.matmul(split(b, q), b.transpose(keys, [0, 1, 3, 2])), D**-0.5)
    scores = b.mul(b.tanh(b.div(scores, 30.0)), 30.0)
    mask = np.triu(np.full((S, S), np.finfo(np.float32).min), 1)[None, None]
    scores = b.add(scores, b.constant_array(mask.astype(np.float32)))
    return merge(b, b.matmul(softmax(b, scores), values))


def _repeated(b: Emitter, x: SSAValue) -> SSAValue:
    """Hugging Face's `repeat_kv`: a new axis, expanded, and merged with the heads."""
    wide = b.broadcast_to(b.reshape(x, [B, 2, 1, S, D]), [B, 2, 2, S, D])
    return b.reshape(wide, [B, H, S, D])


def _capped_window(b: Emitter, q: SSAValue, k: SSAValue, v: SSAValue) -> SSAValue:
    """Gemma 2's other layers: the cap is a power of two, and each query sees a few keys."""
    scores = b.div(b.matmul(split(b, q), split(b, k), transpose_b=True), D**0.5)
    scores = b.mul(b.tanh(b.div(scores, 32.0)), 32.0)
    distance = np.arange(S)[:, None] - np.arange(S)
    near = b.constant_array((distance >= 0) & (distance < 5))
    scores = b.where(near, scores, float("-inf"))
    return merge(b, b.matmul(b.softmax(scores), split(b, v)))


def _capped_with_mask(
    b: Emitter, q: SSAValue, k: SSAValue, v: SSAValue, mask: SSAValue
) -> SSAValue:
    """The queries scaled before the product, scores capped, a mask added."""
    scores = b.matmul(b.mul(split(b, q), D**-0.5), split(b, k), transpose_b=True)
    scores = b.add(b.mul(b.tanh(b.div(scores, 50.0)), 50.0), mask)
    return merge(b, b.matmul(b.softmax(scores), split(b, v)))


ROWS = f32(B, S, WIDTH)
HALF = f32(B, S, WIDTH // 2)
BIAS = f32(B, 1, 1, S)

SPELLINGS: dict[str, Spelling] = {
    "bert": Spelling(_bert, (ROWS, ROWS, ROWS, BIAS), {"heads": H}),
    "gpt": Spelling(_gpt, (ROWS, ROWS, ROWS), {"heads": H, "causal": True}),
    "masked fill": Spelling(_masked_fill, (ROWS, ROWS, ROWS), {"heads": H, "causal": True}),
    "constant mask": Spelling(_constant_mask, (ROWS, ROWS, ROWS), {"heads": H, "causal": True}),
    "seen": Spelling(_seen, (ROWS, ROWS, ROWS, tensor("bool", (B, 1, S, S))), {"heads": H}),
    "seen or nothing": Spelling(
        _seen_or_nothing, (ROWS, ROWS, ROWS, tensor("bool", (B, 1, S, S))), {"heads": H}
    ),
    "shared keys": Spelling(_shared_keys, (ROWS, HALF, HALF), {"heads": H, "kv_heads": 2}),
    "shared keys early": Spelling(
        _shared_keys_early, (ROWS, HALF, HALF), {"heads": H, "kv_heads": 2}
    ),
    "capped": Spelling(
        _capped,
        (ROWS, HALF, HALF),
        {"heads": H, "kv_heads": 2, "causal": True, "softcap": 30.0},
    ),
    "capped window": Spelling(
        _capped_window,
        (ROWS, ROWS, ROWS),
        {"heads": H, "causal": True, "window": 5, "softcap": 32.0},
    ),
    "capped with mask": Spelling(
        _capped_with_mask, (ROWS, ROWS, ROWS, BIAS), {"heads": H, "softcap": 50.0}
    ),
    "batched": Spelling(_batched, (ROWS, ROWS, ROWS), {"heads": H}),
    "batched with mask": Spelling(_batched_with_mask, (ROWS, ROWS, ROWS, BIAS), {"heads": H}),
}
