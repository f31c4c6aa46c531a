"""Kernels that could have been chosen, and what the whole program would cost with them.

`choices_of` lists them by price, for the report; the rest is for the page.

In: a view, all candidates, the chosen ones. Out: for a chosen kernel the candidates that write the
same value, each with its price and the program's cost when it is put in the chosen one's place.

All other choices stay; what a candidate then wants in memory is written by the kernel of least flow
(`flow.py`). So the cost is an upper bound of the best choice with that candidate.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mgn.dialects.kernel.device import Device
from mgn.passes.saturate.candidates.candidates import Candidate, CandidateSet, Template
from mgn.passes.saturate.egraph.view import View
from mgn.passes.saturate.explain.flow import flow_preferences
from mgn.passes.saturate.explain.trace import SaturateTrace
from mgn.passes.saturate.extraction.report import KernelChoice, PricedKernel
from mgn.passes.saturate.extraction.selection import CyclicSelection, Selection, select
from mgn.passes.saturate.prices.forms import classify
from mgn.passes.saturate.prices.kernel_facts import price_alone


@dataclass(frozen=True)
class Alternative:
    """A candidate that was not chosen. `change` is of the program's cost; None for one that would
    have to wait for itself.
    """

    candidate: Candidate
    change: float | None
    added: tuple[Candidate, ...] = ()
    dropped: tuple[Candidate, ...] = ()


class Alternatives:
    """Compares candidates within one choice of kernels."""

    def __init__(self, trace: SaturateTrace, device: Device) -> None:
        assert trace.view is not None and trace.found is not None and trace.selection is not None
        self.view, self.found, self.selection = trace.view, trace.found, trace.selection
        self.device = device
        self.flow = flow_preferences(self.found, list(self.view.classes))
        self.preferred = {**self.flow, **self.selection.writer}

    def of(self, candidate: Candidate, most: int = 8) -> tuple[list[Alternative], int]:
        """What else could write the values of a chosen kernel, cheapest first, and how many."""
        written = [
            key for key in candidate.results if self.selection.writer.get(key) == candidate.number
        ]
        rivals = {number: None for key in written for number in self._writers(key)}
        rivals.pop(candidate.number, None)
        tried = [self._with(self.found.candidates[n], candidate, written) for n in rivals]
        never = float("inf")
        tried.sort(key=lambda item: never if item.change is None else item.change)
        return tried[:most], len(tried)

    def _writers(self, key: int) -> list[int]:
        """The candidates that write a value and read none that no candidate can write."""
        inputs = {n: self.found.candidates[n].inputs for n in self.found.writers[key]}
        return [n for n, read in inputs.items() if all(item in self.preferred for item in read)]

    def separately(self, candidate: Candidate) -> float | None:
        """The sum of the prices of a body's operations as kernels of their own."""
        total = 0.0
        for node in candidate.body:
            form = classify([node], self.view.signatures)
            if form is None:
                return None
            types = {
                key: self.view.classes[key].type
                for key in node[2]
                if not self.view.classes[key].inline
            }
            total += price_alone([node], form, [node[0]], types, self.view.signatures, self.device)
        return total

    def _with(self, rival: Candidate, instead: Candidate, written: Sequence[int]) -> Alternative:
        """A rival in place of a chosen kernel, which writes these values: others write those of
        them that the rival does not.
        """
        preferred = dict(self.preferred)
        for key in written:
            others = [n for n in self._writers(key) if n != instead.number]
            if key in rival.results:
                preferred[key] = rival.number
            elif self.flow[key] != instead.number:
                preferred[key] = self.flow[key]
            elif others:
                prices = {n: self.found.candidates[n].price for n in others}
                preferred[key] = min(others, key=lambda n: (prices[n], n))
        try:
            chosen = select(self.found, preferred)
        except CyclicSelection:
            return Alternative(rival, None)
        before, after = set(self.selection.kernels), set(chosen.kernels)
        candidates = self.found.candidates
        return Alternative(
            rival,
            chosen.cost - self.selection.cost,
            tuple(candidates[n] for n in chosen.kernels if n not in before and n != rival.number),
            tuple(candidates[n] for n in self.selection.kernels if n not in after),
        )


def choices_of(view: View, found: CandidateSet, selection: Selection) -> tuple[KernelChoice, ...]:
    """The chosen kernels, equal ones once, and the candidates rejected in their place."""
    numbers: dict[Template, list[int]] = {}
    for number in selection.kernels:
        numbers.setdefault(found.candidates[number].template, []).append(number)
    return tuple(
        _choice(view, found, selection, found.candidates[equal[0]], len(equal))
        for equal in numbers.values()
    )


def _choice(
    view: View, found: CandidateSet, selection: Selection, candidate: Candidate, count: int
) -> KernelChoice:
    def priced(template: Template) -> PricedKernel:
        names = tuple(view.signatures[number].name for _, number, _ in template.body)
        return PricedKernel(str(template.form.kind), names, len(template.results), template.price)

    written = [key for key in candidate.results if selection.writer.get(key) == candidate.number]
    rivals = {number for key in written for number in found.writers[key]} - {candidate.number}
    rejected = [priced(found.candidates[number].template) for number in sorted(rivals)]
    chosen, arranged = priced(candidate.template), candidate.template.arranged
    if arranged is not None:
        chosen = replace(chosen, arrangement=arranged.text, price=arranged.price)
        rejected += [
            replace(chosen, arrangement=text, price=price) for text, price in arranged.dearer
        ]
    return KernelChoice(chosen, count, tuple(sorted(rejected, key=lambda item: item.price)))
