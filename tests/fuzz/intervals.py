"""Sets of values that a computation may give: intervals of floats, and integers that are known or
not.

In: NumPy arrays. Out: `Floats` and `Discrete`, elementwise operations on them, and `rounded`, which
widens an interval by what arithmetic in an element type may err.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from mgn.dialects.types import ElementType

Array = np.ndarray

ALLOWED = 8.0
"""How many times the written program's own error bound a device may err."""


@dataclass
class Floats:
    """Each element lies between `lo` and `hi`, both included, or is NaN where `nan` allows it. It
    is NaN and nothing else where `lo` is above `hi`.

    `wild` are those that arithmetic made, on the way, infinite or NaN, or might have.
    """

    lo: Array
    hi: Array
    nan: Array
    wild: Array

    @property
    def empty(self) -> Array:
        """Where there is no number: NaN for sure."""
        return self.lo > self.hi

    @property
    def parts(self) -> tuple[Array, Array, Array, Array]:
        """The arrays, for what acts on each alike."""
        return self.lo, self.hi, self.nan, self.wild

    @property
    def shape(self) -> tuple[int, ...]:
        return self.lo.shape

    @property
    def magnitude(self) -> Array:
        """The largest absolute value."""
        return np.maximum(np.abs(self.lo), np.abs(self.hi))

    @property
    def known(self) -> Array:
        """Where there is one value only."""
        return ((self.lo == self.hi) & ~self.nan) | self.empty

    @property
    def unbounded(self) -> Array:
        """Where it may be infinite or NaN."""
        return self.nan | ~np.isfinite(self.lo) | ~np.isfinite(self.hi)


@dataclass
class Discrete:
    """Integers or bools, those that rounding errors may have changed marked `unsure`, and those
    that follow from wild floats `wild`.
    """

    value: Array
    unsure: Array
    wild: Array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape


Values = Floats | Discrete


def exactly(array: Array) -> Values:
    """An array that is known."""
    if array.dtype.kind in "iub":
        return settled(array)
    wide = array.astype(np.float64)
    nan = np.isnan(wide)
    lo, hi = np.where(nan, np.inf, wide), np.where(nan, -np.inf, wide)
    return Floats(lo, hi, nan, np.zeros(array.shape, bool))


def settled(array: Array) -> Discrete:
    """Integers that are known."""
    return Discrete(array, np.zeros(array.shape, bool), np.zeros(array.shape, bool))


def anything(shape: tuple[int, ...]) -> Floats:
    """Floats of which nothing is known."""
    yes = np.ones(shape, bool)
    return Floats(np.full(shape, -np.inf), np.full(shape, np.inf), yes, yes)


def within(values: Floats, nan: Array, lo: Array, hi: Array, *others: Floats) -> Floats:
    """The outcome of arithmetic on some floats: NaN where one of them is. A bound that is NaN says
    nothing.
    """
    operands = (values, *others)
    shape = np.broadcast_shapes(lo.shape, *(item.shape for item in operands))
    empty = np.zeros(shape, bool)
    wild = np.zeros(shape, bool)
    for item in operands:
        empty, nan, wild = empty | item.empty, nan | item.nan, wild | item.wild
    nan = np.broadcast_to(nan | empty, shape)
    lo, hi = np.where(np.isnan(lo), -np.inf, lo), np.where(np.isnan(hi), np.inf, hi)
    lo, hi = np.where(empty, np.inf, lo), np.where(empty, -np.inf, hi)
    result = Floats(lo, hi, nan, wild)
    result.wild = wild | result.unbounded
    return result


def spanned(corners: Sequence[Array], values: Floats, *others: Floats) -> Floats:
    """From what an operation gives at the corners of its operands. Where that is NaN at all of
    them, though the operands are not points, nothing is known.
    """
    stacked = np.stack(np.broadcast_arrays(*corners))
    missing = np.isnan(stacked)
    points = values.known
    for item in others:
        points = points & item.known
    vague = missing.all(axis=0) & ~points
    lo = np.where(vague, -np.inf, np.where(missing, np.inf, stacked).min(axis=0))
    hi = np.where(vague, np.inf, np.where(missing, -np.inf, stacked).max(axis=0))
    return within(values, missing.any(axis=0), lo, hi, *others)


def rounded(
    values: Floats, element: ElementType, ulps: float = 0.0, flushes: bool = False
) -> Floats:
    """The same after arithmetic in an element type that errs by half an ulp and `ulps` more."""
    assert element.dtype is not None
    limits = ml_dtypes.finfo(element.dtype)
    relative = ALLOWED * (0.5 + ulps) * float(limits.eps)
    least = float(limits.smallest_normal if flushes else limits.smallest_subnormal)
    steps = (relative * np.abs(end) + ALLOWED * (0.5 + ulps) * least for end in values.parts[:2])
    low, high = (np.where(np.isfinite(step), step, 0.0) for step in steps)
    return held(Floats(values.lo - low, values.hi + high, values.nan, values.wild), element)


def held(values: Floats, element: ElementType) -> Floats:
    """The same, infinite where it leaves the range of an element type."""
    most = float(ml_dtypes.finfo(element.dtype).max)
    empty, lo, hi = values.empty, values.lo, values.hi
    lo = np.where(lo < -most, -np.inf, np.where((lo > most) & ~empty, np.inf, lo))
    hi = np.where(hi > most, np.inf, np.where((hi < -most) & ~empty, -np.inf, hi))
    result = Floats(lo, hi, values.nan, values.wild)
    result.wild = values.wild | result.unbounded
    return result


# ---- functions of one operand


def negative(x: Floats) -> Floats:
    return Floats(-x.hi, -x.lo, x.nan, x.wild)


def absolute(x: Floats) -> Floats:
    spans = (x.lo < 0) & (x.hi > 0)
    ends = np.abs(x.lo), np.abs(x.hi)
    lo = np.where(spans, 0.0, np.minimum(*ends))
    hi = np.maximum(*ends)
    return Floats(
        np.where(x.empty, np.inf, lo), np.where(x.empty, -np.inf, hi), x.nan, x.wild
    )  # fmt: skip


def monotone(
    function: Callable[[Array], Array], least: float = -np.inf
) -> Callable[[Floats], Floats]:
    """An operation from a function that only rises or only falls, and is NaN below `least`."""

    def apply(x: Floats) -> Floats:
        below = (x.lo < least) & ~x.empty
        lo = np.where(below & (x.hi >= least), least, x.lo)
        result = spanned([function(lo), function(x.hi)], x)
        result.nan = result.nan | below
        result.wild = result.wild | result.nan
        return result

    return apply


def middle_and_radius(x: Floats) -> tuple[Array, Array]:
    """The middles of intervals, and how far the ends are; half of the least number is 0."""
    middle = np.where(x.lo == x.hi, x.lo, x.lo / 2 + x.hi / 2)
    return middle, np.maximum(x.hi - middle, middle - x.lo)


def wave(function: Callable[[Array], Array]) -> Callable[[Floats], Floats]:
    """An operation from a sine or cosine, whose slope is at most 1."""

    def apply(x: Floats) -> Floats:
        infinite = (np.isinf(x.lo) | np.isinf(x.hi)) & ~x.empty
        known = np.isinf(x.lo) & (x.lo == x.hi)
        middle, radius = middle_and_radius(x)
        lo = np.maximum(function(middle) - radius, -1.0)
        hi = np.minimum(function(middle) + radius, 1.0)
        lo = np.where(known, np.inf, np.where(infinite, -1.0, lo))
        hi = np.where(known, -np.inf, np.where(infinite, 1.0, hi))
        return within(x, infinite, lo, hi)

    return apply


def tangent(x: Floats) -> Floats:
    infinite = (np.isinf(x.lo) | np.isinf(x.hi)) & ~x.empty
    turn = [np.floor((end + np.pi / 2) / np.pi) for end in (x.lo, x.hi)]
    far = (x.hi - x.lo > 0) & (x.magnitude > 1e6)
    broken = (turn[0] != turn[1]) | far | infinite
    lo = np.where(broken, -np.inf, np.tan(x.lo))
    hi = np.where(broken, np.inf, np.tan(x.hi))
    return within(x, infinite, lo, hi)


def reciprocal(x: Floats) -> Floats:
    return quotient(exactly_one(x), x)


def exactly_one(x: Floats) -> Floats:
    """Ones of the shape of x."""
    ones = np.ones(x.shape)
    return Floats(ones, ones, np.zeros(x.shape, bool), np.zeros(x.shape, bool))


def inverse_root(x: Floats) -> Floats:
    """1 / sqrt(x): of a zero, whose sign is not known, an infinity of either sign."""
    result = monotone(lambda a: 1 / np.sqrt(a), 0.0)(x)
    zero = (x.lo <= 0) & (x.hi >= 0)
    result.lo = np.where(zero, -np.inf, result.lo)
    result.hi = np.where(zero, np.inf, result.hi)
    result.wild = result.wild | zero
    return result


# ---- functions of two operands


def _corners(function: Callable[[Array, Array], Array], a: Floats, b: Floats) -> Floats:
    ends = [function(one, other) for one in (a.lo, a.hi) for other in (b.lo, b.hi)]
    return spanned(ends, a, b)


def total(a: Floats, b: Floats) -> Floats:
    return _corners(np.add, a, b)


def difference(a: Floats, b: Floats) -> Floats:
    return _corners(np.add, a, negative(b))


def product(a: Floats, b: Floats) -> Floats:
    result = _corners(np.multiply, a, b)
    mixed = (_spans(a) & _infinite(b)) | (_spans(b) & _infinite(a))
    result.nan = result.nan | mixed
    result.wild = result.wild | mixed
    return result


def quotient(a: Floats, b: Floats) -> Floats:
    result = _corners(np.divide, a, b)
    zero = _spans(b)
    doubtful = (zero & _spans(a)) | (_infinite(a) & _infinite(b))
    empty = result.empty
    result.lo = np.where(zero & ~empty, -np.inf, result.lo)
    result.hi = np.where(zero & ~empty, np.inf, result.hi)
    result.nan = result.nan | doubtful
    result.wild = result.wild | result.unbounded
    return result


def _spans(x: Floats) -> Array:
    """Where it may be 0."""
    return (x.lo <= 0) & (x.hi >= 0)


def _infinite(x: Floats) -> Array:
    return (np.isinf(x.lo) | np.isinf(x.hi)) & ~x.empty


def power(a: Floats, b: Floats) -> Floats:
    """Rising or falling in each operand where the base is positive; of other bases, with a known
    exponent, one that is known. A zero has either sign, which decides that of its negative powers.
    """
    result = _corners(np.power, a, b)
    points = a.known & b.known & ~((a.lo == 0) & (b.lo < 0))
    doubtful = ((a.lo <= 0) & ~points) | _infinite(a) | _infinite(b) & ~points
    nan = a.nan | b.nan
    lo = np.where(doubtful, -np.inf, np.where(nan, np.minimum(result.lo, 1.0), result.lo))
    hi = np.where(doubtful, np.inf, np.where(nan, np.maximum(result.hi, 1.0), result.hi))
    result = Floats(lo, hi, nan | doubtful | result.nan, a.wild | b.wild)
    result.wild = result.wild | result.unbounded | nan
    return result


def remainder(a: Floats, b: Floats) -> Floats:
    points = a.known & b.known & ~a.nan & ~b.nan
    plain = np.mod(a.lo, b.lo)
    turns = [_turn(one, other) for one in (a.lo, a.hi) for other in (b.lo, b.hi)]
    same = np.all([turn == turns[0] for turn in turns], axis=0) & (np.abs(turns[0]) < 1e12)
    same &= ~_spans(b)
    parts = np.stack([one - turns[0] * other for one in (a.lo, a.hi) for other in (b.lo, b.hi)])
    step = np.finfo(np.float64).eps * (a.magnitude + b.magnitude)
    low, high = np.minimum(0.0, b.lo), np.maximum(0.0, b.hi)
    lo = np.where(points, plain, np.where(same, np.maximum(parts.min(0) - step, low), low))
    hi = np.where(points, plain, np.where(same, np.minimum(parts.max(0) + step, high), high))
    nan = _spans(b) | _infinite(a) | np.isnan(lo)
    surely = points & np.isnan(plain)
    lo, hi = np.where(surely, np.inf, lo), np.where(surely, -np.inf, hi)
    return within(a, nan, lo, hi, b)


def _turn(one: Array, other: Array) -> Array:
    """The quotient rounded down, of signs that differ too where it is too small for f64."""
    quotient = one / other
    return np.where((quotient == 0) & (one * np.sign(other) < 0), -1.0, np.floor(quotient))


def larger(a: Floats, b: Floats) -> Floats:
    return _extreme(np.maximum, a, b)


def smaller(a: Floats, b: Floats) -> Floats:
    return _extreme(np.minimum, a, b)


def _extreme(function: Callable[[Array, Array], Array], a: Floats, b: Floats) -> Floats:
    """An extremum takes one of its operands: no arithmetic."""
    empty = a.empty | b.empty
    lo = np.where(empty, np.inf, function(a.lo, b.lo))
    hi = np.where(empty, -np.inf, function(a.hi, b.hi))
    return Floats(lo, hi, a.nan | b.nan, a.wild | b.wild)


# ---- comparisons and choice


def compared(name: str, a: Floats, b: Floats) -> Discrete:
    """A comparison, unsure where the intervals do not decide it. NaN is unequal to all."""
    nan, surely_nan = a.nan | b.nan, a.empty | b.empty
    if name in ("ge", "gt"):
        a, b, name = b, a, {"ge": "le", "gt": "lt"}[name]
    if name in ("eq", "ne"):
        yes = (a.lo == a.hi) & (b.lo == b.hi) & (a.lo == b.lo)
        no = (a.hi < b.lo) | (b.hi < a.lo)
    else:
        below, above = (np.less, np.greater_equal) if name == "lt" else (np.less_equal, np.greater)
        yes, no = below(a.hi, b.lo), above(a.lo, b.hi)
    yes, no = yes & ~nan, no | surely_nan
    value, unsure = yes, ~(yes | no)
    value = ~value if name == "ne" else value
    return Discrete(value, unsure & ~surely_nan, np.broadcast_to(a.wild | b.wild, value.shape))


def chosen(condition: Discrete, a: Floats, b: Floats) -> Floats:
    """One of two; both where it is not known which."""
    hull = np.minimum(a.lo, b.lo), np.maximum(a.hi, b.hi), a.nan | b.nan, a.wild | b.wild
    parts = [
        np.where(condition.unsure, both, np.where(condition.value, one, other))
        for both, one, other in zip(hull, a.parts, b.parts, strict=True)
    ]
    result = Floats(*parts)
    result.wild = result.wild | condition.wild
    return result
