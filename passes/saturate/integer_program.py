"""One independent problem as an integer program, solved by HiGHS (Q. Huangfu, J. A. J. Hall, 2018).

In: a `LocalProblem`, seconds. Out: the chosen candidates, and a bound on the cost of any choice.

Fractions of kernels are allowed first: with the rows of `program_rows`, `odd_sets` and `path_rows`
the optimum is nearly always whole then too. Where it is not, `diving` leads to a good choice, and
the solver branches; in a dense program on which classes are written, then on who writes several at
once: who writes one alone follows from that.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mgn.passes.saturate.components import LocalProblem
from mgn.passes.saturate.diving import NEARLY, run_until, written_classes
from mgn.passes.saturate.odd_sets import odd_set_rows
from mgn.passes.saturate.path_rows import path_rows
from mgn.passes.saturate.program_rows import Columns, Rows, columns_of, rows_of

OPTIONS = {
    "output_flag": False,
    "threads": 1,
    "random_seed": 0,
    "presolve": "off",
    "mip_rel_gap": 1e-5,
    "mip_heuristic_run_feasibility_jump": False,
    "mip_heuristic_run_rins": False,
    "mip_heuristic_run_rens": False,
    "mip_heuristic_run_root_reduced_cost": False,
}
"""Good choices are found elsewhere: with these rows most bounds meet the choice before the solver
branches, so that its own searches for one take more time than they save, and so does its search for
a smaller program.
"""
DENSE = 4
"""Entries in rows of detours, for one in all others, above which these rows wait."""
ROUNDS = 30
"""How often rows that fractions violate are added at most."""
RINGS = 8
"""How often kernels that wait for each other are found in a choice, and excluded."""
TRACED = 1200
"""Candidates up to which paths are followed to find them."""


@dataclass
class LocalSolution:
    """Chosen candidates of a problem, or None where time ran out, and a bound on their cost.

    `open` are the candidates among which there may still be a better choice.
    """

    chosen: tuple[int, ...] | None
    bound: float
    open: tuple[int, ...] = ()


def _ran_out(solver: Any) -> bool:
    return str(solver.getModelStatus()) == "HighsModelStatus.kTimeLimit"


def solve_integer_program(problem: LocalProblem, time_budget: float) -> LocalSolution:
    """The optimum by HiGHS, or what it has and its bound where time runs out."""
    writers = problem.writers()
    if any(key not in writers for key in problem.demands):
        return LocalSolution(None, 0.0)
    program = Program(problem, time.process_time() + time_budget)
    return program.relaxed() or program.whole()


def order_of(problem: LocalProblem, chosen: Iterable[int]) -> tuple[list[int], list[int]]:
    """Chosen kernels, each after those that write what it reads, and those that wait for ever."""
    order: list[int] = []
    written: set[int] = set()
    waiting = list(chosen)
    while True:
        ready = [n for n in waiting if written.issuperset(problem.inputs[n])]
        if not ready:
            return order, waiting
        order += ready
        for number in ready:
            written.update(problem.results[number])
        gone = set(ready)
        waiting = [n for n in waiting if n not in gone]


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


class Program:
    """A problem's program, to be solved until the processor's time is `deadline`; its rows grow by
    those that fractions violate.
    """

    def __init__(self, problem: LocalProblem, deadline: float) -> None:
        self.problem = problem
        self.deadline = deadline
        self.columns: Columns = columns_of(problem)
        self.rows, self.detours = rows_of(problem, self.columns)
        if len(self.detours.values) <= DENSE * len(self.rows.values):
            self.rows.extend(self.detours)
            self.detours = Rows()
        self.scale = 1.0 / max(min(problem.prices), 1e-12)
        self.bound = 0.0
        self.taken: tuple[int, ...] = ()

    def relaxed(self) -> LocalSolution | None:
        """The optimum, if it is one where fractions of kernels are allowed; None if not, and then
        `bound` has what these cost, and `taken` of which kernels they are.
        """
        solver = self._solver()
        latest = (time.process_time() + self.deadline) / 2
        for _ in range(ROUNDS):
            self._run(solver)
            while _ran_out(solver) and time.process_time() < self.deadline:
                self._run(solver)
            if str(solver.getModelStatus()) != "HighsModelStatus.kOptimal":
                return None
            values = np.asarray(solver.getSolution().col_value)
            self.bound = solver.getInfo().objective_function_value / self.scale
            self.taken = self._chosen(values, NEARLY)
            if np.all(np.minimum(values, 1.0 - values) <= NEARLY):
                return LocalSolution(self._chosen(values), self.bound)
            if time.process_time() > latest:
                return None
            broken = self._broken(values)
            if not broken:
                return None
            for entries, least in broken:
                self.rows.add(entries, least)
                indices = np.fromiter(entries, dtype=np.int32)
                solver.addRow(
                    least, np.inf, len(entries), indices, np.array(list(entries.values()))
                )
        return None

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

    def written(self) -> frozenset[int] | None:
        """The classes that a good choice writes, near the optimum with fractions."""
        solver = self._solver()
        amounts = self._add_amounts(solver)
        return written_classes(solver, amounts, (time.process_time() + self.deadline) / 2)

    def whole(self, start: Sequence[int] = ()) -> LocalSolution:
        """The optimum by branching, or what there is of it when time runs out; a choice to start
        from may be known.
        """
        import highspy

        solver = self._solver()
        amounts: dict[int, int] = {}
        branched = np.arange(self.columns.count, dtype=np.int32)
        if self.detours.values:
            amounts = self._add_amounts(solver)
            several = [n for n, results in enumerate(self.problem.results) if len(results) > 1]
            branched = np.array([*amounts.values(), *several], dtype=np.int32)
        kinds = np.full(len(branched), highspy.HighsVarType.kInteger)
        solver.changeColsIntegrality(len(branched), branched, kinds)
        if start:
            entries = self._entries_of(start, amounts)
            indices = np.fromiter(entries, dtype=np.int32)
            solver.setSolution(len(entries), indices, np.array(list(entries.values())))
        chosen: tuple[int, ...] = ()
        for _ in range(RINGS):
            self._run(solver)
            info = solver.getInfo()
            if np.isfinite(info.mip_dual_bound):
                self.bound = max(self.bound, info.mip_dual_bound / self.scale)
            if info.primal_solution_status != 2:
                return LocalSolution(None, self.bound)
            values = np.asarray(solver.getSolution().col_value)
            chosen = self._chosen(values)
            ring = [self.columns.taken[arc] for arc in self._ring(chosen, values)]
            if not ring:
                break
            entries = np.array(ring, dtype=np.int32)
            solver.addRow(-np.inf, len(ring) - 1, len(ring), entries, np.ones(len(ring)))
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

    def _entries_of(self, chosen: Sequence[int], amounts: Mapping[int, int]) -> dict[int, float]:
        """The values of all columns: each class is taken from the first chosen to write it."""
        entries = dict.fromkeys(range(self.columns.count + len(amounts)), 0.0)
        written: set[int] = set()
        for number in order_of(self.problem, chosen)[0]:
            entries[number] = 1.0
            for key in set(self.problem.results[number]) - written:
                entries[self.columns.taken[key, number]] = 1.0
                if amounts:
                    entries[amounts[key]] = 1.0
                written.add(key)
        return entries

    def _chosen(self, values: np.ndarray, least: float = 0.5) -> tuple[int, ...]:
        candidates = values[: len(self.problem.prices)]
        return tuple(int(number) for number in np.flatnonzero(candidates > least))

    def _run(self, solver: Any) -> None:
        run_until(solver, self.deadline)

    def _solver(self) -> Any:
        """A solver with the program as it is."""
        import highspy

        rows, count = self.rows, len(self.problem.prices)
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = self.columns.count, len(rows.lower)
        cost = np.zeros(self.columns.count)
        cost[:count] = np.array(self.problem.prices) * self.scale
        model.col_cost_ = cost
        model.col_lower_, model.col_upper_ = np.zeros(len(cost)), np.ones(len(cost))
        model.row_lower_, model.row_upper_ = np.array(rows.lower), np.array(rows.upper)
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.array(rows.starts, dtype=np.int32)
        model.a_matrix_.index_ = np.array(rows.columns, dtype=np.int32)
        model.a_matrix_.value_ = np.array(rows.values)
        solver = highspy.Highs()
        for name, value in OPTIONS.items():
            solver.setOptionValue(name, value)
        solver.passModel(model)
        return solver
