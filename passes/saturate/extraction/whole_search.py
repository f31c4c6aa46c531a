"""The best choice among all kernels of a small graph.

In: a view, the candidates of the usual search, and the choice among these. Out: more candidates,
and a choice that costs no more; where all kernels were looked at that may cost less, none is
better.

A choice that costs at most some figure has no kernel that brings a choice above it. So all kernels
are found that do not, the others are left out, and the best of these choices is the best of all
where it costs no more than the figure. The figure goes up by steps, from what any choice costs at
least to what the known choice costs: few kernels stay below a low one.
"""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mgn.dialects.kernel.device import Device
from mgn.passes.saturate.candidates.candidates import CandidateSet, Template, undominated
from mgn.passes.saturate.candidates.commits import commit_seconds
from mgn.passes.saturate.candidates.every_kernel import EveryKernel, TooMany
from mgn.passes.saturate.candidates.limits import BEYOND, TIME, CutLimits
from mgn.passes.saturate.candidates.priced_bodies import PricedBodies
from mgn.passes.saturate.candidates.within import SLACK, Within
from mgn.passes.saturate.egraph.view import View
from mgn.passes.saturate.extraction.extract import Extraction, extract

STEPS = (0.1, 0.3, 1.0)
"""Where the figures lie between what any choice costs at least and what the known one costs."""


@dataclass(frozen=True)
class Searched:
    """Candidates, and the choice among them."""

    found: CandidateSet
    extraction: Extraction


def search_whole(
    view: View, known: Searched, device: Device, limits: CutLimits, time_budget: float
) -> Searched:
    """The candidates and the choice, or a cheaper one among more candidates."""
    return _WholeSearch(view, known, device, limits, time_budget).best()


class _WholeSearch:
    """The search beside what is known of a graph."""

    def __init__(
        self, view: View, known: Searched, device: Device, limits: CutLimits, budget: float
    ) -> None:
        self.view, self.known, self.device, self.limits = view, known, device, limits
        self.deadline = time.process_time() + budget
        priced = PricedBodies(view.signatures, device)
        self.every = EveryKernel(view, known.found, device, limits, priced)

    def best(self) -> Searched:
        """The best choice found; candidates are those among which it was made."""
        best, every = self.known, self.every
        try:
            least = every.least(best.extraction.selection.cost)
            for step in STEPS:
                cost = best.extraction.selection.cost
                if least >= cost * (1.0 - SLACK):
                    break
                most = least + step * (cost - least)
                searched = self._within(every.templates(most), most)
                if searched.extraction.selection.cost < cost:
                    best = searched
                if searched.extraction.selection.cost <= most:
                    break
        except TooMany:
            return self._described(best, Counter({TIME: every.met}))
        return self._described(best, Counter({BEYOND: every.met}))

    def _within(self, templates: Sequence[Template], most: float) -> Searched:
        """The choice among the known candidates and those templates that may be in one of at most
        that cost.
        """
        found = self.known.found
        wider = found.only(found.candidates)
        for template in templates:
            candidate = wider.add(template, self.every.classes)
            candidate.price += commit_seconds(self.view, candidate, self.device)
        within, usual = Within(wider), len(found.candidates)
        kept = [
            item
            for item in wider.candidates
            if item.number < usual or within.cost_with(item) <= most * (1.0 + SLACK)
        ]
        wider = wider.only(kept if self.view.left else undominated(kept))
        budget = max(self.deadline - time.process_time(), 0.0)
        return Searched(wider, extract(wider, budget))

    def _described(self, best: Searched, left_out: Counter[str]) -> Searched:
        """The search with what it left out and why."""
        found = best.found
        found.considered += self.every.met
        if TIME in left_out:
            left_out += found.left_out
        return replace(best, found=replace(found, left_out=left_out))
