"""A program cut into pieces around its fractions, each solved without fractions at the prices that
the whole program has for what the pieces share.

In: a `Program` whose optimum with fractions is known. Out: a bound nearer to the optimum without
them, and the kernels that the pieces choose.

Fractions of kernels come in groups that hardly touch. The classes around a group are a piece. Rows
within a piece stay; a row between pieces is left out, and each of its columns pays or is paid what
the row is worth to the program with fractions, its dual value (A. M. Geoffrion, "Lagrangean
relaxation for integer programming", 1974). Then the pieces cost together what the program costs
with fractions, each at least as much without them, and their sum is a bound, whatever the dual
values are. What a piece costs at least is a row of the program, too: it is added, also for pieces
with the same rows, whose dual values may differ.
"""

import time
from collections.abc import Collection, Iterable, Iterator, MutableMapping
from dataclasses import dataclass
from itertools import chain

import numpy as np

from mgn.passes.saturate.extraction.components import Choices, tied_classes
from mgn.passes.saturate.extraction.integer_program import LocalSolution, Program
from mgn.passes.saturate.extraction.program_rows import Rows
from mgn.passes.saturate.extraction.solver import (
    NEARLY,
    make_whole,
    ran_out,
    run_until,
    solver_of,
    start_from,
)

REACH = 1
"""Over how many candidates a piece reaches from its fractions: with more, few pieces are equal."""
LARGEST = 0.5
"""The share of all classes with fractions that a group may have for them to fall apart."""
FINE = 2.0**16
"""Dual values are rounded to multiples of 1 / FINE: so sums of them are exact, and equal pieces
have equal costs.
"""
LOOSE = 1e-9
"""What a piece's row leaves, relatively, to a solver that keeps rows inexactly."""


Row = tuple[tuple[tuple[int, float], ...], float, float]
"""Columns with their values, and the least and the greatest sum."""


@dataclass(frozen=True)
class Piece:
    """Columns of a program, what they cost with their shares of rows between pieces, the rows over
    them alone, and what they cost at least with fractions.
    """

    columns: np.ndarray
    costs: np.ndarray
    rows: tuple[Row, ...]
    least: float


@dataclass(frozen=True)
class Optimum:
    """At given costs, a bound on what the choices of a piece cost, and which columns one near it
    takes.
    """

    costs: np.ndarray
    bound: float
    taken: np.ndarray


Optima = MutableMapping[tuple[Row, ...], tuple[Optimum, ...]]
"""The optima known of the pieces with the same rows: what one costs at least at some costs, so do
all of them at these.
"""


def falls_apart(program: Program) -> bool:
    """Whether fractions come in groups, none of which has most of all classes that they touch."""
    groups = [len(group) for group in _groups(program)] if program.taken else []
    return bool(groups) and max(groups) <= LARGEST * sum(groups)


def solve_pieces(program: Program, known: Optima, start: Collection[int] = ()) -> LocalSolution:
    """The kernels that pieces choose, which together are no choice, and a bound on all choices; the
    program gets rows for each piece. Of pieces with the same rows one is solved, unless `known`
    forgets it. A choice to start from may be known.
    """
    values = program.values_of(start) if start else None
    cut = _Cut(program)
    bound, chosen, solved = cut.shared, set[int](), set[tuple[Row, ...]]()
    for piece in cut.pieces():
        optima = known.get(piece.rows, ())
        own = [item for item in optima if np.array_equal(item.costs, piece.costs)]
        if not own and piece.rows not in solved:
            deadline = (time.process_time() + program.deadline) / 2
            known_values = None if values is None else values[piece.columns]
            own = [_optimum(program, piece, deadline, known_values)]
            optima = known[piece.rows] = (*optima, *own)
            solved.update(known.keys() & {piece.rows})
        bound += max([piece.least, *[item.bound for item in own]])
        for optimum in optima:
            chosen.update(piece.columns[optimum.taken].tolist())
            _add_row(program, piece.columns, optimum)
    numbers = [number for number in sorted(chosen) if number < len(program.problem.prices)]
    return LocalSolution(tuple(numbers), max(bound / program.scale, program.bound))


def _optimum(program: Program, piece: Piece, deadline: float, start: np.ndarray | None) -> Optimum:
    rows = Rows()
    for entries, lower, upper in piece.rows:
        rows.add(dict(entries), lower, upper)
    solver = solver_of(piece.costs, rows)
    make_whole(solver, range(len(piece.costs)))
    if start is not None:
        start_from(solver, start)
    run_until(solver, deadline)
    program.timed_out |= ran_out(solver)
    info = solver.getInfo()
    taken = np.zeros(0, dtype=np.int64)
    if info.primal_solution_status == 2:
        taken = np.flatnonzero(np.asarray(solver.getSolution().col_value) > 0.5)
    return Optimum(piece.costs, info.mip_dual_bound, taken)


def _add_row(program: Program, columns: np.ndarray, optimum: Optimum) -> None:
    """Adds to a program what a piece costs at least, where its fractions cost less."""
    scale = float(np.abs(optimum.costs).max())
    least = optimum.bound - LOOSE * max(scale, abs(optimum.bound))
    if float(optimum.costs @ program.values[columns]) < least:
        costly = np.flatnonzero(optimum.costs)
        values = (optimum.costs[costly] / scale).tolist()
        program.add_row(dict(zip(columns[costly].tolist(), values, strict=True)), least / scale)


class _Cut:
    """A program cut: `shared` is what rows between pieces and all columns in none of them cost at
    least.
    """

    def __init__(self, program: Program) -> None:
        rows = program.rows
        self.starts, self.columns = np.array(rows.starts), np.array(rows.columns)
        self.values = np.array(rows.values)
        self.lower, self.upper = np.array(rows.lower), np.array(rows.upper)
        self.row = np.repeat(np.arange(len(self.lower)), np.diff(self.starts))
        self.home = _homes(program)
        self.count = int(self.home.max()) + 1
        self.home[self.home < 0] = self.count
        first = self.home[self.columns[self.starts[:-1]]]
        elsewhere = self.home[self.columns] != first[self.row]
        between = np.logical_or.reduceat(elsewhere, self.starts[:-1])
        self.row_home = np.where(between, -1, first)
        self._price(program)

    def _price(self, program: Program) -> None:
        """Works out what columns cost, and what pieces cost at least with fractions."""
        duals = np.zeros(len(self.lower))
        duals[: len(program.duals)] = np.round(program.duals * FINE) / FINE
        sides = np.where(duals > 0.0, self.lower, self.upper)
        duals[~np.isfinite(sides)] = 0.0
        sides[duals == 0.0] = 0.0
        weights = self.values * duals[self.row]
        between = self.row_home[self.row] < 0
        count = len(self.home)
        self.costs = program.costs - np.bincount(
            self.columns[between], weights[between], minlength=count
        )
        reduced = program.costs - np.bincount(self.columns, weights, minlength=count)
        worth = duals * sides
        self.least = np.bincount(self.home, np.minimum(reduced, 0.0), minlength=self.count + 1)
        within = self.row_home >= 0
        self.least += np.bincount(self.row_home[within], worth[within], minlength=self.count + 1)
        self.shared = float(worth[~within].sum() + self.least[self.count])

    def pieces(self) -> Iterator[Piece]:
        """The pieces, one after another."""
        for number in range(self.count):
            columns = np.flatnonzero(self.home == number)
            rows = self._rows(np.flatnonzero(self.row_home == number), columns)
            yield Piece(columns, self.costs[columns], rows, float(self.least[number]))

    def _rows(self, numbers: np.ndarray, columns: np.ndarray) -> tuple[Row, ...]:
        """Rows over these columns alone, by their places among them, in an order of their own."""
        found: list[Row] = []
        for number in numbers.tolist():
            here = slice(self.starts[number], self.starts[number + 1])
            places = np.searchsorted(columns, self.columns[here]).tolist()
            entries = sorted(zip(places, self.values[here].tolist(), strict=True))
            found.append((tuple(entries), float(self.lower[number]), float(self.upper[number])))
        return tuple(sorted(found))


def _homes(program: Program) -> np.ndarray:
    """The piece of each column, or -1."""
    problem, taken = program.problem, program.columns.taken
    reached = _around(program, _groups(program))
    homes = np.full(program.columns.count, -1)
    for number, results in enumerate(problem.results):
        home = next((reached[key] for key in results if key in reached), -1)
        homes[number] = home
        for key in results:
            homes[taken[key, number]] = home
    return homes


def _groups(program: Program) -> list[list[int]]:
    """The classes taken from fractions of kernels, those together that such kernels tie together;
    in order.
    """
    problem = program.problem
    within = (program.values > NEARLY) & (program.values < 1.0 - NEARLY)
    parted = {key for (key, _), column in program.columns.taken.items() if within[column]}
    ties: dict[int, list[int]] = {}
    for number in np.flatnonzero(within[: len(problem.prices)]).tolist():
        tied = [n for n in chain(problem.results[number], problem.inputs[number]) if n in parted]
        if tied:
            ties[number] = tied
    root = tied_classes(Choices([*ties], ties, dict.fromkeys(ties, ()), {}))
    groups: dict[int, list[int]] = {}
    for key in sorted(parted):
        groups.setdefault(root.get(key, key), []).append(key)
    return list(groups.values())


def _around(program: Program, groups: Iterable[Iterable[int]]) -> dict[int, int]:
    """The classes near each group, nearer to it than to others."""
    problem = program.problem
    touching: dict[int, list[int]] = {}
    for number, (results, inputs) in enumerate(zip(problem.results, problem.inputs, strict=True)):
        for key in chain(results, inputs):
            touching.setdefault(key, []).append(number)
    reached = {key: place for place, group in enumerate(groups) for key in group}
    border = list(reached)
    for _ in range(REACH):
        near: list[int] = []
        for key in border:
            for number in touching[key]:
                for other in chain(problem.results[number], problem.inputs[number]):
                    if other not in reached:
                        reached[other] = reached[key]
                        near.append(other)
        border = near
    return reached
