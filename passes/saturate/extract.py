"""Extraction: the kernels that make the outputs at least cost, each shared value once.

In: a view and its candidates. Out: an `Extraction`: chosen kernels in order, cost, a lower bound on
any choice.

Exact first, part by part; what that does not prove to be best is searched for better. Where time
ran out or kernels would wait for each other, it is the better of what solver and search have. Ties
go to the earlier candidate, so the result does not depend on timing unless a limit fires.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from mgn.passes.saturate.candidates import CandidateSet
from mgn.passes.saturate.exact import ExactResult, ExactSolver
from mgn.passes.saturate.greedy import (
    flow_preferences,
    greedy_selection,
    improved_selection,
)
from mgn.passes.saturate.selection import CyclicSelection, Selection, select

CYCLE_ROUNDS = 20
BUDGETED = 10_000
"""Candidates for which the time of an extraction is meant; where there are more, so is time."""
NEAR, FAR = 1e-3, 0.01
"""Relative gaps from which on a choice is searched for a better one, and a greedy one may be one.
"""


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
    time_budget *= max(1.0, len(found.candidates) / BUDGETED)
    solver = ExactSolver(found, time_budget)
    flow = cache(lambda: flow_preferences(found, order))
    result = solver.solve()
    selection, last = _without_cycles(found, flow, solver, result)
    method = "exact"
    solved = result.complete and last is result
    if selection is None or not result.complete or selection.cost > result.bound * (1 + FAR):
        remaining = max(started + time_budget - time.process_time(), time_budget / 4)
        searched = greedy_selection(found, flow(), order, remaining / 2)
        if selection is None or searched.cost < selection.cost:
            selection, method = searched, "search"
    unsure = [key for key in order if key in result.open] if solved else order
    if unsure and selection.cost > result.bound * (1 + NEAR):
        remaining = max(started + time_budget - time.process_time(), time_budget / 4)
        better = improved_selection(found, selection, flow(), unsure, remaining / 2)
        if better.cost < selection.cost:
            selection, method = better, "search"
    bound = min(result.bound, selection.cost)
    return Extraction(selection, bound, method, result.components, len(solver.solved))


def _without_cycles(
    found: CandidateSet,
    flow: Callable[[], Mapping[int, int]],
    solver: ExactSolver,
    result: ExactResult,
) -> tuple[Selection | None, ExactResult]:
    """The solver's choice; while kernels wait for each other, the one of them is banned without
    which the choice is the cheapest.

    Classes for which the solver has none get the candidate of least flow. Also the result that the
    choice is from.
    """
    banned: set[int] = set()
    for _ in range(CYCLE_ROUNDS):
        whole = result.complete and not result.open
        others = {} if whole else flow()
        try:
            return _selected(found, others, result), result
        except CyclicSelection as cycle:
            left = {number: solver.solve({*banned, number}) for number in cycle.kernels}
            best = min(left, key=lambda n: (not left[n].complete, left[n].bound, n))
            banned.add(best)
            result = left[best]
    return None, result


def _selected(found: CandidateSet, others: Mapping[int, int], result: ExactResult) -> Selection:
    """The selection that the solver prefers, with others where it has none; where kernels wait for
    each other, the one in which each class is taken from the first that writes it.
    """
    try:
        return select(found, {**others, **result.preferred})
    except CyclicSelection:
        return select(found, {**others, **result.first}, again=True)
