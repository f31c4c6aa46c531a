"""One independent problem as an integer program, solved by HiGHS (Q. Huangfu, J. A. J. Hall, 2018).

In: a `LocalProblem`, seconds. Out: the chosen candidates, and a bound on the cost of any choice.

Fractions of kernels are allowed first: with the rows of `program_rows`, `odd_sets` and `path_rows`
the optimum is nearly always whole then too. Where it is not, `decomposition` adds rows, and what
these leave is branched on; in a dense program on which classes are written, then on who writes
several at once: who writes one alone follows from that.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mgn.passes.saturate.extraction.components import LocalProblem
from mgn.passes.saturate.extraction.odd_sets import odd_set_rows
from mgn.passes.saturate.extraction.path_rows import path_rows
from mgn.passes.saturate.extraction.program_rows import Columns, Rows, columns_of, rows_of
from mgn.passes.saturate.extraction.solver import (
    NEARLY,
    add_row,
    is_solved,
    make_whole,
    ran_out,
    run_until,
    solver_of,
    start_from,
)

DENSE = 4
"""Entries in rows of detours, for one in all others, above which these rows wait."""
IDLE = 3
"""How often rows that fractions violate are added in vain: these cost no more afterwards."""
RINGS = 8
"""How often kernels that wait for each other are found in a choice, and excluded."""
TRACED = 400
"""Candidates up to which paths are followed to find them."""


@dataclass
class LocalSolution:
    """Chosen candidates of a problem, or None where time ran out, and a bound on their cost.

    `open` are the candidates among which there may still be a better choice.
    """

    chosen: tuple[int, ...] | None
    bound: float
    open: tuple[int, ...] = ()


def solve_integer_program(problem: LocalProblem, time_budget: float) -> LocalSolution:
    """The optimum by HiGHS, or what it has and its bound where time runs out."""
    writers = problem.writers()
    if any(key not in writers for key in problem.demands):
        return LocalSolution(None, 0.0)
    program = Program(problem, time.process_time() + time_budget)
    return program.relaxed() or program.whole()


def order_of(problem: LocalProblem, chosen: Iterable[int]) -> tuple[list[int], list[int]]:
    """Chosen kernels, each after those that write what it reads, and those that wait for ever."""
    numbers = list(chosen)
    readers: dict[int, list[int]] = {}
    lacking = [0] * len(numbers)
    for place, number in enumerate(numbers):
        for item in set(problem.inputs[number]):
            readers.setdefault(item, []).append(place)
            lacking[place] += 1
    order: list[int] = []
    written: set[int] = set()
    ready = [place for place, count in enumerate(lacking) if not count]
    while ready:
        order += [numbers[place] for place in ready]
        found: list[int] = []
        for item in {item: None for place in ready for item in problem.results[numbers[place]]}:
            if item not in written:
                written.add(item)
                for place in readers.get(item, ()):
                    lacking[place] -= 1
                    if not lacking[place]:
                        found.append(place)
        ready = sorted(found)
    return order, [number for number, count in zip(numbers, lacking, strict=True) if count]


def ring_of(
    problem: LocalProblem,
    chosen: Iterable[int],
    takes: Callable[[int, int], bool] = lambda item, number: True,
) -> list[tuple[int, int]]:
    """Classes that chosen kernels wait for in a ring, each with the kernel that it is taken from;
    nothing where none wait so. `takes` says which are taken from which.
    """
    order, waiting = order_of(problem, chosen)
    written = {item for number in order for item in problem.results[number]}
    writer = {i: n for n in waiting for i in problem.results[n] if takes(i, n)}
    path: dict[int, int] = {}
    number = waiting[0] if waiting else None
    while number is not None and number not in path:
        path[number] = next(item for item in problem.inputs[number] if item not in written)
        number = writer.get(path[number])
    if number is None:
        return []
    ring = list(path)
    return [(path[member], writer[path[member]]) for member in ring[ring.index(number) :]]


def _unit(prices: Sequence[float]) -> float:
    """What prices are counted in: the least of them, where it is not next to nothing."""
    return max(min(prices), 1e-6 * max(prices), 1e-12)


class Program:
    """A problem's program, to be solved until the processor's time is `deadline`; its rows grow by
    those that fractions violate. `timed_out` says that time kept it from going on.
    """

    def __init__(self, problem: LocalProblem, deadline: float) -> None:
        self.problem = problem
        self.deadline = deadline
        self.columns: Columns = columns_of(problem)
        self.rows, self.detours = rows_of(problem, self.columns)
        if len(self.detours.values) <= DENSE * len(self.rows.values):
            self.rows.extend(self.detours)
            self.detours = Rows()
        self.scale = 1.0 / _unit(problem.prices)
        self.costs = np.zeros(self.columns.count)
        self.costs[: len(problem.prices)] = np.array(problem.prices) * self.scale
        self.bound = 0.0
        self.values = self.duals = np.zeros(0)
        self.solver: Any = None
        self.timed_out = False

    @property
    def taken(self) -> tuple[int, ...]:
        """The kernels that the optimum with fractions consists of."""
        return self._chosen(self.values, NEARLY)

    def relaxed(self) -> LocalSolution | None:
        """The optimum, if it is one where fractions of kernels are allowed; None if not, and then
        `bound` has what these cost, `values` what there is of each column, and `duals` what each
        row costs. After rows were added it goes on from there.
        """
        if self.solver is None:
            self.solver = solver_of(self.costs, self.rows)
        latest = (time.process_time() + self.deadline) / 2
        idle = 0
        while idle < IDLE:
            self._run(self.solver)
            while ran_out(self.solver) and time.process_time() < self.deadline:
                self._run(self.solver)
            if not is_solved(self.solver):
                self.timed_out |= ran_out(self.solver)
                return None
            solution = self.solver.getSolution()
            self.values = np.asarray(solution.col_value)
            self.duals = np.asarray(solution.row_dual)
            before, least = self.bound, self.solver.getInfo().objective_function_value
            self.bound = max(before, least / self.scale)
            idle = 0 if self.bound > before * (1 + NEARLY) else idle + 1
            if np.all(np.minimum(self.values, 1.0 - self.values) <= NEARLY):
                chosen = self._chosen(self.values)
                if not self.exclude(self._ring(chosen, self.values)):
                    return LocalSolution(chosen, self.bound)
                continue
            if time.process_time() > latest:
                self.timed_out = True
                return None
            broken = self._broken(self.values)
            if not broken:
                return None
            for entries, least in broken:
                self.add_row(entries, least)
        return None

    def add_row(self, entries: Mapping[int, float], least: float) -> None:
        """Adds a row that all choices keep: columns' values, and their least sum."""
        self.rows.add(entries, least)
        if self.solver is not None:
            add_row(self.solver, entries, least)

    def exclude(self, ring: Sequence[tuple[int, int]]) -> dict[int, float]:
        """Adds a row against kernels that wait for each other, where there are some: not each of
        these classes is taken from one that reads the next. Returns its values.
        """
        row: dict[int, float] = {}
        for place, (item, _) in enumerate(ring):
            before = ring[(place + 1) % len(ring)][0]
            for number in self.problem.writers()[item]:
                if before in self.problem.inputs[number]:
                    row[self.columns.taken[item, number]] = -1.0
        if row:
            self.add_row(row, 1.0 - len(ring))
        return row

    def _broken(self, values: np.ndarray) -> list[tuple[dict[int, float], float]]:
        """Rows that fractions violate, each with its least value."""
        detours = self.detours.violated(values, NEARLY)
        if detours:
            return [(entries, 0.0) for entries in detours]
        amounts = values.tolist()
        broken = list(odd_set_rows(self.problem, self.columns, amounts))
        if len(self.problem.prices) <= TRACED:
            broken += path_rows(self.problem, self.columns, amounts)
        return broken

    def whole(self, start: Sequence[int] = ()) -> LocalSolution:
        """The optimum by branching, or what there is of it when time runs out; a choice to start
        from may be known.
        """
        solver, writers = solver_of(self.costs, self.rows), self.problem.writers()
        amounts: dict[int, int] = {}
        branched: Iterable[int] = range(self.columns.count)
        if self.detours.values:
            amounts = self._add_amounts(solver)
            several = [n for n, results in enumerate(self.problem.results) if len(results) > 1]
            branched = [*amounts.values(), *several]
        make_whole(solver, branched)
        if start:
            values = self.values_of(start)
            taken = self.columns.taken
            written = [sum(values[taken[key, n]] for n in writers[key]) for key in amounts]
            start_from(solver, np.concatenate([values, written]))
        chosen: tuple[int, ...] = ()
        for tries in range(RINGS):
            if tries and time.process_time() >= self.deadline:
                self.timed_out = True
                break
            self._run(solver)
            self.timed_out |= ran_out(solver)
            info = solver.getInfo()
            if np.isfinite(info.mip_dual_bound):
                self.bound = max(self.bound, info.mip_dual_bound / self.scale)
            if info.primal_solution_status != 2:
                return LocalSolution(None, self.bound)
            values = np.asarray(solver.getSolution().col_value)
            chosen = self._chosen(values)
            ring = self._ring(chosen, values)
            if not ring:
                break
            add_row(solver, self.exclude(ring), 1.0 - len(ring))
        return LocalSolution(chosen, self.bound)

    def _ring(self, chosen: Sequence[int], values: np.ndarray) -> list[tuple[int, int]]:
        taken = self.columns.taken
        return ring_of(self.problem, chosen, lambda item, n: values[taken[item, n]] > 0.5)

    def _add_amounts(self, solver: Any) -> dict[int, int]:
        """Adds to a solver, for each class, the column of whether it is written."""
        amounts: dict[int, int] = {}
        for key, numbers in self.problem.writers().items():
            amounts[key] = column = solver.getNumCol()
            solver.addVar(float(self.rows.forced >> key & 1), 1.0)
            taken = [self.columns.taken[key, number] for number in numbers]
            values = np.ones(1 + len(taken))
            values[0] = -1.0
            indices = np.array([column, *taken], dtype=np.int32)
            solver.addRow(0.0, 0.0, len(indices), indices, values)
        return amounts

    def values_of(self, chosen: Iterable[int]) -> np.ndarray:
        """The columns of a choice: each class is taken from the first chosen to write it."""
        values = np.zeros(self.columns.count)
        written: set[int] = set()
        for number in order_of(self.problem, chosen)[0]:
            values[number] = 1.0
            for key in self.problem.results[number]:
                if key not in written:
                    values[self.columns.taken[key, number]] = 1.0
                    written.add(key)
        return values

    def _chosen(self, values: np.ndarray, least: float = 0.5) -> tuple[int, ...]:
        candidates = values[: len(self.problem.prices)]
        return tuple(int(number) for number in np.flatnonzero(candidates > least))

    def _run(self, solver: Any) -> None:
        run_until(solver, self.deadline)
