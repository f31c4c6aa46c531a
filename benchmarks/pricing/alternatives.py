"""Other kernels for a program than those that are chosen, each of which can be compiled.

In: a program, a device's description. Out: `Choice`s of kernels with their predicted costs, the one
that compiling makes first. While one of them is `forced`, compiling the program takes its kernels.

The others are the cheapest choices with one more kernel, or without one that was chosen, and a
kernel for each operation. Of those that differ only in what is written and never read, or made when
parameters are set, the cheapest counts. Each way to arrange a kernel as several counts as kernels
of its own. Choices of kernels of the same kinds at the same cost count as one.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from unittest.mock import patch

import mgn
from benchmarks.pricing.programs import Program
from mgn.dialects.kernel.device import Device
from mgn.driver.compilation import optimize_graph
from mgn.passes.saturate import SaturateOptions
from mgn.passes.saturate.candidates.arranging import Arranger, NewValues
from mgn.passes.saturate.candidates.candidates import Arranged, Candidate, CandidateSet, Template
from mgn.passes.saturate.explain.trace import SaturateTrace
from mgn.passes.saturate.extraction.extract import extract
from mgn.passes.saturate.extraction.report import SaturateReport
from mgn.passes.saturate.extraction.selection import Selection
from mgn.passes.saturate.memo import Choice

TRIED = 40
"""Candidates that are forced into a choice, the cheapest of those that write what is written."""

FAR = 10.0
"""How many times as dear as the choice the dearest alternative is that is compiled."""


def forced(choice: Choice) -> AbstractContextManager[object]:
    """While this lasts, programs are compiled to a choice for them."""
    return patch("mgn.passes.saturate.saturate.recall", return_value=choice)


def alternatives(program: Program, device: Device, most: int) -> list[Choice]:
    """The choice that compiling makes, then up to `most` others by predicted cost."""
    chosen = _Run(program, device)
    with patch.object(Arranger, "offers", _every_way):
        every = _Run(program, device)
    separate = _Run(program, device, SaturateOptions(fuse=False))
    known = {chosen.text(chosen.selection): chosen.choice(chosen.selection)}
    for run, selection in (*((every, item) for item in every.others()), separate.own):
        known.setdefault(run.text(selection), run.choice(selection))
    first, *others = known.values()
    bound = FAR * first.selection.cost
    others.sort(key=lambda item: item.selection.cost)
    needed = {_needed(item): item for item in (*reversed(others), first)}
    others = [item for item in others if needed[_needed(item)] is item]
    unlike = {_outline(item): item for item in reversed(others) if item.selection.cost <= bound}
    unlike.pop(_outline(first), None)
    others = sorted(unlike.values(), key=lambda item: item.selection.cost)
    return [first, *_spread(others, most)]


def _needed(choice: Choice) -> frozenset[object]:
    """The kernels of each run of a choice, without what they write that nothing reads: compiling
    drops it.
    """
    kernels = [choice.found.candidates[number] for number in choice.selection.kernels]
    read = set(choice.found.outputs).union(*(item.inputs for item in kernels))
    return frozenset(
        (str(item.kind), frozenset(item.results) & read, frozenset(item.reads))
        for item in kernels
        if not all(choice.view.classes[key].prepared for key in item.results)
    )


def _outline(choice: Choice) -> tuple[str, ...]:
    """The kinds of the kernels of a choice, and its cost to three digits: alike for those that
    differ in the order of operations.
    """
    kinds = [str(choice.found.candidates[number].kind) for number in choice.selection.kernels]
    return (*sorted(kinds), f"{choice.selection.cost:.3g}")


def _spread(items: Sequence[Choice], most: int) -> list[Choice]:
    """The first half of `most`, and others evenly from the rest."""
    near, rest = list(items[: most - most // 2]), items[most - most // 2 :]
    count = min(most // 2, len(rest))
    return near + [rest[(number + 1) * len(rest) // count - 1] for number in range(count)]


def _every_way(self: Arranger, template: Template, values: NewValues) -> Iterator[Template]:
    """A template as it is, and each of its arrangements, whatever they cost."""
    yield template
    for way in self.ways(template, values):
        yield from way.pieces[:-1]
        arranged = Arranged(way.arrangement.text, way.price, ())
        yield replace(way.pieces[-1], arranged=arranged)


class _Run:
    """A program saturated for a device: its candidates and the choice among them."""

    def __init__(
        self, program: Program, device: Device, options: SaturateOptions | None = None
    ) -> None:
        trace, module = SaturateTrace(), mgn.parse(program.text).lower()
        report = optimize_graph(
            module, device, saturation=options, precision=program.precision, trace=trace
        ).saturation
        assert isinstance(report, SaturateReport) and trace.view is not None
        assert trace.found is not None and trace.selection is not None
        self.report = report
        self.view, self.found, self.selection = trace.view, trace.found, trace.selection

    @property
    def own(self) -> tuple["_Run", Selection]:
        return self, self.selection

    def choice(self, selection: Selection) -> Choice:
        """A selection as saturating a graph gives it."""
        report = replace(self.report, cost_after=selection.cost)
        return Choice(self.view, {}, self.found, selection, report)

    def text(self, selection: Selection) -> str:
        """The kernels of a selection, alike for equal ones."""
        return "; ".join(self.kernel(self.found.candidates[n]) for n in selection.kernels)

    def kernel(self, candidate: Candidate) -> str:
        """A kernel's operations with their sizes."""
        signatures = self.view.signatures
        names = [f"{signatures[n].name} {list(signatures[n].shape)}" for _, n, _ in candidate.body]
        facts = [f"{name} = {value}" for name, value in candidate.template.facts]
        return f"{candidate.kind} {', '.join([*names, *facts])} → {len(candidate.results)}"

    def others(self) -> Iterator[Selection]:
        """The cheapest selection, those without a kernel of it, and those with another one."""
        best = self._best(lambda candidate: True)
        if best is None:
            return
        yield best
        kernels = [self.found.candidates[number] for number in best.kernels]
        rivals = {n for item in kernels for key in item.results for n in self.found.writers[key]}
        for item in kernels:
            without = self._best(lambda other, item=item: other is not item)
            if without is not None:
                yield without
        cheapest = sorted(rivals - set(best.kernels), key=lambda n: self.found.candidates[n].price)
        for number in cheapest[:TRIED]:
            rival = self.found.candidates[number]
            written = set(rival.results)
            forced = self._best(lambda o, r=rival, w=written: o is r or w.isdisjoint(o.results))
            if forced is not None:
                yield forced

    def _best(self, allowed: Callable[[Candidate], bool]) -> Selection | None:
        """The cheapest selection of allowed candidates; None where these cannot make all."""
        left = CandidateSet(
            outputs=self.found.outputs, position=self.found.position, handed=self.found.handed
        )
        numbers: list[int] = []
        for candidate in self.found.candidates:
            if allowed(candidate):
                left.add(candidate.template, candidate.classes)
                numbers.append(candidate.number)
        needed, seen = list(left.outputs), set(left.outputs)
        while needed:
            key = needed.pop()
            if key not in left.writers:
                return None
            inputs = {n for w in left.writers[key] for n in left.candidates[w].inputs} - seen
            needed += inputs
            seen |= inputs
        found = extract(left).selection
        writer = {key: numbers[number] for key, number in found.writer.items()}
        return Selection(writer, [numbers[number] for number in found.kernels], found.cost)
