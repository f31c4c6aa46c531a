"""Candidates that are in no choice that costs less than a known one.

In: candidates, and what a choice may cost. Out: those that may be in a choice of at most that cost.

Let c be a candidate of a choice. The choice also obtains what c reads. That takes, for each input,
a candidate that writes it and what is read by that one, and so on up to memory: `obtained` is the
least sum of such a chain. Where c writes no output, another candidate reads a result of c, and so
on down to an output: `used` is the least sum of that chain. No candidate is in both: it would wait
for itself. So the choice costs at least

    price of c + the largest `obtained` of its inputs + the least `used` of its results

and at least the price of c and, for each output that c does not write, the least that a candidate
costs for each output that it writes.
"""

from collections.abc import Sequence
from math import inf

from mgn.passes.saturate.candidates.candidates import Candidate, CandidateSet

SLACK = 1e-9
"""By how much, relatively, sums may differ that were added in another order."""


class Within:
    """What candidates add to a choice at least; they include all that may be in one."""

    def __init__(self, found: CandidateSet) -> None:
        self.outputs = frozenset(found.outputs)
        place = found.position.__getitem__
        ordered = sorted(found.candidates, key=lambda item: max(map(place, item.results)))
        self.obtained = _obtained(ordered)
        self.used = self._used(ordered)
        self.share = dict.fromkeys(self.outputs, inf)
        for candidate in ordered:
            written = self.outputs.intersection(candidate.results)
            for key in written:
                self.share[key] = min(self.share[key], candidate.price / len(written))

    @property
    def least(self) -> float:
        """What any choice costs at least."""
        return max([self.obtained.get(key, inf) for key in self.outputs], default=0.0)

    def cost_with(self, candidate: Candidate) -> float:
        """What a choice costs at least that has a candidate."""
        before = _before(candidate, self.obtained)
        others = sum([self.share[key] for key in self.outputs.difference(candidate.results)])
        return candidate.price + max(before + self._after(candidate, self.used), others)

    def _used(self, ordered: Sequence[Candidate]) -> dict[int, float]:
        """For each class the least that it takes to read it, down to an output."""
        used: dict[int, float] = {}
        changed = True
        while changed:
            changed = False
            for candidate in reversed(ordered):
                cost = candidate.price + self._after(candidate, used)
                for key in candidate.inputs:
                    if cost < used.get(key, inf):
                        used[key], changed = cost, True
        return used

    def _after(self, candidate: Candidate, used: dict[int, float]) -> float:
        """The least that it takes to read a result of a candidate, down to an output."""
        if not self.outputs.isdisjoint(candidate.results):
            return 0.0
        return min([used.get(key, inf) for key in candidate.results])


def _obtained(ordered: Sequence[Candidate]) -> dict[int, float]:
    """For each class the least that it takes to obtain it, by the dearest of its inputs alone."""
    obtained: dict[int, float] = {}
    changed = True
    while changed:
        changed = False
        for candidate in ordered:
            cost = candidate.price + _before(candidate, obtained)
            for key in candidate.results:
                if cost < obtained.get(key, inf):
                    obtained[key], changed = cost, True
    return obtained


def _before(candidate: Candidate, obtained: dict[int, float]) -> float:
    return max([obtained.get(key, inf) for key in candidate.inputs], default=0.0)
