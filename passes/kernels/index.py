"""Index algebra: affine index expressions with known ranges, which reshapes and slices fold into.

In: loop counters and ids as `Counter` atoms with a range. Out: an `Index`, a sum of atoms with
coefficients, simplified as it is built: `(16 i + lane) // 64` becomes `i // 4` because a lane stays
below 16, and `64 (x // 64) + x % 64` becomes `x`. `LANE` stands for the lanes of a vector.
"""

from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import Any

Terms = tuple[tuple["Atom", int], ...]


@dataclass(frozen=True, eq=False)
class Counter:
    """A run-time number from `low` to `high`, both included. `value` is its scalar SSA value;
    a counter of `lanes` holds a vector of i32 or i64 instead, one number for each lane.
    """

    value: Any
    low: int
    high: int
    lanes: int = 1

    @property
    def varies(self) -> bool:
        return self.lanes > 1


@dataclass(frozen=True)
class Lane:
    """The number of a lane, in a vector of `lanes`."""

    lanes: int

    @property
    def low(self) -> int:
        return 0

    @property
    def high(self) -> int:
        return self.lanes - 1

    @property
    def varies(self) -> bool:
        return True


@dataclass(frozen=True)
class Quotient:
    """`inner // divisor`, of an inner expression that is not negative."""

    inner: "Index"
    divisor: int

    @property
    def low(self) -> int:
        return self.inner.low // self.divisor

    @property
    def high(self) -> int:
        return self.inner.high // self.divisor

    @cached_property
    def varies(self) -> bool:
        return self.inner.varies

    @cached_property
    def _hash(self) -> int:
        return hash((self.inner, self.divisor, "quotient"))

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True)
class Remainder:
    """`inner % divisor`, of an inner expression that is not negative."""

    inner: "Index"
    divisor: int

    @property
    def low(self) -> int:
        return 0

    @property
    def high(self) -> int:
        return min(self.divisor - 1, self.inner.high)

    @cached_property
    def varies(self) -> bool:
        return self.inner.varies

    @cached_property
    def _hash(self) -> int:
        return hash((self.inner, self.divisor, "remainder"))

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True)
class Clamped:
    """`min(max(inner, low), high)`."""

    inner: "Index"
    low: int
    high: int

    @cached_property
    def varies(self) -> bool:
        return self.inner.varies


Atom = Counter | Lane | Quotient | Remainder | Clamped
OF_AN_INDEX = (Quotient, Remainder, Clamped)


@dataclass(frozen=True, eq=False)
class Index:
    """`constant + sum(coefficient * atom)`; `low` and `high` bound it."""

    terms: Terms
    constant: int
    low: int
    high: int

    @cached_property
    def _key(self) -> tuple[frozenset[tuple["Atom", int]], int]:
        return frozenset(self.terms), self.constant

    @cached_property
    def _hash(self) -> int:
        return hash(self._key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Index) and self._hash == other._hash and self._key == other._key

    @property
    def is_constant(self) -> bool:
        return not self.terms

    @cached_property
    def varies(self) -> bool:
        """Whether lanes see different numbers."""
        return any(atom.varies for atom, _ in self.terms)

    @cached_property
    def lane_stride(self) -> int | None:
        """What one lane more adds; None where that is not one number."""
        stride = 0
        for atom, coefficient in self.terms:
            if isinstance(atom, Lane):
                stride = coefficient
            elif atom.varies:
                return None
        return stride

    @cached_property
    def reach(self) -> tuple[int, int]:
        """A bound of the index, of every sum of some of its terms, and of what its atoms are made
        of.
        """
        low = high = 0
        reaches = [atom.inner.reach for atom, _ in self.terms if isinstance(atom, OF_AN_INDEX)]
        for atom, coefficient in self.terms:
            ends = (coefficient * atom.low, coefficient * atom.high)
            low, high = low + min(0, *ends), high + max(0, *ends)
            reaches.append((atom.low, atom.high))
        low, high = low + min(0, self.constant), high + max(0, self.constant)
        lows, highs = zip((low, high), *reaches, strict=True)
        return min(lows), max(highs)

    @cached_property
    def multiple(self) -> int:
        """A number that divides the index: the greatest that the terms show; 0 divides 0."""
        return gcd(self.constant, *(coefficient for _, coefficient in self.terms))

    def at_lane(self, lane: int) -> "Index":
        """The index that one lane sees; only where `lane_stride` is a number."""
        terms = tuple(term for term in self.terms if not isinstance(term[0], Lane))
        stride = self.lane_stride
        assert stride is not None
        return _make(dict(terms), self.constant + stride * lane)

    def __add__(self, other: "Index | int") -> "Index":
        if isinstance(other, int):
            if other == 0:
                return self
            return Index(self.terms, self.constant + other, self.low + other, self.high + other)
        terms = dict(self.terms)
        for atom, coefficient in other.terms:
            terms[atom] = terms.get(atom, 0) + coefficient
        return _make(terms, self.constant + other.constant)

    def __mul__(self, factor: int) -> "Index":
        if factor == 1:
            return self
        return _make({a: c * factor for a, c in self.terms}, self.constant * factor)

    def __sub__(self, other: "Index | int") -> "Index":
        return self + (-other if isinstance(other, int) else other * -1)

    def __floordiv__(self, divisor: int) -> "Index":
        if divisor == 1:
            return self
        if self.low < 0:
            lift = -(self.low // divisor)
            return (self + lift * divisor) // divisor - lift
        quotient, rest = self._split(divisor)
        if rest.high < divisor:
            return quotient
        step = _common_step(rest, divisor)
        if step > 1:
            return quotient + _divided(rest, step) // (divisor // step)
        return quotient + of(Quotient(rest, divisor))

    def __mod__(self, divisor: int) -> "Index":
        if divisor == 1:
            return ZERO
        if self.low < 0:
            return (self - (self.low // divisor) * divisor) % divisor
        _, rest = self._split(divisor)
        if rest.high < divisor:
            return rest
        step = _common_step(rest, divisor)
        if step > 1:
            whole = _divided(rest, step)
            return whole % (divisor // step) * step + (rest - whole * step)
        return of(Remainder(rest, divisor))

    def clamp(self, low: int, high: int) -> "Index":
        """The nearest number from `low` to `high`."""
        if self.low >= low and self.high <= high:
            return self
        if low >= high:
            return constant(low)
        return of(Clamped(self, low, high))

    def _split(self, divisor: int) -> tuple["Index", "Index"]:
        """Quotient and rest where the rest is known not to be negative."""
        whole = {a: c // divisor for a, c in self.terms if c % divisor == 0}
        rest = _make({a: c for a, c in self.terms if c % divisor}, self.constant)
        shift = rest.low // divisor
        return _make(whole, shift), rest - shift * divisor

    @cached_property
    def divided_once(self) -> "Index":
        """The same with one division for each that is made of several, as of a place in an image by
        its columns and then by its rows: lanes of one image may then see the same number.
        """
        total = constant(self.constant)
        for atom, coefficient in self.terms:
            part = of(atom)
            if isinstance(atom, Quotient | Remainder):
                inner, divisor = atom.inner.divided_once, atom.divisor
                part = inner // divisor if isinstance(atom, Quotient) else inner % divisor
                if isinstance(atom, Quotient) and (whole := inner.as_quotient) is not None:
                    part = whole.inner // (whole.divisor * divisor)
            total = total + part * coefficient
        return total

    @property
    def as_quotient(self) -> Quotient | None:
        """The quotient that the index is, if it is nothing else."""
        if self.constant or len(self.terms) != 1:
            return None
        ((atom, coefficient),) = self.terms
        return atom if coefficient == 1 and isinstance(atom, Quotient) else None

    def below(self, bound: int) -> "bool | tuple[Index, int]":
        """Whether the index is below a bound: known, or as a simpler index and its bound."""
        if self.high < bound:
            return True
        if self.low >= bound:
            return False
        shifted = self if self.low >= 0 else self - self.low
        limit = bound if self.low >= 0 else bound - self.low
        step = _common_step(shifted, limit)
        if step > 1:
            return _divided(shifted, step), limit // step
        return shifted, limit


def _make(terms: dict[Atom, int], number: int) -> Index:
    kept = {atom: coefficient for atom, coefficient in terms.items() if coefficient}
    for atom in [atom for atom in kept if isinstance(atom, Quotient)]:
        rest = Remainder(atom.inner, atom.divisor)
        coefficient = kept.get(rest, 0)
        if coefficient and kept.get(atom) == coefficient * atom.divisor:
            del kept[atom], kept[rest]
            for inner, factor in atom.inner.terms:
                kept[inner] = kept.get(inner, 0) + factor * coefficient
            return _make(kept, number + atom.inner.constant * coefficient)
    low = high = number
    for atom, coefficient in kept.items():
        if coefficient > 0:
            low, high = low + coefficient * atom.low, high + coefficient * atom.high
        else:
            low, high = low + coefficient * atom.high, high + coefficient * atom.low
    return Index(tuple(kept.items()), number, low, high)


def _common_step(index: Index, divisor: int) -> int:
    """The largest divisor of `divisor` by which the index moves, but for a rest below one step."""
    steps = {gcd(coefficient, divisor) for _, coefficient in index.terms}
    for step in sorted(steps, reverse=True):
        if step > 1 and _rest(index, step) is not None:
            return step
    return 1


def _rest(index: Index, step: int) -> Index | None:
    """The part of an index below one step; None where it may reach a step."""
    rest = _make({a: c for a, c in index.terms if c % step}, index.constant % step)
    return rest if rest.low >= 0 and rest.high < step else None


def _divided(index: Index, step: int) -> Index:
    terms = {a: c // step for a, c in index.terms if c % step == 0}
    return _make(terms, index.constant // step)


def constant(number: int) -> Index:
    """A number known when compiling."""
    return Index((), number, number, number)


ZERO = constant(0)


def of(atom: Atom) -> Index:
    """An atom as an index."""
    if atom.low == atom.high:
        return constant(atom.low)
    return Index(((atom, 1),), 0, atom.low, atom.high)


def lanes(count: int) -> Index:
    """The lane's number in a vector; zero in a scalar."""
    return ZERO if count == 1 else of(Lane(count))


def linear(indices: tuple[Index, ...], shape: tuple[int, ...]) -> Index:
    """The row-major number of an element."""
    result, stride = ZERO, 1
    for index, size in zip(reversed(indices), reversed(shape), strict=True):
        if size != 1:
            result = result + index * stride
        stride *= size
    return result


def delinearised(index: Index, shape: tuple[int, ...]) -> tuple[Index, ...]:
    """The element of a row-major number: its index along each axis."""
    result: list[Index] = []
    for position, size in enumerate(reversed(shape)):
        if size == 1:
            result.append(ZERO)
        elif position == len(shape) - 1:
            result.append(index)
        else:
            result.append(index % size)
            index = index // size
    return tuple(reversed(result))
