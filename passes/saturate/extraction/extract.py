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
from functools import cache, partial

from mgn.passes.saturate.candidates.candidates import CandidateSet
from mgn.passes.saturate.extraction.exact import ExactResult, ExactSolver
from mgn.passes.saturate.extraction.greedy import (
    flow_preferences,
    greedy_selection,
    improved_selection,
)
from mgn.passes.saturate.extraction.report import NEAR
from mgn.passes.saturate.extraction.selection import CyclicSelection, Selection, select

CYCLE_ROUNDS = 20
BUDGETED = 10_000
"""Candidates for which the time of an extraction is meant; where there are more, so is time."""
FAR = 0.01
"""Relative gap from which on a greedy choice may be a better one."""


@dataclass
class Extraction:
    """The chosen kernels, a lower bound on the cost of any choice, and how it was found: by `exact`
    methods or by local `search`, and whether time kept these from going on.
    """

    selection: Selection
    bound: float
    method: str
    components: int
    distinct: int
    timed_out: bool = False

    @property
    def gap(self) -> float:
        """How far, relatively, the cost can be from the least possible."""
        cost = self.selection.cost
        return max(0.0, (cost - self.bound) / cost) if cost > 0 else 0.0


def extract(found: CandidateSet, order: Sequence[int], time_budget: float = 2.0) -> Extraction:
    """Chooses kernels. `order` is all classes, operands before users."""
    clock = _Clock(time_budget * max(1.0, len(found.candidates) / BUDGETED))
    solver = ExactSolver(found, clock.budget)
    flow = cache(lambda: flow_preferences(found, order))
    result = solver.solve()
    selection, last = _without_cycles(found, flow, solver, result)
    method = "exact"
    solved = result.complete and last is result
    if selection is None or not result.complete or selection.cost > result.bound * (1 + FAR):
        searched = clock.limited(partial(greedy_selection, found, flow(), order))
        if selection is None or searched.cost < selection.cost:
            selection, method = searched, "search"
    unsure = [key for key in order if key in result.open] if solved else order
    if unsure and selection.cost > result.bound * (1 + NEAR):
        better = clock.limited(partial(improved_selection, found, selection, flow(), unsure))
        if better.cost < selection.cost:
            selection, method = better, "search"
    bound = min(result.bound, selection.cost)
    timed_out = solver.timed_out or clock.fired
    return Extraction(selection, bound, method, result.components, len(solver.solved), timed_out)


class _Clock:
    """The seconds of an extraction. `fired` says that a search had used up its part of them."""

    def __init__(self, budget: float) -> None:
        self.budget = budget
        self.deadline = time.process_time() + budget
        self.fired = False

    def limited(self, search: Callable[[float], Selection]) -> Selection:
        """What a search finds in half of the time left, or in an eighth of all."""
        seconds = max(self.deadline - time.process_time(), self.budget / 4) / 2
        started = time.thread_time()
        found = search(seconds)
        self.fired |= time.thread_time() - started > seconds
        return found


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
