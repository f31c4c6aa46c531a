"""Rows against kernels that are chosen by halves on the way to what they are for.

In: a `LocalProblem`, its `Columns`, values of them that are not whole. Out: rows that these violate
and that all whole choices keep.

Whoever takes a class takes an input of its writer, an input of that one's writer, and so on until a
writer reads nothing: a path, along any one input of each writer. So each set C of candidates, and
of "this class is taken from this candidate", that no path from k avoids has a row:

    Σ y(k, ·) ≤ Σ over C x(c) or y(j, c)

Of the sets for one choice of inputs, that of the least sum is a minimal cut (L. Ford, D. Fulkerson,
1956). Inputs are followed towards one class that is written in part: what all ways need and each
takes half of is at the bottom of most fractions.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mgn.passes.saturate.extraction.components import LocalProblem
from mgn.passes.saturate.extraction.program_rows import Columns

VIOLATED = 1e-4
"""By how much a row has to be violated to be worth adding."""
END = -1
"""Where paths end: nothing is read."""


@dataclass
class _Network:
    """Arcs between classes and what is left of each; every second one is the way back."""

    ends: list[int] = field(default_factory=list[int])
    left: list[float] = field(default_factory=list[float])
    leaving: dict[int, list[int]] = field(default_factory=dict[int, list[int]])

    def add(self, start: int, end: int, value: float) -> None:
        """Adds an arc and its way back."""
        for here, there, left in ((start, end, value), (end, start, 0.0)):
            self.leaving.setdefault(here, []).append(len(self.ends))
            self.ends.append(there)
            self.left.append(left)

    def least_cut(self, start: int) -> tuple[float, set[int]]:
        """The greatest flow to the end, and the classes before the arcs that bound it."""
        flow, before = 0.0, list(self.left)
        came = self._reached(start)
        while END in came:
            way, here = list[int](), END
            while here != start:
                way.append(came[here])
                here = self.ends[came[here] ^ 1]
            share = min(self.left[arc] for arc in way)
            flow += share
            for arc in way:
                self.left[arc] -= share
                self.left[arc ^ 1] += share
            came = self._reached(start)
        self.left = before
        return flow, set(came)

    def _reached(self, start: int) -> dict[int, int]:
        """The classes that can be reached, each with the arc that led there."""
        came = {start: END}
        pending = [start]
        for here in pending:
            for arc in self.leaving.get(here, ()):
                if self.ends[arc] not in came and self.left[arc] > VIOLATED / 100:
                    came[self.ends[arc]] = arc
                    pending.append(self.ends[arc])
        return came


def path_rows(
    problem: LocalProblem, columns: Columns, values: Sequence[float]
) -> Iterator[tuple[dict[int, float], float]]:
    """Violated rows, each with its least value: at most one for each class written in part."""
    writers = dict(sorted(problem.writers().items()))
    used = {
        key: [number for number in numbers if values[columns.taken[key, number]] > VIOLATED / 100]
        for key, numbers in writers.items()
    }
    written = {
        key: sum(values[columns.taken[key, number]] for number in numbers)
        for key, numbers in used.items()
    }
    split = [key for key, numbers in used.items() if len(numbers) > 1]
    for item, amount in written.items():
        if not VIOLATED < amount < 1 - VIOLATED:
            continue
        network = _network_towards(item, problem, columns, used, values)
        for key in split:
            if key == item or written[key] < amount + VIOLATED:
                continue
            flow, before = network.least_cut(key)
            if flow < written[key] - VIOLATED:
                row = _row(problem, columns, writers, item, before)
                for number in writers[key]:
                    column = columns.taken[key, number]
                    row[column] = row.get(column, 0.0) - 1.0
                yield {column: value for column, value in row.items() if value}, 0.0
                break


def _node(candidate: int) -> int:
    """A candidate's name beside those of classes."""
    return END - 1 - candidate


def _network_towards(
    item: int,
    problem: LocalProblem,
    columns: Columns,
    used: Mapping[int, list[int]],
    values: Sequence[float],
) -> _Network:
    """The network in which each candidate's input is followed that is least written without `item`;
    what writes it ends the way.
    """
    network = _Network()
    past: dict[int, float] = {item: 0.0}
    entered: set[int] = set()
    for key, numbers in used.items():
        amount = 0.0
        for number in numbers:
            inputs = problem.inputs[number]
            end = min(inputs, key=lambda one: past.get(one, 0.0), default=END)
            taken = values[columns.taken[key, number]]
            amount += min(taken, past.get(end, 1.0))
            network.add(key, _node(number), taken)
            if number not in entered:
                entered.add(number)
                end = END if item in problem.results[number] else end
                network.add(_node(number), end, values[number])
        past.setdefault(key, amount)
    return network


def _row(
    problem: LocalProblem,
    columns: Columns,
    writers: Mapping[int, list[int]],
    item: int,
    before: set[int],
) -> dict[int, float]:
    """All that leaves the classes and candidates before a cut."""
    row: dict[int, float] = {}
    for key in before.intersection(writers):
        for number in writers[key]:
            stays = not before.isdisjoint(problem.inputs[number])
            if item not in problem.results[number] and stays:
                continue
            passed = _node(number) in before
            row[number if passed else columns.taken[key, number]] = 1.0
    return row
