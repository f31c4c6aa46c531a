"""Attention on NumPy arrays in f64, with a bound on the error of computing it in a narrower type.

In: the operands and attributes of an attention. Out: its value, and for each element how far off a
correct kernel may be.

A score is a sum of `depth` products, scaled and biased: relative to the sum of their magnitudes its
error is at most (depth + 8) units of rounding, wherever it is fused. A soft cap divides and
multiplies by figures above 1 with a slope of at most 1, so it adds a few units of the cap. An error
of a score is a relative error of its weight, to which the power adds a few units of its exponent; a
weighted mean of the values is then off by twice the largest of those times the mean of magnitudes,
and summing `keys` terms, each rescaled at most once a block, adds 2 * keys + 16 units.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

HIDING = -3.38e38
"""A bias up to this stands in the place of its score."""

POWER_UNITS = 16
"""Units in the last place that a device's exponential may be off; OpenCL allows 3."""


@dataclass(frozen=True)
class Bounded:
    """A value, and the largest accepted error of each element."""

    value: np.ndarray
    error: np.ndarray

    def check(self, found: np.ndarray) -> None:
        """Fails where a result is off by more, or not finite in another way."""
        found = found.astype(np.float64)
        finite = np.isfinite(self.value)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(self.value))
        unbounded = ~finite & ~np.isnan(self.value)
        np.testing.assert_array_equal(found[unbounded], self.value[unbounded])
        excess = np.abs(found[finite] - self.value[finite]) / self.error[finite]
        assert np.max(excess, initial=0.0) <= 1.0, f"{np.max(excess):.3g} times the bound"


def _split(x: np.ndarray, heads: int) -> np.ndarray:
    rows = x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads)
    return np.swapaxes(rows, -3, -2).astype(np.float64)


def bounded_attention(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    bias: np.ndarray | None = None,
    *,
    heads: int,
    kv_heads: int | None = None,
    causal: bool = False,
    window: int = 0,
    scale: float | None = None,
    softcap: float = 0.0,
    unit: float = 2.0**-24,
    rounding: float = 0.0,
    weighing: float = 0.0,
    rounded_weights: bool = False,
) -> Bounded:
    """`unit` is the rounding of the arithmetic, `rounding` that of the result's own type,
    `weighing` how far off a weight may be besides, relative to it. Weights that are rounded to bf16
    are off by 2^-8 more; which of two numbers one becomes depends on the largest score so far.

    The scale and the soft cap are numbers of the type that scores are computed in.
    """
    weighing += 2.0**-8 if rounded_weights else 0.0
    number = np.float64 if unit < 2.0**-30 else np.float32
    kv_heads = kv_heads or heads
    queries, keys, values = _split(q, heads), _split(k, kv_heads), _split(v, kv_heads)
    keys, values = (np.repeat(x, heads // kv_heads, axis=-3) for x in (keys, values))
    depth, count = queries.shape[-1], keys.shape[-2]
    scale = float(number(depth**-0.5 if scale is None else scale))
    softcap = float(number(softcap))
    turned = np.swapaxes(keys, -1, -2)
    with np.errstate(all="ignore"):
        scores = queries @ turned * scale
        size = np.abs(queries) @ np.abs(turned) * abs(scale) * (depth + 8)
        if softcap:
            scores = np.tanh(scores / softcap) * softcap
            size = size + 8 * softcap
        if bias is not None:
            wide = bias.astype(np.float64)
            scores = np.where(wide <= HIDING, wide, scores + wide)
            size = size + 4 * np.where(np.isfinite(wide), np.abs(wide), 0.0)
        scores, seen = np.broadcast_arrays(scores, _seen(scores.shape, causal, window))
        scores = np.where(seen, scores, -np.inf)
        blind = bias is not None or (causal and q.shape[-2] > count)
        largest = scores.max(-1, keepdims=True, initial=-np.inf)
        shift = np.where(largest == -np.inf, 0.0, largest)
        weights = np.exp(scores - (shift if blind or not count else largest))
        total = weights.sum(-1, keepdims=True)
        weights = weights / np.where(blind & (total == 0), 1.0, total)
        size = size + 2 * np.where(np.isfinite(scores), np.abs(scores), 0.0) + POWER_UNITS
        worst = np.where(seen & np.isfinite(scores), size, 0.0).max(-1, keepdims=True, initial=0.0)
        result, magnitude = _weighted(weights, scores != -np.inf, values)
        error = magnitude * ((2 * worst + 2 * count + 16) * unit + weighing)
        error = error + np.abs(result) * rounding + np.finfo(np.float32).tiny
    return Bounded(_merged(result), _merged(error))


def _weighted(
    weights: np.ndarray, seen: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Weighted sums of values and of their magnitudes; where a key is seen, nan and infinities of
    its value count whatever its weight, where it is not, nothing does.
    """
    finite = np.where(np.isfinite(values), values, 0.0)
    result = weights @ finite
    for infinity in (np.inf, -np.inf):
        spoilt = (np.isnan(values) | (values == infinity)).astype(np.float64)
        result = np.where(seen.astype(np.float64) @ spoilt > 0, result + infinity, result)
    return result, weights @ np.abs(finite)


def _seen(shape: tuple[int, ...], causal: bool, window: int) -> np.ndarray:
    rows, count = shape[-2:]
    query, key = np.arange(rows)[:, None] + (count - rows), np.arange(count)
    seen = np.ones((rows, count), bool)
    if causal:
        seen &= key <= query
    if window:
        seen &= key > query - window
    return seen


def _merged(x: np.ndarray) -> np.ndarray:
    rows = np.swapaxes(x, -3, -2)
    return rows.reshape(*rows.shape[:-2], -1)


def attention_arrays(shapes: list[tuple[int, ...]], dtype: Any, seed: int) -> list[np.ndarray]:
    """Normal random operands."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def between_two_weights(rounded: bool) -> tuple[list[np.ndarray], dict[str, Any], float]:
    """Operands, attributes and the result of an attention of which one key counts: its weight is
    187.3 parts of 256, of which bf16 holds 187. The two results are 2^-9.3 apart.
    """
    q, k, v = (np.zeros((rows, 64), np.float32) for rows in (64, 150, 150))
    q[:, 0], k[-1, 0], v[-1] = 1, -0.3125, 1
    weight = np.exp(-0.3125)
    how = {"heads": 1, "scale": 1.0, "rounded_weights": rounded}
    return [q, k, v], how, (187 / 256 if rounded else weight) / (149 + weight)
