"""What a problem costs at least where fractions of kernels are allowed, and what that leaves out.

In: a `LocalProblem`. Out: a bound, the kernels that fractions consist of, and the smaller problem
of all choices that cost less than a known one.

The dual values of the linear program say what each column costs besides: a candidate that would
bring the bound above a known choice is in no better one (G. Dantzig, R. Fulkerson, S. Johnson,
"Solution of a large-scale traveling-salesman problem", 1954), and a class is not taken from a
candidate where that would.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mgn.passes.saturate.extraction.components import LocalProblem, Part
from mgn.passes.saturate.extraction.program_rows import Columns, Rows, columns_of, rows_of
from mgn.passes.saturate.extraction.rounding import rounded_rows
from mgn.passes.saturate.extraction.solver import NEARLY, add_rows, run_within, solver_of
from mgn.passes.saturate.extraction.work import ROUNDED, WRITTEN, Work

DENSE = 4
"""Entries in rows of detours, for one in all others, above which these rows wait."""
FEW = 0.001
"""Violated rows of detours that wait until others are added, for one row that is there."""
IDLE = 2
"""How often rows that fractions violate are added in vain."""


@dataclass(frozen=True)
class Relaxation:
    """The optimum with fractions: its cost, what there is of each column, and what each costs
    besides.
    """

    problem: LocalProblem
    columns: Columns
    bound: float
    values: np.ndarray
    reduced: np.ndarray

    @property
    def is_whole(self) -> bool:
        """Whether there are no fractions."""
        return bool(np.all(np.minimum(self.values, 1.0 - self.values) <= NEARLY))

    def taken(self, least: float = NEARLY) -> tuple[int, ...]:
        """The candidates of which there is more than that."""
        candidates = self.values[: len(self.problem.prices)]
        return tuple(np.flatnonzero(candidates > least).tolist())

    def nearest(self, times: int) -> tuple[int, ...]:
        """The candidates taken and others that cost least besides, so many times as many."""
        taken, count = self.taken(), len(self.problem.prices)
        dear = self.reduced[:count].copy()
        dear[list(taken)] = -np.inf
        order = np.argsort(dear, kind="stable")[: times * len(taken)]
        return tuple(sorted(order.tolist()))

    def below(self, cost: float) -> Part:
        """The problem of all choices that cost less."""
        taken, results = self.columns.taken, self.problem.results
        dear = (self.reduced >= (cost - self.bound) * (1.0 - NEARLY)).tolist()
        left = {
            number: tuple([key for key in results[number] if not dear[taken[key, number]]])
            for number in range(len(results))
            if not dear[number]
        }
        return among(self.problem, [number for number, items in left.items() if items], left)

    def most_halved(self) -> tuple[int, int]:
        """The class and the candidate of which it is most nearly taken by half."""
        distance = np.abs(self.values - 0.5)
        return min(self.columns.taken, key=lambda pair: distance[self.columns.taken[pair]])


class Program:
    """The linear program of a problem, with the rows that fractions violated so far."""

    def __init__(self, problem: LocalProblem, work: Work) -> None:
        self.problem, self.work = problem, work
        self.columns = columns_of(problem)
        self.rows, self.detours = rows_of(problem, self.columns)
        work.did(len(self.rows.values) + len(self.detours.values), WRITTEN)
        if len(self.detours.values) <= DENSE * len(self.rows.values):
            self.rows.extend(self.detours)
            self.detours = Rows()
        self.scale = 1.0 / max(min(problem.prices), 1e-6 * max(problem.prices), 1e-12)
        self.costs = np.zeros(self.columns.count)
        self.costs[: len(problem.prices)] = np.array(problem.prices) * self.scale
        self.solver = solver_of(self.costs, self.rows)

    def relaxed(self) -> Relaxation | None:
        """The optimum with fractions; None where no work is left before."""
        bound, idle = 0.0, 0
        while run_within(self.solver, self.work):
            solution = self.solver.getSolution()
            values = np.asarray(solution.col_value)
            before = bound
            bound, reduced = self.bounded_by(np.asarray(solution.row_dual))
            idle = 0 if bound > before * (1.0 + NEARLY) else idle + 1
            broken = Rows()
            if idle < IDLE:
                for entries in self.detours.violated(values, NEARLY):
                    broken.add(entries, 0.0)
            if len(broken.lower) <= FEW * len(self.rows.lower):
                return Relaxation(self.problem, self.columns, bound, values, reduced)
            self._add(broken)
        return None

    def tightened(self, before: Relaxation) -> Relaxation | None:
        """The optimum with rows besides that the one before violates; None where there are none, or
        no work is left.
        """
        self.work.did(len(self.rows.values), ROUNDED)
        broken = rounded_rows(self.rows, before.values, self.solver)
        for entries in self.detours.violated(before.values, NEARLY):
            broken.add(entries, 0.0)
        if not broken.lower:
            return None
        self._add(broken)
        return self.relaxed()

    def bounded_by(self, duals: np.ndarray) -> tuple[float, np.ndarray]:
        """What these values of the rows prove, and what each column costs besides.

        Any values do, with their signs set right: each column lies between 0 and 1, and one that
        costs less than nothing besides is taken whole (A. Neumaier, O. Shcherbina, "Safe bounds in
        linear and mixed-integer linear programming", 2004). So no tolerance of the solver is in it.
        A product of vectors would be summed by several threads, in an order of the machine's.
        """
        columns, values, starts, lower, upper = self.rows.arrays()
        duals = np.where((duals < 0.0) & np.isinf(upper), 0.0, duals)
        limits = np.where(duals < 0.0, upper, lower)
        paid = np.bincount(
            columns, values * np.repeat(duals, np.diff(starts)), minlength=self.columns.count
        )
        reduced = self.costs - paid
        bound = float((duals * limits).sum() + np.minimum(reduced, 0.0).sum())
        return max(bound, 0.0) / self.scale, reduced / self.scale

    def _add(self, rows: Rows) -> None:
        self.rows.extend(rows)
        add_rows(self.solver, rows)


def among(
    problem: LocalProblem,
    numbers: Sequence[int],
    results: Mapping[int, Sequence[int]] | None = None,
) -> Part:
    """The problem with these candidates alone, and only some of their results."""
    left = LocalProblem(
        problem.demands,
        tuple([tuple(problem.results[n] if results is None else results[n]) for n in numbers]),
        tuple([problem.inputs[number] for number in numbers]),
        tuple([problem.prices[number] for number in numbers]),
    )
    return Part(left, tuple(numbers))
