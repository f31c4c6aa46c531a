"""Extraction: the kernels that make the outputs at least cost, each shared value once.

In: a view and its candidates. Out: an `Extraction`: chosen kernels in order, cost, a lower bound on
any choice.

Exact first, part by part; where time ran out or kernels would wait for each other, the better of
what the solver and the local search have. Ties go to the earlier candidate, so the result does not
depend on timing unless a limit fires.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from mgn.passes.saturate.candidates import CandidateSet
from mgn.passes.saturate.exact import ExactResult, ExactSolver
from mgn.passes.saturate.greedy import (
    flow_preferences,
    greedy_selection,
    improved_selection,
)
from mgn.passes.saturate.selection import CyclicSelection, Selection, select

CYCLE_ROUNDS = 20
PROVED_GAP = 1e-4
"""Relative gap below which nothing is left to search for."""


@dataclass
class Extraction:
    """The chosen kernels, a lower bound on the cost of any choice, and how it was found."""

    selection: Selection
    bound: float
    method: str
    components: int
    distinct: int

    @property
    def gap(self) -> float:
        """How far, relatively, the cost can be from the least possible."""
        cost = self.selection.cost
        return max(0.0, (cost - self.bound) / cost) if cost > 0 else 0.0


def extract(found: CandidateSet, order: Sequence[int], time_budget: float = 2.0) -> Extraction:
    """Chooses kernels. `order` is all classes, operands before users."""
    started = time.process_time()
    solver = ExactSolver(found, time_budget)
    result = solver.solve()
    selection = _without_cycles(found, order, solver, result)
    method = "exact"
    proved = selection is not None and result.bound >= selection.cost * (1 - PROVED_GAP)
    if selection is None or not result.complete:
        remaining = max(started + time_budget - time.process_time(), time_budget / 4)
        searched = greedy_selection(found, order, remaining / 2)
        if selection is None or searched.cost < selection.cost:
            selection, method = searched, "search"
    if not proved:
        remaining = max(started + time_budget - time.process_time(), time_budget / 4)
        better = improved_selection(found, selection, order, remaining / 2)
        if better.cost < selection.cost:
            selection, method = better, "search"
    bound = min(result.bound, selection.cost)
    return Extraction(selection, bound, method, result.components, len(solver.solved))


def _without_cycles(
    found: CandidateSet, order: Sequence[int], solver: ExactSolver, result: ExactResult
) -> Selection | None:
    """The solver's choice; while kernels wait for each other, one with several results is banned.

    Classes that the solver had no time for get the candidate of least flow.
    """
    banned: set[int] = set()
    base = flow_preferences(found, order)
    for _ in range(CYCLE_ROUNDS):
        try:
            return select(found, {**base, **result.preferred})
        except CyclicSelection as cycle:
            several = [n for n in cycle.kernels if len(found.candidates[n].results) > 1]
            if not several:
                return None
            banned.add(max(several))
        result = solver.solve(banned)
    return None
