"""The best choice among all kernels of a small graph.

In: a view, the candidates of the usual search, and the choice among these. Out: more candidates,
and a choice that costs no more; where all kernels were looked at that may cost less, none is
better.

A choice that costs at most some figure has no kernel that brings a choice above it. So all kernels
are found that do not, the others are left out, and the best of these choices is the best of all
where it costs no more than the figure. The figure goes up by steps, from what any choice costs at
least to what the known choice costs: few kernels stay below a low one.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mgn.dialects.kernel.device import Device
from mgn.passes.saturate.candidates.arranging import Placer
from mgn.passes.saturate.candidates.candidates import CandidateSet, Template, undominated
from mgn.passes.saturate.candidates.commits import commit_seconds
from mgn.passes.saturate.candidates.every_kernel import EveryKernel
from mgn.passes.saturate.candidates.kernel_bodies import TooMany
from mgn.passes.saturate.candidates.limits import BEYOND, TIME, CutLimits
from mgn.passes.saturate.candidates.prepared_copies import prepared_copies
from mgn.passes.saturate.candidates.within import SLACK, Within
from mgn.passes.saturate.egraph.view import View
from mgn.passes.saturate.extraction.extract import Extraction, extract
from mgn.passes.saturate.extraction.report import PROVED
from mgn.passes.saturate.extraction.work import Work

STEPS = (0.05, 0.15, 0.4, 1.0)
"""Where the figures lie between what any choice costs at least and what the known one costs."""


@dataclass(frozen=True)
class Searched:
    """Candidates, and the choice among them."""

    found: CandidateSet
    extraction: Extraction


def search_whole(
    view: View, known: Searched, device: Device, limits: CutLimits, work: Work
) -> Searched:
    """The candidates and the choice, or a cheaper one among more candidates, with the work that is
    left. Where there are too many kernels, those of heavy operations have one root each.
    """
    searched = _WholeSearch(view, known, device, limits, work, heavy_roots=True).best()
    heavy = any(signature.heavy is not None for signature in view.signatures)
    if not heavy or TIME not in searched.found.left_out:
        return searched
    fewer = _WholeSearch(view, known, device, limits, work, heavy_roots=False).best()
    if searched.extraction.selection.cost <= fewer.extraction.selection.cost:
        return searched
    left_out = searched.found.left_out | fewer.found.left_out
    return replace(fewer, found=replace(fewer.found, left_out=left_out))


class _WholeSearch:
    """The search beside what is known of a graph."""

    def __init__(
        self,
        view: View,
        known: Searched,
        device: Device,
        limits: CutLimits,
        work: Work,
        heavy_roots: bool,
    ) -> None:
        self.view, self.known, self.device, self.limits = view, known, device, limits
        self.work = work
        self.every = EveryKernel(view, known.found, device, limits, heavy_roots)
        self.placer = Placer(view, known.found.handed)

    def best(self) -> Searched:
        """The best choice found; candidates are those among which it was made."""
        best, every = self.known, self.every
        try:
            least = every.least(best.extraction.selection.cost)
            for step in STEPS:
                cost = best.extraction.selection.cost
                if least >= cost * (1.0 - PROVED):
                    break
                most = min(least + step * (cost - least), cost * (1.0 - PROVED))
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
        found, view = self.known.found, self.view
        classes = self.placer.place(self.every.made, self.every.classes)
        self.placer.sort()
        wider = found.only(found.candidates)
        wider.handed = frozenset(self.placer.known.values())
        wider.position = {key: place for place, key in enumerate(view.classes)}
        for template in templates:
            candidate = wider.add(template, classes)
            candidate.price += commit_seconds(view, candidate, self.device)
        for template, names in prepared_copies(view, wider, self.device):
            wider.add(template, names)
        within, usual = Within(wider), len(found.candidates)
        kept = [
            item
            for item in wider.candidates
            if item.number < usual or within.cost_with(item) <= most * (1.0 + SLACK)
        ]
        wider = wider.only(kept if self.view.left else undominated(kept))
        if len(wider.candidates) > self.limits.likely or self.work.left <= 0.0:
            raise TooMany
        return Searched(wider, extract(wider, self.work))

    def _described(self, best: Searched, left_out: Counter[str]) -> Searched:
        """The search with what it left out and why."""
        found = best.found
        found.considered += self.every.met
        if TIME in left_out:
            left_out += found.left_out
        return replace(best, found=replace(found, left_out=left_out))
