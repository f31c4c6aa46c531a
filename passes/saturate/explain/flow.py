"""The candidate that each class would be written by if it were alone, as technology mappers recover
area.

In: candidates. Out: for each class the candidate of least *flow*: its price and the flows of its
inputs, shared among their readers.
"""

from collections.abc import Sequence
from math import inf

from mgn.passes.saturate.candidates.candidates import CandidateSet


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
