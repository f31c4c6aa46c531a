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

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

import numpy as np

from mgn.passes.saturate.extraction.components import LocalProblem
from mgn.passes.saturate.extraction.necessity import bits_of, necessity_of

RowArrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Columns, values, starts, least and greatest values of rows."""


_NUMBERS, _FLOATS = np.empty(0, np.int64), np.empty(0)


@dataclass
class Rows:
    """Rows of a sparse matrix, with the least and the greatest value of each."""

    starts: list[int] = field(default_factory=lambda: [0])
    columns: list[int] = field(default_factory=list[int])
    values: list[float] = field(default_factory=list[float])
    lower: list[float] = field(default_factory=list[float])
    upper: list[float] = field(default_factory=list[float])
    _arrays: RowArrays = field(
        default_factory=lambda: (_NUMBERS, _FLOATS, _NUMBERS, _FLOATS, _FLOATS)
    )

    def add(self, entries: Mapping[int, float], lower: float, upper: float = float("inf")) -> None:
        """Adds a row: the values of its columns, and what their sum may be."""
        self.columns.extend(entries)
        self.values.extend(entries.values())
        self.starts.append(len(self.columns))
        self.lower.append(lower)
        self.upper.append(upper)

    def extend(self, others: "Rows") -> None:
        """Adds all rows of others."""
        for row in range(len(others.lower)):
            self.add(others.entries(row), others.lower[row], others.upper[row])

    def violated(self, values: np.ndarray, by: float) -> list[dict[int, float]]:
        """The rows whose least value is missed by more than that."""
        if not self.lower:
            return []
        columns, entries, starts, lower, _ = self.arrays()
        sums = np.add.reduceat(entries * values[columns], starts[:-1])
        return [self.entries(int(row)) for row in np.flatnonzero(sums < lower - by)]

    def arrays(self) -> RowArrays:
        """The rows as arrays; those that were added since are written behind the others."""
        columns, values, starts, lower, upper = self._arrays
        if len(lower) != len(self.lower):
            self._arrays = (
                _longer(columns, self.columns),
                _longer(values, self.values),
                _longer(starts, self.starts),
                _longer(lower, self.lower),
                _longer(upper, self.upper),
            )
        return self._arrays

    def entries(self, row: int) -> dict[int, float]:
        """What a row has in its columns."""
        here = slice(self.starts[row], self.starts[row + 1])
        return dict(zip(self.columns[here], self.values[here], strict=True))


def _longer(known: np.ndarray, items: Sequence[float]) -> np.ndarray:
    """An array with the items behind those that it has."""
    return np.concatenate((known, np.array(items[len(known) :], known.dtype)))


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

    def rows(self) -> Rows:
        rows = Rows()
        for key, numbers in self.writers.items():
            every = dict.fromkeys((self.taken[key, number] for number in numbers), 1.0)
            rows.add(every, float(self.needs.forced >> key & 1), 1.0)
        for number, results in enumerate(self.problem.results):
            if len(results) > 1:
                for key in results:
                    rows.add({number: 1.0, self.taken[key, number]: -1.0}, 0.0)
        for key in self.writers:
            for item, reading in self._reading(key, self._direct(key)).items():
                if item not in self.free:
                    row = dict.fromkeys(self._sources(key, item, reading).values(), 1.0)
                    rows.add(self._without(row, key, reading), 0.0)
        return rows

    def detours(self) -> Rows:
        rows = Rows()
        for key in self.writers:
            for row in self._detours(key, self._direct(key)):
                rows.add(row, 0.0)
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

    def _sources(self, key: int, item: int, reading: Set[int]) -> dict[int, int]:
        """From where `item` can be taken by these writers of `key`, as candidates and columns:
        those that write `key` too do not stand before these writers in the order.
        """
        sources = self.sources.get(item, {})
        if key not in self.beside.get(item, ()):
            return sources
        first = min([self.place[number] for number in reading])
        return {
            number: column
            for number, column in sources.items()
            if key not in self.writes[number] or self.place[number] >= first
        }

    def _without(self, row: dict[int, float], key: int, reading: Set[int]) -> dict[int, float]:
        """The row less what is taken of `key` from those who need it."""
        columns = self.sources[key]
        for number in reading:
            column = columns[number]
            row[column] = row.get(column, 0.0) - 1.0
        return row

    def _detours(self, key: int, direct: Mapping[int, set[int]]) -> Iterator[dict[int, float]]:
        """The rows for what some writers of `key` read, and others through what they read."""
        through: dict[int, list[int]] = {}
        nobody, near = set[int](), self.near
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
                row = dict.fromkeys(self._sources(key, item, reading).values(), 1.0)
                for middle in way:
                    for number, column in self._sources(key, middle, reading).items():
                        if item not in near[number]:
                            row[column] = 1.0
                yield self._without(row, key, reading)
