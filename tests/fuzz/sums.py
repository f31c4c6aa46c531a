"""Sums and products over axes of sets of values, in any order of the terms.

In: `Floats`. Out: `Floats` widened by `ALLOWED` times the error of adding so many terms, which is
the depth of the tree that adds them times half an ulp of the sum of magnitudes. Where magnitudes
may add up to more than the type holds, an order exists that overflows, and nothing is known.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from mgn.dialects.types import ELEMENT_TYPES, ElementType
from tests.fuzz import intervals
from tests.fuzz.intervals import ALLOWED, Array, Floats

BLOCK = 4096
"""Terms that are added one after the other; sums of more are of blocks, in a tree."""


@dataclass(frozen=True)
class Precision:
    """To what the operands of products in f32 are rounded: relative error, least error, largest.

    Below the least normal number the spacing is fixed; matrix units may flush what is smaller in
    tf32 and bf16.
    """

    relative: float = 0.0
    least: float = 0.0
    most: float = math.inf

    @staticmethod
    def of(name: str) -> "Precision":
        if name == "f32":
            return Precision()
        if name == "tf32":
            return Precision(2.0**-11, 2.0**-126, (2 - 2.0**-11) * 2.0**127)
        limits = ml_dtypes.finfo(ELEMENT_TYPES[name].dtype)
        least = float(limits.smallest_subnormal if name == "f16" else limits.smallest_normal)
        return Precision(float(limits.eps) / 2, least, float(limits.max))


def accumulator(element: ElementType) -> ElementType:
    """The type that sums of an element type are made in."""
    return ELEMENT_TYPES["f32"] if element.bits == 16 else element


def depth(terms: int) -> float:
    """How many additions a term goes through at most."""
    return min(terms, BLOCK) + math.log2(max(terms, 1))


def summed(
    low: Array, high: Array, total: Array, terms: float, element: ElementType
) -> tuple[Array, Array, Array]:
    """The ends of a sum, and where it may overflow, from sums of both ends and of magnitudes."""
    limits = ml_dtypes.finfo(accumulator(element).dtype)
    error = ALLOWED * terms * (float(limits.eps) / 2 * total + float(limits.smallest_subnormal))
    return low - error, high + error, ~(total + error <= float(limits.max))


def settled_sum(
    low: Array, high: Array, over: Array, nan: Array, empty: Array, wild: Array,
    element: ElementType,
) -> Floats:  # fmt: skip
    """A sum, of which nothing is known where it may overflow, rounded to its type."""
    lo, hi = np.where(over, -np.inf, low), np.where(over, np.inf, high)
    lo, hi = np.where(empty, np.inf, lo), np.where(empty, -np.inf, hi)
    result = Floats(lo, hi, over | nan | empty, wild | over | nan | empty)
    if accumulator(element) is not element:
        result = intervals.rounded(result, element)
    return intervals.held(result, element)


def sum_over(x: Floats, element: ElementType, axis: tuple[int, ...], keepdims: bool) -> Floats:
    how: dict[str, Any] = {"axis": axis, "keepdims": keepdims}
    terms = math.prod(x.shape[n] for n in axis)
    low, high, total = (np.sum(part, **how) for part in (x.lo, x.hi, x.magnitude))
    nan, empty, wild = (np.any(part, **how) for part in (x.nan, x.empty, x.wild))
    low, high, over = summed(low, high, total, depth(terms), element)
    return settled_sum(low, high, over, nan, empty, wild, element)


def running_sum_of(x: Floats, element: ElementType, axis: int) -> Floats:
    low, high, total = (np.cumsum(part, axis=axis) for part in (x.lo, x.hi, x.magnitude))
    masks = (x.nan, x.empty, x.wild)
    nan, empty, wild = (np.cumsum(part, axis=axis) > 0 for part in masks)
    low, high, over = summed(low, high, total, x.shape[axis], element)
    return settled_sum(low, high, over, nan, empty, wild, element)


def in_parts(
    running: Callable[[Floats, ElementType, int], Floats],
    x: Floats,
    before: Floats,
    element: ElementType,
    axis: int,
    part: int,
    totals: bool,
) -> Floats:
    """A scan that begins anew, each part with what was before it, or the totals of earlier ones."""
    if not x.shape[axis]:
        return x
    found: list[list[Array]] = []
    for number, start in enumerate(range(0, x.shape[axis], part)):
        own = range(start, min(start + part, x.shape[axis]))
        earlier = range(number) if totals else [number]
        pieces = [
            np.concatenate([np.take(one, earlier, axis), np.take(other, own, axis)], axis)
            for one, other in zip(before.parts, x.parts, strict=True)
        ]
        scanned = running(Floats(*pieces), element, axis)
        found.append([np.delete(item, range(len(earlier)), axis) for item in scanned.parts])
    return Floats(*(np.concatenate(group, axis) for group in zip(*found, strict=True)))


@dataclass(frozen=True)
class _Over:
    """How a product's factors are put together: over axes, or up to each along one."""

    terms: int
    add: Callable[[Array], Array]
    multiply: Callable[[Array], Array]

    def any(self, mask: Array) -> Array:
        return self.add(mask.astype(np.int64)) > 0


def product_over(x: Floats, element: ElementType, axis: tuple[int, ...], keepdims: bool) -> Floats:
    how: dict[str, Any] = {"axis": axis, "keepdims": keepdims}
    terms = math.prod(x.shape[n] for n in axis)
    over = _Over(terms, lambda part: np.sum(part, **how), lambda part: np.prod(part, **how))
    return _product(x, element, over)


def running_product_of(x: Floats, element: ElementType, axis: int) -> Floats:
    over = _Over(
        x.shape[axis],
        lambda part: np.cumsum(part, axis=axis),
        lambda part: np.cumprod(part, axis=axis),
    )
    return _product(x, element, over)


def _product(x: Floats, element: ElementType, over_axes: _Over) -> Floats:
    """A product: relative errors add up; where some of the factors alone leave the type's range,
    upwards or downwards, nothing better than that is known.
    """
    limits, terms = ml_dtypes.finfo(accumulator(element).dtype), over_axes.terms
    add, multiply, found = over_axes.add, over_axes.multiply, over_axes.any
    size = x.magnitude
    middle, radius = (x.lo + x.hi) / 2, (x.hi - x.lo) / 2
    spans = found((x.lo <= 0) & (x.hi >= 0))
    relative = np.where(middle != 0, radius / np.abs(middle), 0.0)
    error = np.expm1(add(np.log1p(relative)))
    error = (1 + error) * (1 + ALLOWED * terms * float(limits.eps)) - 1
    logs = np.log2(np.where(size > 0, size, 1.0))
    up = add(np.maximum(logs, 0.0))
    down = add(np.minimum(logs, 0.0))
    lost = np.where(down < limits.minexp, np.exp2(np.minimum(limits.minexp + up, 2000.0)), 0.0)
    lost = lost + ALLOWED * float(limits.smallest_subnormal)
    most = multiply(size) * (1 + ALLOWED * terms * float(limits.eps)) + lost
    value = multiply(middle)
    swing = np.abs(value) * error + lost
    low, high = np.where(spans, -most, value - swing), np.where(spans, most, value + swing)
    over = (up >= limits.maxexp - 1) | found(~np.isfinite(size) & ~x.empty)
    over = over | np.isnan(low) | np.isnan(high)
    nan, empty, wild = map(found, (x.nan, x.empty, x.wild))
    return settled_sum(low, high, over, nan, empty, wild, element)


def matrix_product(
    a: Floats, b: Floats, element: ElementType, precision: Precision,
    transpose_a: bool, transpose_b: bool,
) -> Floats:  # fmt: skip
    """A product of matrices, from the middles and radii of its operands."""
    if element.name != "f32":
        precision = Precision()
    left = [np.swapaxes(part, -1, -2) if transpose_a else part for part in _split(a, precision)]
    right = [np.swapaxes(part, -1, -2) if transpose_b else part for part in _split(b, precision)]
    terms = left[0].shape[-1]
    middle = left[0] @ right[0]
    size = (np.abs(left[0]) + left[1]) @ (np.abs(right[0]) + right[1])
    radius = np.abs(left[0]) @ right[1] + left[1] @ (np.abs(right[0]) + right[1])
    low, high, over = summed(middle - radius, middle + radius, size, depth(terms) + 1, element)
    vague, empty, wild = (
        (np.matmul(one, np.ones_like(other)) + np.matmul(np.ones_like(one), other)) > 0
        for one, other in zip(left[2:], right[2:], strict=True)
    )
    return settled_sum(low, high, over | vague, vague, empty, wild, element)


def _split(x: Floats, precision: Precision) -> list[Array]:
    """The middle and radius of each element, 0 where they are not finite; and whether they are not,
    whether it is NaN for sure, whether it is wild.
    """
    middle, radius = intervals.middle_and_radius(x)
    over = ~np.isfinite(middle) | ~np.isfinite(radius) | (x.magnitude > precision.most) | x.nan
    middle, radius = np.where(over, 0.0, middle), np.where(over, 0.0, radius)
    rounding = ALLOWED * (precision.relative * np.abs(middle) + precision.least)
    return [middle, radius + rounding, over * 1.0, x.empty * 1.0, x.wild * 1.0]
