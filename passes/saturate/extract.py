"""Extraction: the kernels that make the outputs at least cost, each shared value once.

In: a view and its candidates. Out: an `Extraction`: chosen kernels in order, cost, a lower bound on any choice.

Exact first, part by part; where time ran out or kernels would wait for each other, the better of what the solver and the
local search have. Ties go to the earlier candidate, so the result does not depend on timing unless a limit fires.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mgn.passes.saturate.candidates import CandidateSet
from mgn.passes.saturate.exact import ExactResult, solve_exactly
from mgn.passes.saturate.greedy import flow_preferences, greedy_selection
from mgn.passes.saturate.selection import CyclicSelection, Selection, select

CYCLE_ROUNDS = 20


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
    result = solve_exactly(found, set(), time_budget)
    bound, components, distinct = result.bound, result.components, result.distinct
    selection = _acyclic_selection(found, order, result, time_budget) if result.complete else None
    if selection is not None and selection.cost <= bound * (1 + 1e-5):
        return Extraction(selection, min(bound, selection.cost), "exact", components, distinct)
    searched = greedy_selection(found, order)
    if not result.complete:
        selection = _mixed(found, order, result)
    if selection is None or searched.cost < selection.cost:
        return Extraction(searched, min(bound, searched.cost), "search", components, distinct)
    return Extraction(selection, min(bound, selection.cost), "solver", components, distinct)


def _acyclic_selection(
    found: CandidateSet, order: Sequence[int], result: ExactResult, time_budget: float
) -> Selection | None:
    """The solver's choice; candidates with several results are banned while kernels wait for each other."""
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
        result = solve_exactly(found, banned, time_budget)
        if not result.complete:
            return None
    return None


def _mixed(found: CandidateSet, order: Sequence[int], result: ExactResult) -> Selection | None:
    """The solver's choice where it had time, least flow elsewhere."""
    try:
        return select(found, {**flow_preferences(found, order), **result.preferred})
    except CyclicSelection:
        return None
