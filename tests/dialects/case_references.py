"""The longer references of `operation_cases.py`: loops and definitions, as a textbook has them."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

Array = np.ndarray


def layer_norm_reference(
    x: Array, w: Array | None = None, b: Array | None = None, eps: float = 1e-5
) -> Array:
    axes = tuple(range(-1 if w is None else -w.ndim, 0))
    normal = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)
    return normal * (1 if w is None else w) + (0 if b is None else b)


def group_norm_reference(x: Array, w: Array, b: Array, groups: int, eps: float = 1e-5) -> Array:
    result = np.empty_like(x)
    size = x.shape[1] // groups
    for sample in range(x.shape[0]):
        for group in range(groups):
            part = x[sample, group * size : (group + 1) * size]
            normal = (part - part.mean()) / np.sqrt(part.var() + eps)
            result[sample, group * size : (group + 1) * size] = normal
    ones = (1,) * (x.ndim - 2)
    return result * w.reshape(-1, *ones) + b.reshape(-1, *ones)


Seen = Iterator[tuple[tuple[int, ...], list[int], Array, Array]]


def _attended(
    q: Array,
    k: Array,
    v: Array,
    bias: Array | None = None,
    *,
    heads: int,
    kv_heads: int | None = None,
    causal: bool = False,
    window: int = 0,
    scale: float | None = None,
    softcap: float = 0.0,
) -> Seen:
    """One query at a time: its place `(*batch, row, head)`, and of the keys that it sees their
    numbers, scores and values.
    """
    batch, (rows, keys) = q.shape[:-2], (q.shape[-2], k.shape[-2])
    kv_heads = kv_heads or heads
    size = q.shape[-1] // heads
    scale = 1 / math.sqrt(size) if scale is None else scale
    shape = (*batch, heads, rows, keys)
    added = np.zeros(shape) if bias is None else np.broadcast_to(bias, shape)
    for where in np.ndindex(*batch, heads, rows):
        *outer, head, i = where
        own = slice(head * size, (head + 1) * size)
        shared = head // (heads // kv_heads)
        theirs = slice(shared * size, (shared + 1) * size)
        scores = k[(*outer, slice(None), theirs)] @ q[(*outer, i, own)] * scale
        if softcap:
            scores = softcap * np.tanh(scores / softcap)
        scores = scores + added[where]
        seen = [
            j
            for j in range(keys)
            if (not causal or j <= i + (keys - rows))
            and (not window or j > i + (keys - rows) - window)
            and scores[j] > -np.inf
        ]
        yield (*outer, i, head), seen, scores[seen], v[(*outer, slice(None), theirs)][seen]


def attention_reference(
    q: Array, k: Array, v: Array, *bias: Array, heads: int, **how: Any
) -> Array:
    """A mean of the values that a query sees; 0 where it sees none."""
    result = np.zeros((*q.shape[:-1], heads, q.shape[-1] // heads))
    for place, seen, scores, values in _attended(q, k, v, *bias, heads=heads, **how):
        if seen:
            weights = np.exp(scores)
            result[place] = weights @ values / weights.sum()
    return result.reshape(q.shape)


def attention_parts_reference(
    q: Array, k: Array, v: Array, *bias: Array, heads: int, each: int, **how: Any
) -> Array:
    """Of each part of the keys: sums of values, the total of weights, the largest score; weights
    are lowered by the least power of two that is twice the keys.
    """
    size, count = q.shape[-1] // heads, k.shape[-2]
    lowered = 2.0 ** (-1 - np.ceil(np.log2(count)))
    result = np.zeros((-(-count // each), *q.shape[:-1], heads, size + 2))
    result[..., -1] = -np.inf
    for place, seen, scores, values in _attended(q, k, v, *bias, heads=heads, **how):
        for part in range(len(result)):
            own = np.array([key // each == part for key in seen], bool)
            if own.any():
                weights = np.exp(scores[own] - scores[own].max()) * lowered
                found = [*(weights @ values[own]), weights.sum(), scores[own].max()]
                result[(part, *place)] = found
    return result


def attention_lse_reference(q: Array, k: Array, *bias: Array, heads: int, **how: Any) -> Array:
    """The log-sum-exp of each query's scores; -inf where it sees no key."""
    result = np.full((*q.shape[:-1], heads), -np.inf)
    for place, seen, scores, _ in _attended(q, k, k, *bias, heads=heads, **how):
        if seen:
            result[place] = np.log(np.exp(scores).sum())
    return result


def attention_gradient_reference(
    q: Array,
    k: Array,
    v: Array,
    g: Array,
    lse: Array,
    own: Array,
    *bias: Array,
    heads: int,
    kv_heads: int | None = None,
    scale: float | None = None,
    softcap: float = 0.0,
    of_keys: bool = False,
    **how: Any,
) -> Array:
    """One score at a time: what it sends to its query, its key and its value."""
    kv_heads = kv_heads or heads
    d, e = q.shape[-1] // heads, v.shape[-1] // kv_heads
    scale = 1 / math.sqrt(d) if scale is None else scale
    dq, dk, dv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    how |= {"heads": heads, "kv_heads": kv_heads, "scale": scale, "softcap": softcap}
    for (*batch, i, head), seen, scores, _ in _attended(q, k, v, *bias, **how):
        shared = head // (heads // kv_heads)
        mine, theirs = slice(head * d, head * d + d), slice(shared * d, shared * d + d)
        out, values = slice(head * e, head * e + e), slice(shared * e, shared * e + e)
        sent = g[(*batch, i, out)]
        for j, score in zip(seen, scores, strict=True):
            weight = np.exp(score - lse[(*batch, i, head)])
            change = scale * weight * (sent @ v[(*batch, j, values)] - own[(*batch, i, head)])
            if softcap:
                free = scale * q[(*batch, i, mine)] @ k[(*batch, j, theirs)]
                change *= 1 - np.tanh(free / softcap) ** 2
            dq[(*batch, i, mine)] += change * k[(*batch, j, theirs)]
            dk[(*batch, j, theirs)] += change * q[(*batch, i, mine)]
            dv[(*batch, j, values)] += weight * sent
    return np.concatenate([dk, dv], -1) if of_keys else dq


def bias_mask(source: Any, shape: tuple[int, ...]) -> Array:
    """A bias in which some keys are masked by -inf, and the first row wholly."""
    bias = np.where(source.b(*shape), source.f(*shape), np.asarray(-np.inf, source.dtype))
    bias[..., 0, :] = -np.inf
    return bias.astype(source.dtype)


def rope_reference(
    x: Array,
    head_dim: int,
    theta: float = 10000.0,
    offset: int = 0,
    interleaved: bool = False,
) -> Array:
    """Each pair of a head as a complex number, turned by its angle."""
    result = np.array(x)
    for row in range(x.shape[-2]):
        for head in range(x.shape[-1] // head_dim):
            for pair in range(head_dim // 2):
                first, second = (
                    (2 * pair, 2 * pair + 1) if interleaved else (pair, pair + head_dim // 2)
                )
                i, j = head * head_dim + first, head * head_dim + second
                turn = np.exp(1j * (offset + row) * theta ** (-2 * pair / head_dim))
                turned = (x[..., row, i] + 1j * x[..., row, j]) * turn
                result[..., row, i], result[..., row, j] = turned.real, turned.imag
    return result


def cross_entropy_reference(logits: Array, labels: Array) -> Array:
    probabilities = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    classes = logits.shape[-1]
    wanted = labels if labels.ndim == logits.ndim else np.eye(classes)[labels.astype(int)]
    return -(wanted * np.log(probabilities)).sum(-1)


def take_rows(ids: Array, table: Array) -> Array:
    rows = [table[min(max(int(i), 0), len(table) - 1)] for i in ids.ravel()]
    return np.array(rows).reshape(*ids.shape, -1)


def with_part(x: Array, part: Array, starts: tuple[int, ...]) -> Array:
    result = np.array(x)
    ends = (start + size for start, size in zip(starts, part.shape, strict=True))
    result[tuple(map(slice, starts, ends))] = part
    return result


def scattered(x: Array, ids: Array, src: Array, axis: int, adds: bool) -> Array:
    """A slice of src for each id, or an element for each, one after the other."""
    result, own = np.array(x), ids.shape == src.shape and ids.ndim == x.ndim > 1
    for place in np.ndindex(*ids.shape):
        there: list[Any] = list(place) if own else [slice(None)] * x.ndim
        given = place if own else (slice(None),) * axis + place
        there[axis] = min(max(int(ids[place]), 0), x.shape[axis] - 1)
        result[tuple(there)] = src[given] + (result[tuple(there)] if adds else 0)
    return result


def trimmed(x: Array, padding: Any, value: float) -> Array:
    (above, below), (left, right) = padding
    rows, columns = x.shape
    result = np.full((rows + above + below, columns + left + right), value)
    result[above : above + rows, left : left + columns] = x
    return result


def philox_reference(words: Any, number: int) -> int:
    """Philox 4×32-10 on whole numbers, as the paper writes it."""
    c0, c1, c2, c3, k0, k1 = (int(word) for word in words)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1 = p1 >> 32 ^ c1 ^ k0, p1 & 0xFFFFFFFF
        c2, c3 = p0 >> 32 ^ c3 ^ k1, p0 & 0xFFFFFFFF
        k0, k1 = k0 + 0x9E3779B9 & 0xFFFFFFFF, k1 + 0xBB67AE85 & 0xFFFFFFFF
    return (c0, c1, c2, c3)[number]


def _fractions(count: int, key: Any, site: int, number: int) -> Array:
    """Fractions of 53 bits of two words each."""
    found: list[float] = []
    for index in range(count):
        counter = (index, 0, site, key[2], key[0], key[1])
        high, low = (philox_reference(counter, 2 * number + half) for half in (0, 1))
        found.append(((high >> 5) * 2**26 + (low >> 6)) / 2**53)
    return np.array(found, np.float64)


def uniform_reference(shape: Any, low: float, high: float, _: str, key: Any, site: int) -> Array:
    count = math.prod(shape)
    return (low + (high - low) * _fractions(count, key, site, 0)).reshape(shape)


def normal_reference(shape: Any, mean: float, std: float, _: str, key: Any, site: int) -> Array:
    first, second = (_fractions(math.prod(shape), key, site, number) for number in (0, 1))
    drawn = np.sqrt(-2 * np.log(1 - first)) * np.cos(2 * np.pi * second)
    return (mean + std * drawn).reshape(shape)


def categorical_reference(logits: Array, key: Any, site: int) -> Array:
    counters = [(index, 0, site, key[2], key[0], key[1]) for index in range(logits.size)]
    whole = np.array([philox_reference(counter, 0) >> 9 for counter in counters])
    noise = -np.log(-np.log((whole + 0.5) / 2**23)).reshape(logits.shape)
    return np.argmax(logits + noise, axis=-1)
