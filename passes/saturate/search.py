"""The search for kernels: a rough choice, candidates that depend on it, and the final choice.

In: the view of a saturated graph. Out: its candidates, and the choice among them.

A value keeps the few candidates that seem to cost the program least. The cost of a candidate
depends on the values that it reads: whether these lie in memory for another kernel too. Only a
choice says that. So the search finds a few candidates by a guess, and makes a rough choice among
them. The rough choice says which values lie in memory, and how many kernels read each. With these
numbers the search finds all candidates, and adds the kernels of the rough choice. Mappers to lookup
tables recover area in this way (A. Mishchenko, S. Cho, S. Chatterjee, R. Brayton, "Combinational
and sequential mapping with priority cuts", ICCAD 2007).

In a graph of few values the first choice has all candidates too. Each further choice uses the
numbers of the one before, until no choice costs less. Where the kernels are few enough, the search
looks at all of them.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from mgn.dialects.kernel.device import Device
from mgn.passes.saturate.candidates.candidates import Candidate, CandidateSet
from mgn.passes.saturate.candidates.commits import charge_commits
from mgn.passes.saturate.candidates.limits import CutLimits
from mgn.passes.saturate.candidates.offers import CandidateFinder
from mgn.passes.saturate.candidates.prepared_copies import prepared_copies
from mgn.passes.saturate.candidates.reach import Reach
from mgn.passes.saturate.candidates.rounding_order import keeps_bits
from mgn.passes.saturate.egraph.view import View
from mgn.passes.saturate.extraction.chosen_joins import extract_joined
from mgn.passes.saturate.extraction.extract import Extractor, extract, work_for
from mgn.passes.saturate.extraction.report import PROVED
from mgn.passes.saturate.extraction.selection import Selection
from mgn.passes.saturate.extraction.whole_search import Searched, search_whole
from mgn.passes.saturate.extraction.work import Work
from mgn.passes.saturate.horizontal_fusion.attention_joins import attention_joins
from mgn.passes.saturate.horizontal_fusion.column_joins import column_joins
from mgn.passes.saturate.horizontal_fusion.side_by_side import sibling_candidates


@contextmanager
def timed(seconds: dict[str, float], stage: str) -> Iterator[None]:
    """Adds the processor's seconds to those of a stage. Budgets are in these seconds too."""
    started = time.process_time()
    yield
    seconds[stage] = seconds.get(stage, 0.0) + time.process_time() - started


class Search:
    """The search in one view; `seconds` gets the time of each stage. Without `fuse`, each operation
    has a kernel of its own.
    """

    def __init__(
        self, view: View, device: Device, limits: CutLimits, fuse: bool, seconds: dict[str, float]
    ) -> None:
        self.view, self.device, self.limits, self.fuse = view, device, limits, fuse
        self.seconds = seconds
        self.finder = CandidateFinder(view, device)
        self.handed = frozenset[int]()

    def best(self, budget: float) -> Searched:
        """The cheapest choice that the search finds, and its candidates. `budget` is the seconds
        for all choices where candidates are few.
        """
        if not self.fuse:
            found = self._candidates(self.limits)
            with timed(self.seconds, "extract"):
                return Searched(found, extract(found, work_for(found, budget)))
        if self.limits.whole:
            return self._of_all(budget)
        return self._of_few_values(budget) if self.limits.wide else self._told(budget)

    def _of_all(self, budget: float) -> Searched:
        """The choice among all kernels, where these are few enough."""
        known, work = self._guessed(budget)
        with timed(self.seconds, "extract"):
            return search_whole(self.view, known, self.device, self.limits, work)

    def _of_few_values(self, budget: float) -> Searched:
        """The best of several choices. Each knows which values the one before has in memory."""
        best, work = self._guessed(budget)
        while work.left > 0.0:
            chosen = best.extraction.selection
            found = self._candidates(self.limits, _kernels(best.found, chosen))
            other = self._choice(found, work)
            if other.extraction.selection.cost >= chosen.cost * (1.0 - PROVED):
                break
            best = other
        return best

    def _guessed(self, budget: float) -> tuple[Searched, Work]:
        """The choice among candidates found by a guess, and the work that is left."""
        found = self._candidates(self.limits)
        work = work_for(found, budget)
        return self._choice(found, work), work

    def _told(self, budget: float) -> Searched:
        """The choice among candidates that depend on a rough choice."""
        rough = self._candidates(self.limits.rough)
        with timed(self.seconds, "extract"):
            work = work_for(rough, budget)
            given = work.left
            chosen = Extractor(rough, work).soon()
        found = self._candidates(self.limits, _kernels(rough, chosen))
        work.left += work_for(found, budget).left - given
        return self._choice(found, work)

    def _choice(self, found: CandidateSet, work: Work) -> Searched:
        """The choice among candidates, with the work that is left."""
        with timed(self.seconds, "extract"):
            choice = extract_joined(self.view, found, self.device, self.limits, work)
            return Searched(found, choice)

    def _candidates(self, limits: CutLimits, chosen: Sequence[Candidate] = ()) -> CandidateSet:
        """Candidates within limits. The kernels of a choice, where one is known, are among them."""
        view, device = self.view, self.device
        with timed(self.seconds, "candidates"):
            reach = Reach(view)
            takers = takers_of(chosen) if chosen else None
            found = self.finder.find(reach, limits, takers, self.handed)
            if self.fuse:
                reach = Reach(view) if found.handed else reach
                joined = [*sibling_candidates(view, found, device, reach, limits)]
                joined += attention_joins(view, found, device, reach)
                for template, classes in [*joined, *prepared_copies(view, found, device)]:
                    if not limits.keep_bits or keeps_bits(template.body, view.signatures):
                        found.add(template, classes)
                if not limits.keep_bits:
                    for template, classes in [*column_joins(view, found, device, reach)]:
                        found.add(template, classes)
            found.add_missing(chosen)
            charge_commits(view, found, device)
        self.handed = found.handed
        return found


def _kernels(found: CandidateSet, chosen: Selection) -> list[Candidate]:
    """The kernels of a choice."""
    return [found.candidates[number] for number in chosen.kernels]


def takers_of(kernels: Sequence[Candidate]) -> Mapping[int, int]:
    """For each value that the kernels write, how many of them read it; at least 1."""
    takers = {key: 0 for kernel in kernels for key in kernel.results}
    for kernel in kernels:
        for key in dict.fromkeys(kernel.inputs):
            takers[key] += 1
    return {key: max(count, 1) for key, count in takers.items()}
