"""Greedy extraction and local search, as technology mappers recover area.

In: candidates. Out: a `Selection` that is good, soon: the fallback where the exact solver runs out
of time.

First each class prefers the candidate of least *flow*: its price and the flows of its inputs,
shared among their readers. Then single choices are changed while the total, with shared kernels
paid once, becomes less.
"""

from collections.abc import Mapping, Sequence
from math import inf

from mgn.passes.saturate.candidates.candidates import CandidateSet
from mgn.passes.saturate.extraction.local_search import improve
from mgn.passes.saturate.extraction.selection import CyclicSelection, Selection, select


def flow_preferences(found: CandidateSet, order: Sequence[int]) -> dict[int, int]:
    """The candidate of least flow for each class; `order` has operands before users, and where all
    writers of a class read later ones, that class follows when these are known.
    """
    readers: dict[int, int] = {}
    for candidate in found.candidates:
        for item in candidate.inputs:
            readers[item] = readers.get(item, 0) + 1
    flow: dict[int, float] = {}
    preferred: dict[int, int] = {}
    pending, before = list(order), 0
    while len(pending) != before:
        before = len(pending)
        for key in pending:
            best = inf
            for number in found.writers.get(key, ()):
                candidate = found.candidates[number]
                cost = candidate.price
                for item in candidate.inputs:
                    cost += flow.get(item, inf)
                cost /= len(candidate.results)
                if cost < best:
                    best, preferred[key] = cost, number
            if key in preferred:
                flow[key] = best / max(1.0, readers.get(key, 1) ** 0.5)
        pending = [key for key in pending if key not in preferred]
    return preferred


def greedy_selection(
    found: CandidateSet, flow: Mapping[int, int], order: Sequence[int], time_budget: float = 0.2
) -> Selection:
    """Least flow, then improvements by single changes until none helps or time is up."""
    start = _first_acyclic(found, dict(flow), order)
    return improved_selection(found, start, flow, order, time_budget)


def improved_selection(
    found: CandidateSet,
    start: Selection,
    flow: Mapping[int, int],
    order: Sequence[int],
    time_budget: float,
) -> Selection:
    """A selection improved by single changes; itself where the changes would make a cycle.

    Classes that it does not write may come to be written by the candidates of least flow.
    """
    preferred = {**flow, **start.writer}
    try:
        searched = select(found, improve(found, preferred, order, time_budget))
    except CyclicSelection:
        return start
    return searched if searched.cost < start.cost else start


def _first_acyclic(
    found: CandidateSet, preferred: dict[int, int], order: Sequence[int]
) -> Selection:
    """The preferred selection, or, where that is cyclic, the one with single results only."""
    try:
        return select(found, preferred)
    except CyclicSelection:
        for key in order:
            single = [
                n for n in found.writers.get(key, ()) if len(found.candidates[n].results) == 1
            ]
            if single and len(found.candidates[preferred[key]].results) > 1:
                preferred[key] = min(single, key=lambda n: found.candidates[n].price)
        return select(found, preferred)
