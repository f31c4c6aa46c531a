"""Rows that every whole choice satisfies and the optimum with fractions does not.

In: the rows of a linear program over columns between 0 and 1, and its optimum. Out: more rows.

All numbers in rows are whole. So is the sum of some rows, each taken so many nths, once its
coefficients are rounded: up, or down with a share of the least value where a column is near 1. Then
its least value may be rounded up too (R. Gomory, "Outline of an algorithm for integer solutions to
linear programs", 1958; V. Chvátal, "Edmonds polytopes and a hierarchy of combinatorial problems",
1973). Two kinds of sums are tried:

- *halves* of rows in which the columns with fractions cancel out, found by elimination modulo 2
  (A. Koster, A. Zymolka, M. Kutschka, "Algorithms to separate {0, ½}-Chvátal-Gomory cuts", 2009);
- what the solver's basis says of a column with a fraction.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mgn.passes.saturate.extraction.necessity import bits_of
from mgn.passes.saturate.extraction.program_rows import Rows
from mgn.passes.saturate.extraction.solver import NEARLY

NTHS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 16, 18, 20, 24, 30)
"""The parts of rows that are tried."""
VIOLATED = 1e-3
"""By how much fractions have to violate a row that is worth having."""
SLACK = 0.9
"""How far the rows of a sum of halves may be from their least values, with what does not cancel."""
FAR = 0.49
"""How far one row may be."""
LONG = 16
"""Rows whose halves are summed, at most."""
MOST = 200
"""Rows of each kind that are added at once: those that fractions violate most."""

NONE = 1e-14
"""What is nothing of a row, as HiGHS has it."""

TRIED = 100
"""Rows of the basis that are rounded: those of the columns that are most nearly half."""

_Parts = tuple[np.ndarray, np.ndarray]
"""Rows, and how many nths of each; negative ones are of its greatest value."""


@dataclass(frozen=True)
class _Rounded:
    """A row, and how far fractions are from it."""

    columns: np.ndarray
    values: np.ndarray
    least: float
    distance: float


@dataclass
class _Halves:
    """A sum of halves: a bit for each column that is left over, whether its least value is odd,
    how far its rows are from their least values, and the rows.
    """

    left: int
    odd: bool
    slack: float
    rows: frozenset[int]


def rounded_rows(rows: Rows, values: np.ndarray, solver: Any) -> Rows:
    """Rows that fractions violate, each rounded from a sum of others."""
    rounding = _Rounding(rows, values)
    found = Rows()
    known: set[tuple[int, ...]] = set()
    for some in (rounding.of_basis(solver), rounding.of_halves()):
        best = sorted(some, key=lambda row: -row.distance)[:MOST]
        for row in best:
            columns = row.columns.tolist()
            key = tuple(columns)
            if key not in known:
                known.add(key)
                found.add(dict(zip(columns, row.values.tolist(), strict=True)), row.least)
    return found


class _Rounding:
    """Rows and an optimum, and what is rounded from them."""

    def __init__(self, rows: Rows, values: np.ndarray) -> None:
        self.columns, self.entries, self.starts, self.lower, self.upper = rows.arrays()
        self.lengths = np.diff(self.starts)
        self.values = values
        self.is_near = values > 0.5
        self.has_fraction = (values > NEARLY) & (values < 1.0 - NEARLY)
        sums = np.add.reduceat(self.entries * values[self.columns], self.starts[:-1])
        self.above, self.below = sums - self.lower, self.upper - sums
        self.is_equal = self.lower == self.upper

    def of_basis(self, solver: Any) -> Iterator[_Rounded]:
        """The rows of the solver's basis for columns with fractions, rounded."""
        basic = np.asarray(solver.getBasicVariables()[1])
        known: set[bytes] = set()
        places = np.flatnonzero((basic >= 0) & self.has_fraction[np.maximum(basic, 0)])
        halves = np.abs(self.values[basic[places]] - 0.5)
        for place in places[np.argsort(halves, kind="stable")[:TRIED]].tolist():
            row = np.asarray(solver.getBasisInverseRow(place)[1])
            numbers = np.flatnonzero(np.abs(row) > NONE)
            weights = row[numbers]
            nth = _nth_of(weights)
            if nth is None:
                continue
            parts = np.rint(weights * nth).astype(np.int64)
            for counts in (parts, -parts):
                sided = self._sided(numbers, counts, nth)
                key = b"".join(item.tobytes() for item in sided)
                if key not in known:
                    known.add(key)
                    yield from self._rounded(sided, nth)

    def _sided(self, numbers: np.ndarray, counts: np.ndarray, nth: int) -> _Parts:
        """Less than a whole of each row, of the bound that it is near to."""
        counts = counts % nth
        is_upper = ~self.is_equal[numbers] & (self.below[numbers] < self.above[numbers])
        counts = np.where(is_upper, -(-counts % nth), counts)
        taken = counts != 0
        return numbers[taken], counts[taken]

    def _rounded(self, parts: _Parts, nth: int) -> Iterator[_Rounded]:
        """The sum of such parts of rows, if fractions violate it once it is rounded."""
        rows, counts = parts
        lengths = self.lengths[rows]
        ends = np.cumsum(lengths)
        if not len(rows):
            return
        offsets = np.repeat(self.starts[rows] - ends + lengths, lengths)
        entries = offsets + np.arange(ends[-1])
        weights = self.entries[entries] * np.repeat(counts, lengths)
        sums = np.bincount(self.columns[entries], weights).astype(np.int64)
        columns = np.flatnonzero(sums)
        sums, is_near = sums[columns], self.is_near[columns]
        rest = sums % nth
        least = int(np.sum(np.where(counts > 0, self.lower[rows], self.upper[rows]) * counts))
        least -= int(np.sum(rest[is_near]))
        if least % nth == 0:
            return
        least = -(-least // nth)
        sums = np.where(is_near, sums - rest, sums + -rest % nth) // nth
        columns, sums = columns[sums != 0], sums[sums != 0]
        missing = least - float(np.dot(sums, self.values[columns]))
        if missing > VIOLATED:
            distance = missing / float(np.sqrt(np.dot(sums, sums)))
            yield _Rounded(columns, sums.astype(np.float64), float(least), distance)

    def of_halves(self) -> Iterator[_Rounded]:
        """Sums of halves of rows, rounded."""
        weights = np.minimum(self.values, 1.0 - self.values)
        columns = np.flatnonzero(self.has_fraction)
        columns = columns[np.argsort(-weights[columns], kind="stable")]
        elimination = _Elimination(self._halves(columns), weights[columns].tolist())
        found = sorted(elimination.violated().items(), key=lambda item: (item[1], len(item[0])))
        for rows, _ in found[:MOST]:
            signed = np.array(sorted(rows))
            numbers, counts = np.abs(signed) - 1, np.sign(signed)
            yield from self._rounded((numbers, counts), 2)

    def _halves(self, columns: np.ndarray) -> list[_Halves]:
        """Rows with fractions, near the one or the other bound; of equal ones the nearest."""
        bit = {column: 1 << place for place, column in enumerate(columns.tolist())}
        is_odd = self.entries % 2 != 0
        left_of = [0] * len(self.lengths)
        entries = np.flatnonzero(is_odd & self.has_fraction[self.columns])
        rows = np.searchsorted(self.starts, entries, side="right") - 1
        for row, column in zip(rows.tolist(), self.columns[entries].tolist(), strict=True):
            left_of[row] += bit[column]
        has = np.add.reduceat(self.has_fraction[self.columns].astype(np.int64), self.starts[:-1])
        shifted = np.add.reduceat((is_odd & self.is_near[self.columns]), self.starts[:-1])
        best: dict[tuple[int, bool], _Halves] = {}
        for row in np.flatnonzero((has > 0) & (np.minimum(self.above, self.below) <= FAR)).tolist():
            left = left_of[row]
            sides = [(row + 1, self.above[row], self.lower[row])]
            if not self.is_equal[row]:
                sides.append((-row - 1, self.below[row], self.upper[row]))
            for sign, slack, bound in sides:
                if slack <= FAR:
                    odd = (int(bound) + int(shifted[row])) % 2 == 1
                    one = _Halves(left, odd, max(0.0, float(slack)), frozenset((sign,)))
                    other = best.get((left, odd))
                    if other is None or one.slack < other.slack:
                        best[left, odd] = one
        return list(best.values())


class _Elimination:
    """Sums of halves from which one column after the other is eliminated."""

    def __init__(self, sums: list[_Halves], weights: list[float]) -> None:
        self.sums, self.weights = sums, weights
        self.having: list[set[int]] = [set() for _ in weights]
        for number, one in enumerate(sums):
            for place in bits_of(one.left):
                self.having[place].add(number)
        self.found: dict[frozenset[int], float] = {}

    def violated(self) -> dict[frozenset[int], float]:
        """The rows whose halves fractions violate once their sum is rounded, and how narrowly."""
        for one in self.sums:
            self._note(one)
        for column in range(len(self.weights)):
            having = sorted(self.having[column])
            if having:
                pivot = min(having, key=self._size)
                self._remove(pivot)
                having.remove(pivot)
                self._add(having, self.sums[pivot])
        return self.found

    def _size(self, number: int) -> tuple[float, int, int, int]:
        one = self.sums[number]
        return one.slack, len(one.rows), one.left.bit_count(), number

    def _remove(self, number: int) -> None:
        for place in bits_of(self.sums[number].left):
            self.having[place].discard(number)

    def _add(self, numbers: Iterable[int], pivot: _Halves) -> None:
        """Adds another sum to some; one of too many rows goes, or too far from its least value."""
        added: set[int] = set()
        for number in numbers:
            one = self.sums[number]
            slack = one.slack + pivot.slack
            rows = one.rows ^ pivot.rows if slack <= SLACK else one.rows
            if slack > SLACK or len(rows) > LONG:
                self._remove(number)
                continue
            added.add(number)
            total = _Halves(one.left ^ pivot.left, one.odd != pivot.odd, slack, rows)
            self.sums[number] = total
            self._note(total)
        for place in bits_of(pivot.left):
            self.having[place] ^= added

    def _note(self, one: _Halves) -> None:
        if one.odd:
            over, left, weights = one.slack, one.left, self.weights
            while left:
                lowest = left & -left
                over += weights[lowest.bit_length() - 1]
                if over >= SLACK:
                    return
                left ^= lowest
            self.found.setdefault(one.rows, over)


def _nth_of(weights: Iterable[float] | np.ndarray) -> int | None:
    """The least nth of which all weights are whole multiples; None where there is none."""
    parts = np.multiply.outer(NTHS, np.asarray(weights))
    whole = np.all(np.abs(parts - np.rint(parts)) < NEARLY, axis=1)
    return NTHS[int(np.argmax(whole))] if whole.any() else None
