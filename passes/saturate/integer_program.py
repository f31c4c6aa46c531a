"""One independent problem as an integer program, solved by HiGHS (Q. Huangfu, J. A. J. Hall, 2018).

In: a `LocalProblem`, seconds. Out: the chosen candidates, and a bound on the cost of any choice.

Fractions of kernels are allowed first: with the rows of `program_rows`, `odd_sets` and `path_rows`
the optimum is nearly always whole then too. Where it is not, the solver branches.
"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from mgn.passes.saturate.components import LocalProblem
from mgn.passes.saturate.odd_sets import NEARLY, odd_set_rows
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
ROUNDS = 30
"""How often rows that fractions violate are added at most."""
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


class Program:
    """A problem's program, to be solved until the processor's time is `deadline`; its rows grow by
    those that fractions violate.
    """

    def __init__(self, problem: LocalProblem, deadline: float) -> None:
        self.problem = problem
        self.deadline = deadline
        self.columns: Columns = columns_of(problem)
        self.rows: Rows = rows_of(problem, self.columns)
        self.scale = 1.0 / max(min(problem.prices), 1e-12)
        self.bound = 0.0

    def relaxed(self) -> LocalSolution | None:
        """The optimum, if it is one where fractions of kernels are allowed; None if not, and then
        `bound` has what these cost.
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
            if np.all(np.minimum(values, 1.0 - values) <= NEARLY):
                return LocalSolution(self._chosen(values), self.bound)
            if time.process_time() > latest:
                return None
            amounts = values.tolist()
            broken = list(odd_set_rows(self.problem, self.columns, amounts))
            if len(self.problem.prices) <= TRACED:
                broken += path_rows(self.problem, self.columns, amounts)
            if not broken:
                return None
            for entries, least in broken:
                self.rows.add(entries, least)
                indices = np.fromiter(entries, dtype=np.int32)
                solver.addRow(
                    least, np.inf, len(entries), indices, np.array(list(entries.values()))
                )
        return None

    def whole(self) -> LocalSolution:
        """The optimum by branching, or what there is of it when time runs out."""
        import highspy

        solver = self._solver()
        count = self.columns.count
        kinds = np.full(count, highspy.HighsVarType.kInteger)
        solver.changeColsIntegrality(count, np.arange(count, dtype=np.int32), kinds)
        self._run(solver)
        info = solver.getInfo()
        bound = info.mip_dual_bound / self.scale
        bound = max(bound, self.bound) if np.isfinite(bound) else self.bound
        if info.primal_solution_status != 2:
            return LocalSolution(None, bound)
        return LocalSolution(self._chosen(np.asarray(solver.getSolution().col_value)), bound)

    def _chosen(self, values: np.ndarray) -> tuple[int, ...]:
        candidates = values[: len(self.problem.prices)]
        return tuple(int(number) for number in np.flatnonzero(candidates > 0.5))

    def _run(self, solver: Any) -> None:
        """Runs the solver, from where it stopped; its clock is the wall's, which on a busy machine
        is sooner at its limit.
        """
        left = self.deadline - time.process_time()
        solver.setOptionValue("time_limit", solver.getRunTime() + max(left, 0.01))
        solver.run()

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
