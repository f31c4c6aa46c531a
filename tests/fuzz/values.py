"""Arrays to run programs on: ordinary, wide, at the ends of their types, and special.

In: a generator, an element type, a shape, and a flavour: how far from ordinary the values are.
Out: an array.
"""

import random
from collections.abc import Callable

import ml_dtypes
import numpy as np

from mgn.dialects.types import ELEMENT_TYPES, ElementType

Array = np.ndarray
Shape = tuple[int, ...]

FLOAT_KINDS: dict[str, tuple[str, ...]] = {
    "tame": ("normal", "normal", "normal", "positive", "whole", "same", "mask"),
    "wide": ("normal", "wide", "wide", "full", "large", "tiny", "whole", "cancelling"),
    "special": ("special", "special", "normal", "full", "large", "tiny", "zeros"),
}
"""The kinds of float arrays of each flavour."""

INTEGER_KINDS: dict[str, tuple[str, ...]] = {
    "tame": ("small", "small", "small", "positive"),
    "wide": ("small", "full", "extreme"),
    "special": ("full", "extreme", "extreme"),
}


def draw_array(rng: np.random.Generator, element: str, shape: Shape, flavour: str) -> Array:
    """Random values of an element type."""
    row = ELEMENT_TYPES[element]
    if row.name == "bool":
        return np.asarray(rng.random(shape) < rng.choice([0.5, 0.5, 0.1, 0.9, 0.0, 1.0]))
    kinds = FLOAT_KINDS if row.is_float else INTEGER_KINDS
    kind = str(rng.choice(kinds[flavour]))
    return _integers(rng, row, shape, kind) if row.is_integer else _floats(rng, row, shape, kind)


def _floats(rng: np.random.Generator, row: ElementType, shape: Shape, kind: str) -> Array:
    assert row.dtype is not None
    limits = ml_dtypes.finfo(row.dtype)
    with np.errstate(all="ignore"):
        values = np.asarray(FLOATS[kind](rng, shape, limits))
        return np.clip(values, -float(limits.max), float(limits.max)).astype(row.dtype) if (
            kind != "special"
        ) else values.astype(row.dtype)  # fmt: skip


def _signs(rng: np.random.Generator, shape: Shape) -> Array:
    return rng.choice([-1.0, 1.0], shape)


def _powers(rng: np.random.Generator, shape: Shape, low: float, high: float) -> Array:
    """Magnitudes between two powers of two, evenly in the exponent."""
    return _signs(rng, shape) * np.exp2(rng.uniform(low, high, shape))


def _cancelling(rng: np.random.Generator, shape: Shape, limits: ml_dtypes.finfo) -> Array:
    """Values around one large number, which differences of them leave."""
    centre = float(np.exp2(rng.uniform(0, limits.maxexp / 4)))
    return centre * (1 + float(limits.eps) * rng.integers(-64, 64, shape))


def _special(rng: np.random.Generator, shape: Shape, limits: ml_dtypes.finfo) -> Array:
    """Ordinary values with zeros of both signs, infinities, NaN and the ends of the type."""
    tiny, least = float(limits.smallest_normal), float(limits.smallest_subnormal)
    ends = [0.0, -0.0, float(limits.max), -float(limits.max), tiny, -tiny, least, 1.0]
    among = [*ends, np.inf, -np.inf, np.nan] if rng.random() < 0.6 else ends
    share = rng.choice([0.05, 0.3, 0.9])
    return np.where(rng.random(shape) < share, rng.choice(among, shape), rng.normal(size=shape))


FLOATS: dict[str, Callable[[np.random.Generator, Shape, ml_dtypes.finfo], Array]] = {
    "normal": lambda rng, shape, limits: rng.normal(size=shape),
    "positive": lambda rng, shape, limits: rng.uniform(0.1, 2.0, shape),
    "whole": lambda rng, shape, limits: rng.integers(-8, 9, shape).astype(np.float64),
    "same": lambda rng, shape, limits: np.full(shape, rng.normal()),
    "mask": lambda rng, shape, limits: rng.integers(0, 2, shape).astype(np.float64),
    "zeros": lambda rng, shape, limits: 0.0 * _signs(rng, shape),
    "wide": lambda rng, shape, limits: _powers(
        rng, shape, limits.minexp / 4, limits.maxexp / 4
    ),
    "full": lambda rng, shape, limits: _powers(
        rng, shape, limits.minexp - limits.nmant, limits.maxexp
    ),
    "large": lambda rng, shape, limits: float(limits.max)
    * rng.uniform(0.1, 1.0, shape) * _signs(rng, shape),
    "tiny": lambda rng, shape, limits: float(limits.smallest_normal)
    * rng.uniform(0.0, 2.0, shape) * _signs(rng, shape),
    "cancelling": _cancelling,
    "special": _special,
}  # fmt: skip
"""How each kind of float array is drawn, in f64."""


def _integers(rng: np.random.Generator, row: ElementType, shape: Shape, kind: str) -> Array:
    limits = np.iinfo(row.dtype)  # type: ignore
    low, high = int(limits.min), int(limits.max)
    if kind == "full":
        return rng.integers(low, high, shape, row.dtype, endpoint=True)
    if kind == "extreme":
        ends = np.array([low, high, low + 1, high - 1, 0, 1, max(low, -1), 2], row.dtype)
        return np.asarray(rng.choice(ends, shape)).astype(row.dtype)
    return rng.integers(max(low, -9) if kind == "small" else 1, 10, shape).astype(row.dtype)


SIZES = (1, 1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 8, 9, 12, 15, 16, 16, 17, 31, 32, 33, 48, 63, 64, 65)
LARGE_SIZES = (100, 127, 128, 129, 200, 255, 256, 257, 300, 511, 513, 1000, 1023, 4097, 10007)


EMPTY = 0.015
"""How often an axis has no element."""


def draw_shape(rng: random.Random, most: int, empty: float = EMPTY) -> Shape:
    """A shape of rank 0 to 5 with at most so many elements, of which that share is empty axes."""
    rank = rng.choice((0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 5))
    shape: list[int] = []
    left = most
    for _ in range(rank):
        sizes = LARGE_SIZES if left > 5000 and rng.random() < 0.2 else SIZES
        size = 0 if rng.random() < empty else min(rng.choice(sizes), max(left, 1))
        shape.append(size)
        left //= max(size, 1)
    rng.shuffle(shape)
    return tuple(shape)
