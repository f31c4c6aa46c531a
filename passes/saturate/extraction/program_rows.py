"""The rows of the linear program for one independent problem.

In: a `LocalProblem`. Out: its `Columns` and `Rows`. Variables: x = 1 where a candidate is chosen,
y = 1 where a class is taken from it: where several write a class, from the first of them in one
order of all candidates. A candidate with one result needs no y of its own. Beside what makes a
choice of kernels, the rows make fractions dear; all are true of every closed choice:

    forced k:          Σ y(k, ·) = 1
    c writes k:        y(k, c) ≤ x(c)
    k needs i always:  Σ y(k, ·) ≤ Σ y(i, ·)
    some writers of k  Σ y(k, those) ≤ Σ y(i, w) over writers w of i that do not write k before
      read i:            those in the order
    others read i      Σ y(k, all those) ≤ Σ y(i, w) + Σ y(j, v) over writers v of j that have
      through a j:       nothing to do with i and do not write k before those in the order

The third is for the necessities of `necessity`; the fourth says it once for all readers on the way
to k, where a row for each of them would let each read a fraction of i. The last does the same for
*detours*: whoever takes k takes i on one way or the other, or j from elsewhere; there is one for
each j, and one for all. Where many kernels read the same there are far more entries in the rows of
detours than in all others, and few of these rows matter: they wait until fractions violate them.
The order is by the last class that a candidate reads: then few kernels are before one that reads
what they write.
"""

from array import array
from collections.abc import Mapping, Set
from dataclasses import dataclass, field

import numpy as np

from mgn.passes.saturate.extraction.components import LocalProblem
from mgn.passes.saturate.extraction.necessity import bits_of, necessity_of

RowArrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Columns, values, starts, least and greatest values of rows."""


@dataclass
class Rows:
    """Rows of a sparse matrix, with the least and the greatest value of each."""

    starts: "array[int]" = field(default_factory=lambda: array("q", [0]))
    columns: "array[int]" = field(default_factory=lambda: array("q"))
    values: "array[float]" = field(default_factory=lambda: array("d"))
    lower: "array[float]" = field(default_factory=lambda: array("d"))
    upper: "array[float]" = field(default_factory=lambda: array("d"))
    _arrays: RowArrays | None = None

    def add(self, entries: Mapping[int, float], lower: float, upper: float = float("inf")) -> None:
        """Adds a row: the values of its columns, and what their sum may be."""
        self.columns.extend(entries)
        self.values.extend(entries.values())
        self.starts.append(len(self.columns))
        self.lower.append(lower)
        self.upper.append(upper)

    def compare(self, less: "array[int]", *more: "array[int]") -> None:
        """Adds a row: what is in some columns is no more than what is in others, none of which is
        given twice.
        """
        count = len(self.columns)
        for columns in more:
            self.columns += columns
        self.values += array("d", [1.0]) * (len(self.columns) - count)
        self.columns += less
        self.values += array("d", [-1.0]) * len(less)
        self.starts.append(len(self.columns))
        self.lower.append(0.0)
        self.upper.append(float("inf"))

    def extend(self, others: "Rows") -> None:
        """Adds all rows of others."""
        count = len(self.columns)
        self.starts.extend([count + start for start in others.starts[1:]])
        self.columns += others.columns
        self.values += others.values
        self.lower += others.lower
        self.upper += others.upper

    def violated(self, values: np.ndarray, by: float) -> list[dict[int, float]]:
        """The rows whose least value is missed by more than that."""
        if not self.lower:
            return []
        columns, entries, starts, lower, _ = self.arrays()
        sums = np.add.reduceat(entries * values[columns], starts[:-1])
        return [self.entries(int(row)) for row in np.flatnonzero(sums < lower - by)]

    def arrays(self) -> RowArrays:
        """The rows as arrays."""
        known = self._arrays
        if known is None or len(known[3]) != len(self.lower):
            parts = self.columns, self.values, self.starts, self.lower, self.upper
            columns, values, starts, lower, upper = map(np.array, parts)
            known = self._arrays = columns, values, starts, lower, upper
        return known

    def entries(self, row: int) -> dict[int, float]:
        """What a row has in its columns."""
        here = slice(self.starts[row], self.starts[row + 1])
        return dict(zip(self.columns[here], self.values[here], strict=True))


@dataclass(frozen=True)
class Columns:
    """The column of "this class is taken from this candidate", and how many columns there are."""

    taken: dict[tuple[int, int], int]
    count: int


def columns_of(problem: LocalProblem) -> Columns:
    """The variables of a problem: those of its candidates come first."""
    taken: dict[tuple[int, int], int] = {}
    columns = len(problem.prices)
    for number, results in enumerate(problem.results):
        if len(results) == 1:
            taken[results[0], number] = number
            continue
        for key in results:
            taken[key, number] = columns
            columns += 1
    return Columns(taken, columns)


def rows_of(problem: LocalProblem, columns: Columns) -> tuple[Rows, Rows]:
    """The rows of a problem over its columns, and those of detours, each of at least nothing."""
    writer = _RowWriter(problem, columns)
    return writer.rows(), writer.detours()


class _RowWriter:
    """What the rows of a problem are written from."""

    def __init__(self, problem: LocalProblem, columns: Columns) -> None:
        self.problem = problem
        self.taken = columns.taken
        self.needs = necessity_of(problem)
        self.writers = problem.writers()
        self.writes = [frozenset(items) for items in problem.results]
        self.near = [
            writes.union(items) for writes, items in zip(self.writes, problem.inputs, strict=True)
        ]
        self.free = frozenset(bits_of(self.needs.forced))
        last = [max(items, default=-1) for items in problem.inputs]
        order = sorted(range(len(last)), key=lambda number: (last[number], number))
        self.place = {number: place for place, number in enumerate(order)}
        self.around = {
            key: frozenset().union(*(self.near[number] for number in numbers)) - self.free
            for key, numbers in self.writers.items()
        }
        self.beside = {
            key: frozenset().union(*[self.writes[number] for number in numbers])
            for key, numbers in self.writers.items()
        }
        self.sources = {
            key: {number: self.taken[key, number] for number in numbers}
            for key, numbers in self.writers.items()
        }
        self.apart: dict[tuple[int, int | None], array[int]] = {}
        self.both: dict[tuple[int, int], list[tuple[int, int]]] = {}

    def rows(self) -> Rows:
        rows = Rows()
        for key, sources in self.sources.items():
            every = dict.fromkeys(sources.values(), 1.0)
            rows.add(every, float(self.needs.forced >> key & 1), 1.0)
        for number, results in enumerate(self.problem.results):
            if len(results) > 1:
                for key in results:
                    rows.compare(array("q", [self.taken[key, number]]), array("q", [number]))
        for key in self.writers:
            for item, reading in self._reading(key, self._direct(key)).items():
                if item not in self.free:
                    rows.compare(self._by(key, reading), self._from(key, item, reading))
        return rows

    def detours(self) -> Rows:
        rows = Rows()
        for key in self.writers:
            self._add_detours(key, self._direct(key), rows)
        return rows

    def _direct(self, key: int) -> dict[int, set[int]]:
        """For each class that writers of `key` read: those writers."""
        direct: dict[int, set[int]] = {}
        for number in self.writers[key]:
            for item in self.problem.inputs[number]:
                direct.setdefault(item, set()).add(number)
        return direct

    def _reading(self, key: int, direct: Mapping[int, set[int]]) -> dict[int, set[int]]:
        """For each class that writers of `key` need: those writers."""
        must = self.needs.must
        always = must[key] & ~(1 << key)
        nearest = always
        for item in bits_of(always):
            if not must[item] >> key & 1:
                nearest &= ~(must[item] & ~(1 << item))
        return {**direct, **{item: set(self.writers[key]) for item in bits_of(nearest)}}

    def _by(self, key: int, reading: Set[int]) -> "array[int]":
        """The columns of `key` from these writers of it."""
        sources = self.sources[key]
        return array("q", [sources[number] for number in reading])

    def _from(
        self, key: int, item: int, reading: Set[int], other: int | None = None
    ) -> "array[int]":
        """The columns of `item` by which these writers of `key` can take it: candidates that write
        `key` too do not stand before these writers in the order. Only those of candidates that have
        nothing to do with an `other` class, where one is given.
        """
        columns = self._apart(item, other)
        if key not in self.beside.get(item, ()):
            return columns
        both = self.both.get((key, item))
        if both is None:
            place, sources = self.place, self.sources[item]
            both = [(place[n], sources[n]) for n in self.writers[key] if n in sources]
            self.both[key, item] = both
        first = min([self.place[number] for number in reading])
        before = {column for place, column in both if place < first}
        if not before:
            return columns
        return array("q", [column for column in columns if column not in before])

    def _apart(self, item: int, other: int | None) -> "array[int]":
        """The columns of `item` from candidates that have nothing to do with another class."""
        found = self.apart.get((item, other))
        if found is None:
            near, sources = self.near, self.sources.get(item, {}).items()
            found = array("q", [column for n, column in sources if other not in near[n]])
            self.apart[item, other] = found
        return found

    def _add_detours(self, key: int, direct: Mapping[int, set[int]], rows: Rows) -> None:
        """Adds rows for what some writers of `key` read, and others through what they read."""
        through: dict[int, list[int]] = {}
        nobody = set[int]()
        for middle, reading in direct.items():
            for item in self.around.get(middle, ()):
                if item not in (key, middle) and not reading <= direct.get(item, nobody):
                    through.setdefault(item, []).append(middle)
        for item, middles in through.items():
            ways = [[middle] for middle in middles] if item in direct else []
            if len(middles) > 1:
                ways.append(middles)
            for way in ways:
                reading = direct.get(item, nobody).union(*[direct[middle] for middle in way])
                on_way = [self._from(key, middle, reading, item) for middle in way]
                rows.compare(self._by(key, reading), self._from(key, item, reading), *on_way)
