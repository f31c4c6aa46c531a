"""Values that rules and foldings are tried on: special ones, extremes, and random ones of all
magnitudes, ties, duplicates and terms that cancel.

In: types and a random generator. Out: arrays, one for each type.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import TensorType

from mgn.dialects.types import ElementType, element_of

Array = np.ndarray
Generator = np.random.Generator
Draw = Callable[[Generator, Sequence[TensorType]], list[Array]]
"""Arrays for types, all of them drawn together: what matters is how they lie to each other."""

SMALL_SPECIALS = (0.0, -0.0, 1.0, -1.0, 0.5, 1.5, -2.5, np.inf, -np.inf, np.nan)
TIES = (0.5, 1.0, 1.5, 2.0, 2.5)
"""Whole numbers and halves, at which roundings differ, and which make elements equal."""
TIED = 0.25
"""The share of them among plain values."""
LEVELS = (-1.02, -0.97, -0.5, -0.25, -0.1, 0.0, 0.0, 0.1, 0.25, 0.5, 0.97, 1.0)
"""Magnitudes, as shares of the largest exponent: from the subnormal to the largest."""
ALL_BESIDE = 0.25
"""How often all elements lie beside one number of the program."""


@cache
def special_values(element: ElementType) -> Array:
    """The values at which an element type's arithmetic differs from that of the reals: zeros of
    both signs, infinities, nan, both ends of the normal and of the subnormal numbers; of integers
    both ends and what lies beside them.
    """
    dtype = element.dtype
    assert dtype is not None
    if element.name == "bool":
        return np.array([False, True])
    if element.is_integer:
        limits = np.iinfo(dtype)
        ends = [limits.min, limits.min + 1, limits.max - 1, limits.max, limits.max // 2 + 1]
        return np.array([*ends, 0, 1, 2, 3, 7, *([] if limits.min == 0 else [-1, -2, -7])], dtype)
    info = ml_dtypes.finfo(dtype)
    ends = [float(info.max), float(info.smallest_normal), float(info.smallest_subnormal)]
    signed = [sign * value for value in (*ends, ends[1] * 0.75, ends[0] / 2) for sign in (1, -1)]
    return np.array([*SMALL_SPECIALS, *signed], np.float64).astype(dtype)


def all_values(element: ElementType) -> Array:
    """Every value of an element type of at most 16 bits: every pattern of bits."""
    assert element.dtype is not None
    if element.name == "bool":
        return np.array([False, True])
    return np.arange(2**element.bits).astype(f"u{element.bits // 8}").view(element.dtype)


def random_integers(rng: Generator, element: ElementType, shape: Sequence[int]) -> Array:
    """Integers or bools: small ones, any of the type's, and both ends."""
    dtype = element.dtype
    assert dtype is not None
    if element.name == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    limits = np.iinfo(dtype)
    small = rng.integers(0 if limits.min == 0 else -9, 9, shape).astype(dtype)
    any_one = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    ends = rng.choice(special_values(element), shape)
    share = rng.choice([0.0, 0.3, 0.8])
    which = rng.random(shape)
    return np.where(which >= share, small, np.where(which < share / 2, any_one, ends))


def plain_floats(rng: Generator, shape: Sequence[int]) -> Array:
    """Floats of order 1 in f64, neither 0 nor close to it, some of them whole or halves."""
    signs = rng.choice([-1.0, 1.0], shape)
    values = np.where(
        rng.random(shape) < TIED, rng.choice(TIES, shape), rng.uniform(0.2, 1.5, shape)
    )
    return values * signs


def draw_plain(rng: Generator, types: Sequence[TensorType]) -> list[Array]:
    """Floats of order 1 in f64, integers of any size."""
    return [
        plain_floats(rng, type.get_shape())
        if element_of(type).is_float
        else random_integers(rng, element_of(type), type.get_shape())
        for type in types
    ]


def draw_bits(rng: Generator, types: Sequence[TensorType]) -> list[Array]:
    """Values of the declared types: plain and special ones, and any pattern of bits; some arrays
    repeat another one, with its sign or without.
    """
    share = rng.choice([0.0, 0.1, 0.5, 0.9])
    made: list[Array] = []
    for type in types:
        again = [one for one, other in zip(made, types, strict=False) if other == type]
        if again and rng.random() < 0.2:
            copied = again[int(rng.integers(len(again)))]
            made.append(-copied if copied.dtype.kind != "b" and rng.random() < 0.5 else copied)
        elif rng.random() < 0.3:
            every = rng.permutation(special_values(element_of(type)))
            made.append(np.resize(every, type.get_shape()))
        else:
            made.append(_any_bits(rng, element_of(type), type.get_shape(), share))
    return _with_infinity(rng, types, made) if rng.random() < 0.3 else made


def _with_infinity(rng: Generator, types: Sequence[TensorType], made: list[Array]) -> list[Array]:
    """Single floats become infinite, and plain arrays beside them get an infinity or two, of either
    sign: a row with one of the other sign becomes nan where they meet.
    """
    changed: list[Array] = []
    for one, type in zip(made, types, strict=True):
        element = element_of(type)
        if element.is_float and one.size:
            infinite = rng.choice([np.inf, -np.inf], one.shape)
            some = rng.random(one.shape) < (0.9 if one.ndim == 0 else 0.2)
            one = np.where(some, infinite, plain_floats(rng, one.shape)).astype(element.dtype)
        changed.append(one)
    return changed


def _any_bits(rng: Generator, element: ElementType, shape: Sequence[int], share: float) -> Array:
    if not element.is_float:
        return random_integers(rng, element, shape)
    dtype = element.dtype
    assert dtype is not None
    count = math.prod(shape)
    patterns = np.frombuffer(rng.bytes(count * dtype.itemsize), dtype).reshape(shape)
    special = rng.choice(special_values(element).astype(np.float64), shape).astype(dtype)
    which = rng.random(shape)
    unusual = np.where(which < share / 2, special, patterns)
    with np.errstate(all="ignore"):
        plain = plain_floats(rng, shape).astype(dtype)
    return np.where(which < share, unusual, plain)


def draw_magnitudes(rng: Generator, types: Sequence[TensorType]) -> list[Array]:
    """Finite values of the declared types, of magnitudes from the subnormal to near the largest.

    Arrays have magnitudes of their own, or the same, or inverse ones. Elements of one array differ
    by a little or by all. Neighbours cancel but for some units in the last place, and so do arrays
    of one type. Some elements are 0, as where a mask is applied. Some arrays repeat another one.
    """
    first = float(rng.choice(LEVELS))
    made: list[Array] = []
    for type in types:
        element, shape = element_of(type), type.get_shape()
        if not element.is_float:
            made.append(random_integers(rng, element, shape))
            continue
        again = [one for one, other in zip(made, types, strict=False) if other == type]
        if again and rng.random() < 0.25:
            nearly = 1 + _ulps(rng, element, shape)
            made.append(_finite(again[int(rng.integers(len(again)))] * -nearly, element))
            continue
        level = float(rng.choice([first, -first, *rng.choice(LEVELS, 3)]))
        made.append(_finite(_of_magnitude(rng, element, shape, level), element))
    return _shifted(rng, types, made)


def _shifted(rng: Generator, types: Sequence[TensorType], made: list[Array]) -> list[Array]:
    """Some arrays are a single number of their type, with its sign or without, but for units in the
    last place: rows whose shift is all that they have.
    """
    singles = [one for one, type in zip(made, types, strict=True) if type.get_shape() == ()]
    shifted: list[Array] = []
    for one, type in zip(made, types, strict=True):
        element = element_of(type)
        beside = [single for single in singles if single.dtype == one.dtype]
        if element.is_float and one.ndim and beside and rng.random() < 0.3:
            single = float(beside[int(rng.integers(len(beside)))])
            nearly = rng.choice([-1.0, -1.0, 1.0]) * (1 + _ulps(rng, element, one.shape))
            one = _finite(single * nearly, element)
        shifted.append(one)
    return shifted


def _of_magnitude(
    rng: Generator, element: ElementType, shape: Sequence[int], level: float
) -> Array:
    """Floats in f64 about one magnitude."""
    largest = math.log2(float(ml_dtypes.finfo(element.dtype).max))
    least = math.log2(float(ml_dtypes.finfo(element.dtype).smallest_subnormal))
    spread = float(rng.choice([0.0, 1.0, 3.0, largest / 8, largest]))
    exponents = level * largest + rng.uniform(-spread, spread, shape)
    powers = np.exp2(np.clip(exponents, least, largest - 1) - 2)
    values = 4 * np.clip(plain_floats(rng, shape) * powers, -(2.0**1021), 2.0**1021)
    if shape and shape[-1] > 1 and rng.random() < 0.3:
        even = values[..., : shape[-1] // 2 * 2 : 2]
        values[..., 1::2] = -even * (1 + _ulps(rng, element, even.shape))
    if rng.random() < 0.2:
        values = np.where(rng.random(shape) < 0.4, 0.0, values)
    if rng.random() < 0.15:
        values = np.abs(values)
    if rng.random() < 0.15:
        near = rng.choice((*TIES, 3.0, 4.0), shape) * rng.choice([-1.0, 1.0], shape)
        values = near * (1 + _ulps(rng, element, shape))
    return values


def _ulps(rng: Generator, element: ElementType, shape: Sequence[int]) -> Array:
    """Relative distances of a few units in the last place, or of many."""
    unit = float(ml_dtypes.finfo(element.dtype).eps)
    return rng.integers(-4, 5, shape) * unit * float(rng.choice([1.0, 64.0]))


def _finite(values: Array, element: ElementType) -> Array:
    """Rounded to the element type, within its range."""
    largest = float(ml_dtypes.finfo(element.dtype).max)
    bounded = np.clip(values.astype(np.float64), -largest, largest)
    with np.errstate(all="ignore"):
        return bounded.astype(element.dtype)


def put_beside(rng: Generator, arrays: Sequence[Array], numbers: Array) -> list[Array]:
    """Arrays some of whose elements are numbers that a program names, or lie beside one: thresholds
    show nowhere else. Or all elements of all arrays lie beside one number, of one sign or of both:
    what a program adds to them, or takes off, leaves units in the last place alone.
    """
    if not numbers.size:
        return list(arrays)
    if rng.random() < ALL_BESIDE:
        largest = numbers[int(np.abs(numbers).argmax())]
        number = float(largest if rng.random() < 0.5 else rng.choice(numbers))
        return [_all_beside(rng, array, number) for array in arrays]
    return [
        _beside(rng, array, numbers) if array.dtype.kind != "b" and rng.random() < 0.4 else array
        for array in arrays
    ]


def _all_beside(rng: Generator, array: Array, number: float) -> Array:
    """An array of floats that differ from a number, or from its opposite, by some units in the last
    place. Other arrays as they are, and those of a type that does not hold the number.
    """
    if array.dtype.kind in "iub" or abs(number) > float(ml_dtypes.finfo(array.dtype).max) / 2:
        return array
    unit = float(ml_dtypes.finfo(array.dtype).eps) * float(rng.choice([1.0, 64.0]))
    near = rng.choice([-1.0, 1.0]) * number * (1 + unit * rng.integers(-2, 3, array.shape))
    return near.astype(array.dtype)


def _beside(rng: Generator, array: Array, numbers: Array) -> Array:
    shape, whole = array.shape, array.dtype.kind in "iu"
    limits = np.iinfo(array.dtype) if whole else ml_dtypes.finfo(array.dtype)
    unit = 0.0 if whole else float(ml_dtypes.finfo(array.dtype).eps)
    near = rng.choice(numbers, shape) * (1 + unit * rng.integers(-2, 3, shape))
    near = near * rng.choice([1.0, 1.0, 1.0, -1.0, 0.5, 2.0], shape)
    near = near + rng.choice([0.0, 0.0, 0.0, 1.0, -1.0], shape)
    least, most = (int(limits.min), int(limits.max)) if whole else (-limits.max, limits.max)
    held = (near >= float(least)) & (near < float(most)) & (rng.random(shape) < 0.3)
    with np.errstate(all="ignore"):
        return np.where(held, np.where(held, near, 0.0).astype(array.dtype), array)
