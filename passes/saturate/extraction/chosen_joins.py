"""Chosen kernels as one kernel where that costs less: one that reads what the other writes, or two
that read the same side by side.

In: a view, its candidates, and the choice among these. Out: a choice no two of whose kernels, one
of which reads from the other, cost less as one; and none that reads what one of the last few before
it reads, over the same shape. Kernels of arrangements stay as they are, and so do two that are both
neither pointwise nor reductions.

The search keeps a few ways to compute each value, before it is known which values lie in memory:
the kernel that does the work of two chosen ones may not be among them. Here it is tried. A program
that is spelt in another way so gets the same kernels, wherever the search left them out.

Let j do the work of the chosen kernels a and b, of which b reads what a writes. A choice that has j
is one without it where a and b stand in its place, and whatever obtains what they read and j does
not. So with j as one more candidate, no choice costs less than the bound was, less what that costs
more than j. That bound is rough where much has to be obtained. Then the choice is made once more
with such kernels among the candidates, until it costs no less than before, or no work is left. Of
few candidates it is also made among the kernels of any two chosen ones, joined or not.

Where a proof takes much, kernels are joined before the first one, in a choice that is found soon.
They are candidates of that proof already, so a second one is seldom needed.

Of few candidates the cheapest choice may have rings, and a proof without them takes several. It is
not looked for where joining leaves a choice near it farther from its bound: then the choice is made
once more in any case.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf

from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel.device import Device
from mgn.passes.saturate.candidates.candidates import Candidate, CandidateSet, Template
from mgn.passes.saturate.candidates.commits import commit_seconds
from mgn.passes.saturate.candidates.limits import CutLimits
from mgn.passes.saturate.candidates.priced_bodies import body_order, leaves_of
from mgn.passes.saturate.candidates.reach import Reach
from mgn.passes.saturate.candidates.repetition import table
from mgn.passes.saturate.candidates.rounding_order import keeps_bits
from mgn.passes.saturate.egraph.view import View
from mgn.passes.saturate.extraction.extract import Extraction, Extractor, extract, work_for
from mgn.passes.saturate.extraction.report import NEAR, PROVED
from mgn.passes.saturate.extraction.rings import LARGE
from mgn.passes.saturate.extraction.selection import Selection, price_from, select
from mgn.passes.saturate.extraction.work import Work
from mgn.passes.saturate.prices.bodies import BodyNode, renamed
from mgn.passes.saturate.prices.prices import price_per_run

LIGHT = (KernelKind.POINTWISE, KernelKind.REDUCTION)
"""Kinds of kernels that may go on in one of another kind, or begin it."""

WIDE = 20
"""Classes that one is tied to when it is eliminated, above which a proof takes so much that kernels
are joined before it. Of other problems a second proof takes no more than that.
"""

FEW, LOOK = 2_000, 0.1
"""Candidates up to which the kernels of any two chosen ones are looked at besides, and the share of
the work that is left which that may take: of more they seldom bring anything in that work.
"""


def extract_joined(
    view: View,
    found: CandidateSet,
    device: Device,
    limits: CutLimits,
    work: Work | None = None,
) -> Extraction:
    """The choice with kernels joined. Where a proof takes much, some are joined before the first
    one. They are candidates of it.
    """
    work = work_for(found) if work is None else work
    extractor = Extractor(found, work)
    begun: Sequence[int] = ()
    if work.left > 0.0 and extractor.is_wider(WIDE):
        begun = offer_joins(view, found, extractor.soon(), device, limits)
        extractor = Extractor(found, work)
    few = len(found.candidates) <= LARGE
    first = extractor.best(begun, rings=not few)
    if few and first.gap > PROVED and not first.budget_spent:
        count = len(found.candidates)
        joined = Joins(view, found, first, device, limits).joined()
        if not _is_as_near(joined, first):
            return _proved_again(view, found, (first, joined), device, limits, work, extractor)
        found.leave_out_from(count)
        first = extractor.best(begun)
    return join_chosen(view, found, first, device, limits, work, extractor)


def offer_joins(
    view: View,
    found: CandidateSet,
    chosen: Selection,
    device: Device,
    limits: CutLimits,
) -> list[int]:
    """Enters joined kernels of a choice. None of them reads what may depend on what it writes: in
    another choice it could wait for itself, and that ties many classes together. Given are the
    kernels that are chosen then, and after them those that were before.
    """
    reach, count = Reach(view), len(found.candidates)
    joined = Joins(view, found, Extraction(chosen, 0.0, 0, 0), device, limits).joined()
    made = found.candidates[count:]
    found.leave_out_from(count)
    entered = {number: number for number in range(count)}
    for joint in made:
        if not any(reach.depends(item, key) for item in joint.inputs for key in joint.results):
            added = found.add(joint.template, joint.classes)
            added.price = joint.price
            entered[joint.number] = added.number
    kernels = [entered[number] for number in joined.selection.kernels if number in entered]
    return [*kernels, *chosen.kernels]


def join_chosen(
    view: View,
    found: CandidateSet,
    extraction: Extraction,
    device: Device,
    limits: CutLimits,
    work: Work | None = None,
    like: Extractor | None = None,
) -> Extraction:
    """The choice with kernels joined, which are new candidates; the same where none is. What an
    extractor `like` the next ones has solved is not solved again.
    """
    work = work_for(found) if work is None else work
    joined = Joins(view, found, extraction, device, limits).joined()
    if extraction.budget_spent:
        return _while_better(view, found, joined, device, limits)
    if _is_as_near(joined, extraction):
        return _while_as_near(view, found, joined, device, limits)
    return _proved_again(view, found, (extraction, joined), device, limits, work, like)


def _proved_again(
    view: View,
    found: CandidateSet,
    known: tuple[Extraction, Extraction],
    device: Device,
    limits: CutLimits,
    work: Work,
    like: Extractor | None,
) -> Extraction:
    """The choice among all candidates, the joined ones too, where one is known, and that with its
    kernels joined, which left it farther from its bound.
    """
    extraction, best = known
    while not _is_as_near(best, extraction) and work.left > 0.0:
        extraction = extract(found, work, like)
        bound = min(max(extraction.bound, best.bound), extraction.selection.cost)
        extraction = replace(extraction, bound=bound)
        better = Joins(view, found, extraction, device, limits).joined()
        if better.selection.cost >= best.selection.cost * (1.0 - PROVED):
            bound = min(max(better.bound, best.bound), best.selection.cost)
            best = replace(extraction, selection=best.selection, bound=bound)
            break
        best = better
    best = _while_as_near(view, found, best, device, limits)
    return _with_any_two(view, found, best, device, limits, work)


def _while_as_near(
    view: View, found: CandidateSet, joined: Extraction, device: Device, limits: CutLimits
) -> Extraction:
    """A choice whose kernels are joined until that brings nothing, or would leave it farther from
    its bound.
    """
    while True:
        count = len(found.candidates)
        better = Joins(view, found, joined, device, limits).joined()
        if len(found.candidates) == count or not _is_as_near(better, joined):
            found.leave_out_from(count)
            return joined
        joined = better


def _while_better(
    view: View, found: CandidateSet, joined: Extraction, device: Device, limits: CutLimits
) -> Extraction:
    """A choice without a proof whose kernels are joined until that brings nothing: what its joined
    kernels do not need any more is left out each time, so others have fewer readers.
    """
    while True:
        better = Joins(view, found, joined, device, limits).joined()
        if better.selection.cost >= joined.selection.cost * (1.0 - PROVED):
            return joined
        joined = better


def _is_as_near(joined: Extraction, before: Extraction) -> bool:
    """Whether joining left a choice as near the best one as it was."""
    return joined.slack <= before.slack + PROVED * joined.selection.cost


def _with_any_two(
    view: View,
    found: CandidateSet,
    extraction: Extraction,
    device: Device,
    limits: CutLimits,
    work: Work,
) -> Extraction:
    """The choice, or a cheaper one among the kernels of any two of it, too, which are candidates
    only then: a proof that holds without them is given up for a choice that is worth it alone.
    """
    count = len(found.candidates)
    if count > FEW or work.left <= 0.0:
        return extraction
    Joins(view, found, extraction, device, limits).offer()
    if len(found.candidates) == count:
        return extraction
    with work.shared(LOOK):
        other = extract(found, work)
    better = Joins(view, found, other, device, limits).joined()
    worth = PROVED if _is_as_near(better, extraction) else NEAR
    if better.selection.cost >= extraction.selection.cost * (1.0 - worth):
        found.leave_out_from(count)
        return extraction
    return better


class Joins:
    """A choice whose kernels are joined one after another.

    `writer` is the kernel of each value that is written, `readers` those that read it, and `beside`
    those that read it while they go over a shape. `place` is where each kernel that is still needed
    stands in an order in which values are there when they are read. No choice costs less than
    `bound`.
    """

    def __init__(
        self,
        view: View,
        found: CandidateSet,
        extraction: Extraction,
        device: Device,
        limits: CutLimits,
    ) -> None:
        self.view, self.found, self.extraction = view, found, extraction
        self.device, self.limits = device, limits
        self.priced = found.priced_on(view.signatures, device)
        self.made = found.joints if found.memoise else table(False)
        self.pairs = found.pairs if found.memoise else table(False)
        self.outputs = frozenset(found.outputs)
        self.writer = dict(extraction.selection.writer)
        self.readers: dict[int, set[int]] = {}
        self.beside: dict[tuple[int, tuple[int, ...]], dict[int, None]] = {}
        self.bound = extraction.bound
        self.place: dict[int, int] = {}
        for place, number in enumerate(extraction.selection.kernels):
            self.place[number] = place
            self._note(found.candidates[number])

    def joined(self) -> Extraction:
        """The choice in which each kernel was tried as one with those that it reads from, until
        none is better so.
        """
        before = len(self.found.candidates)
        while self._joins_some():
            pass
        if len(self.found.candidates) == before:
            return self.extraction
        selection = select(self.found, self.writer, again=True)
        bound = min(max(self.bound, 0.0), selection.cost)
        return replace(self.extraction, selection=selection, bound=bound)

    def _joins_some(self) -> bool:
        """Whether some kernel is better as one with those that it reads from, or with one that
        reads what it does: each is tried.
        """
        changed = False
        for number in sorted(self.place, key=self.place.__getitem__):
            while number in self.place and (better := self._best(number)) is not None:
                number, changed = self._replace(*better), True
        return changed

    def offer(self) -> None:
        """Enters the kernels of any two that cost less than these, whether or not they write what
        others read of the first: these may come to have another way to obtain it.
        """
        for number in sorted(self.place, key=self.place.__getitem__):
            second = self.found.candidates[number]
            for other in dict.fromkeys(self.writer[item] for item in second.inputs):
                first = self.found.candidates[other]
                for wanted in dict.fromkeys(((), self.wanted(first, second))):
                    joint = self.joint(first, second, wanted)
                    if joint is not None and joint.price < first.price + second.price:
                        self.found.add(joint.template, joint.classes).price = joint.price

    def _note(self, kernel: Candidate) -> None:
        """Notes that a kernel reads what it does."""
        for item in kernel.inputs:
            self.readers.setdefault(item, set()).add(kernel.number)
        if (space := self._space(kernel)) is not None:
            for item in kernel.reads:
                self.beside.setdefault((item, space), {})[kernel.number] = None

    def _best(self, second: int) -> tuple[Candidate, Candidate, Candidate] | None:
        """A kernel from which another one reads, that one, and the kernel of both that saves the
        most; None where none saves anything.
        """
        kernel = self.found.candidates[second]
        found: tuple[Candidate, Candidate, Candidate] | None = None
        most = 0.0
        others = dict.fromkeys(self.writer[item] for item in kernel.inputs)
        others |= dict.fromkeys(self._beside(kernel))
        for number in others:
            first = self.found.candidates[number]
            if self._place_of(first, kernel) is None:
                continue
            joint = self.joint(first, kernel, self.wanted(first, kernel))
            if joint is not None and first.price + kernel.price - joint.price > most:
                found, most = (first, kernel, joint), first.price + kernel.price - joint.price
        return found

    def _space(self, kernel: Candidate) -> tuple[int, ...] | None:
        """The shape over which a kernel goes that others may go on beside."""
        return kernel.template.shape(self.view.signatures) if kernel.kind in LIGHT else None

    def _beside(self, kernel: Candidate) -> Iterator[int]:
        """The last few kernels before one that go over its space, and read what it does."""
        space = self._space(kernel)
        if space is None:
            return
        here = self.place[kernel.number]
        for item in kernel.reads:
            before = [number for number in self.beside[item, space] if self.place[number] < here]
            yield from before[-self.limits.readers :]

    def joint(
        self, first: Candidate, second: Candidate, wanted: tuple[int, ...]
    ) -> Candidate | None:
        """The kernel of both, which also writes what is wanted of the first; None where there is
        none. What arrangements hand from kernel to kernel stays as it is.
        """
        known = self.pairs.get((first, second, wanted))
        if known is None:
            known = self.pairs[first, second, wanted] = (self._joint(first, second, wanted),)
        return known[0]

    def _joint(
        self, first: Candidate, second: Candidate, wanted: tuple[int, ...]
    ) -> Candidate | None:
        """The same, worked out."""
        if first.kind not in LIGHT and second.kind not in LIGHT:
            return None
        for kernel in (first, second):
            if not self.found.handed.isdisjoint((*kernel.reads, *kernel.results)):
                return None
        names: dict[int, int] = {}
        name_of = names.setdefault
        shared = tuple(
            [
                name_of(kernel.classes[name], len(names))
                for kernel in (first, second)
                for name in kernel.template.mentioned
            ]
        )
        key = first.template, second.template, shared, tuple(names[item] for item in wanted)
        known = self.made.get(key)
        if known is None:
            known = self.made[key] = (self._template(first, second, wanted, names),)
        template, classes = known[0], tuple(names)
        if template is None:
            return None
        joint = Candidate(-1, template, classes)
        joint.price += commit_seconds(self.view, joint, self.device)
        return joint

    def wanted(self, first: Candidate, second: Candidate) -> tuple[int, ...]:
        """What the first of two kernels alone writes that is an output, or has another reader."""
        return tuple(
            item
            for item in first.results
            if item not in second.results
            and self.writer.get(item) == first.number
            and (item in self.outputs or self.readers.get(item, set()) - {second.number})
        )

    def _place_of(self, first: Candidate, second: Candidate) -> int | None:
        """Where the kernel of both may stand: behind all that the second reads, and before all
        others that read the first; None for neither of their places.
        """
        here, there = self.place[first.number], self.place[second.number]
        taken = [item for item in first.results if self.writer.get(item) == first.number]
        others = {number for item in taken for number in self.readers.get(item, ())}
        others.discard(second.number)
        if all(self.place[number] > there for number in others):
            return there
        writers = {self.writer[item] for item in second.inputs} - {first.number}
        return here if all(self.place[number] < here for number in writers) else None

    def _template(
        self,
        first: Candidate,
        second: Candidate,
        wanted: Sequence[int],
        names: Mapping[int, int],
    ) -> Template | None:
        """The template of the kernel of both, None where it is none."""
        classes, signatures, limits = self.view.classes, self.view.signatures, self.limits
        nodes: dict[int, BodyNode] = {node[0]: node for node in (*second.body, *first.body)}
        results = (*second.results, *wanted)
        prepared = classes[second.results[0]].prepared
        ordered = body_order(nodes, results)
        if ordered is None or classes[first.results[0]].prepared is not prepared:
            return None
        reads = [item for item in leaves_of(ordered) if not classes[item].inline]
        if len(ordered) > limits.operations or len(reads) > limits.leaves:
            return None
        if limits.keep_bits and not keeps_bits(ordered, signatures):
            return None
        body, written = renamed(ordered, names), tuple(names[item] for item in results)
        form = self.priced.form(body)
        if form is None or (form.reduced and self.device.is_cpu):
            return None
        roots = [signatures[nodes[item][1]] for item in results]
        beside = form.heavy is not None
        pairs = list(zip(written, roots, strict=True))[beside:]
        if not all(form.writable(name, root, roots[0]) for name, root in pairs):
            return None
        types = {names[item]: classes[item].type for item in reads}
        price = self.priced.price(body, written, types)
        if price == inf:
            return None
        inputs = tuple(names[item] for item in reads if classes[item].leaf is None)
        facts = self.priced.facts(body, written, types)
        price = price_per_run(price, prepared)
        return Template(body, form, written, tuple(types), inputs, price, facts)

    def _loses(self, first: Candidate, second: Candidate, joint: Candidate) -> float:
        """What both kernels cost more than the kernel of both, with what obtains that which they
        read alone: the chosen kernels, or others from what the kernel of both reads.
        """
        read = {*first.inputs, *second.inputs} - {*first.results, *joint.inputs}
        chosen = sum(self.found.candidates[number].price for number in self._obtaining(read))
        there = frozenset(joint.inputs)
        more = min(chosen, sum(price_from(self.found, there, item) for item in read))
        return first.price + second.price - joint.price + more

    def _obtaining(self, keys: Collection[int]) -> Iterator[int]:
        """The chosen kernels that write some values, or what these kernels read."""
        pending, met = [self.writer[key] for key in keys], set[int]()
        while pending:
            number = pending.pop()
            if number not in met:
                met.add(number)
                yield number
                pending += [self.writer[key] for key in self.found.candidates[number].inputs]

    def _replace(self, first: Candidate, second: Candidate, joint: Candidate) -> int:
        """Enters the kernel of two in their place."""
        place = self._place_of(first, second)
        assert place is not None, "the kernel of both was found to have a place"
        self.bound -= self._loses(first, second, joint)
        added = self.found.add(joint.template, joint.classes)
        added.price = joint.price
        self.place[added.number] = place
        for item in added.results:
            if self.writer.get(item) in (first.number, second.number):
                self.writer[item] = added.number
        self._note(added)
        self._leave_out([first.number, second.number])
        return added.number

    def _leave_out(self, numbers: Sequence[int]) -> None:
        """Leaves out kernels, and those that nobody else needed."""
        pending = [*numbers]
        while pending:
            number = pending.pop()
            if self.place.pop(number, None) is None:
                continue
            kernel = self.found.candidates[number]
            if (space := self._space(kernel)) is not None:
                for item in dict.fromkeys(kernel.reads):
                    del self.beside[item, space][number]
            for item in dict.fromkeys(kernel.inputs):
                self.readers[item].discard(number)
                writer = self.writer[item]
                if not self._is_needed(writer):
                    pending.append(writer)

    def _is_needed(self, number: int) -> bool:
        """Whether something that is taken from a kernel is an output, or has a reader."""
        return any(
            self.writer.get(item) == number and (item in self.outputs or self.readers.get(item))
            for item in self.found.candidates[number].results
        )
