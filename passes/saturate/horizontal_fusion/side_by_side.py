"""Horizontal fusion: kernels that compute several values side by side and read what these share
once.

In: a view and its candidates of one result. Out: candidates of two results and more: both arms of a
diamond, all statistics of the same rows, a copy of rows beside their sum.

Two candidates are joined where both read one value in one iteration space. What was joined for less
is joined with further ones of the same space. Three kinds of join are left out:

- One that costs as much as the kernels that it joins: these write as much, and read no more.
- One that writes what no candidate reads and no output is: the join without it writes less.
- One with an input that depends on one of its results: no choice can run it.

Beyond that there are limits (`CutLimits`) for want of time.
"""

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel.device import Device
from mgn.dialects.stabilising_maximum import MAXIMUM, STABILISES
from mgn.passes.saturate.candidates.candidates import Candidate, CandidateSet, Template
from mgn.passes.saturate.candidates.limits import NO_GAIN, TIME, CutLimits
from mgn.passes.saturate.candidates.priced_bodies import body_order, leaves_of
from mgn.passes.saturate.candidates.reach import Reach
from mgn.passes.saturate.candidates.repetition import table
from mgn.passes.saturate.egraph.view import View
from mgn.passes.saturate.prices.bodies import BodyNode, renamed
from mgn.passes.saturate.prices.prices import price_per_run

MERGED = (KernelKind.POINTWISE, KernelKind.REDUCTION, KernelKind.ORDER)

LIKE_ANY = frozenset({(MAXIMUM, STABILISES)})
"""What a kernel may say that reads and writes what any other might."""

Space = tuple[KernelKind, tuple[int, ...], tuple[int, ...]]
Group = tuple[int, Space]
Placed = tuple[Template, tuple[int, ...]]
_Pair = tuple[Template, Template, tuple[int, ...]]


def sibling_candidates(
    view: View, found: CandidateSet, device: Device, reach: Reach, limits: CutLimits
) -> Iterator[Placed]:
    """Templates of several results, with their classes, that are cheaper than the kernels that
    they join.
    """
    return _Joiner(view, found, device, reach, limits).joins()


@dataclass(frozen=True)
class _Join:
    """Candidates side by side, by their numbers; `saves` says that together they cost less."""

    candidate: Candidate
    parts: frozenset[int]
    saves: bool = True


class _Joiner:
    """Joins candidates, each set of them once."""

    def __init__(
        self, view: View, found: CandidateSet, device: Device, reach: Reach, limits: CutLimits
    ) -> None:
        self.view, self.found, self.reach, self.limits = view, found, reach, limits
        self.merger = Merger(view, found, device)
        self.known: set[frozenset[int]] = set()
        self.beyond: dict[Group, list[Candidate]] = {}

    def joins(self) -> Iterator[Placed]:
        """The joins that save something."""
        yield from map(_placed, self._some(self._groups()))

    def _groups(self) -> dict[Group, list[Candidate]]:
        """The candidates of one space that read a value. Beside reductions are pointwise ones that
        write values of the shape that these reduce, where joins are wide.
        """
        groups: dict[Group, list[Candidate]] = {}
        plain: dict[tuple[int, tuple[int, ...]], list[Candidate]] = {}
        wanted = {item for candidate in self.found.candidates for item in candidate.inputs}
        wanted.update(self.found.outputs)
        for candidate in _cheap_alone(self.found, self.limits.forms):
            form = candidate.template.form
            if form.kind not in MERGED or not LIKE_ANY.issuperset(candidate.template.facts):
                continue
            if candidate.results[0] not in wanted:
                continue
            shape = candidate.template.shape(self.view.signatures)
            for read in _read_by(candidate, self.view, self.found.handed):
                groups.setdefault((read, (form.kind, shape, form.axes)), []).append(candidate)
                if form.kind is KernelKind.POINTWISE:
                    plain.setdefault((read, shape), []).append(candidate)
        for group, readers in groups.items():
            read, (kind, shape, _) = group
            beyond = readers[self.limits.readers :]
            self.found.left_out[TIME] += len(beyond) * (len(readers) - 1)
            self.beyond[group] = beyond[: self.limits.together] if self.limits.wide else []
            del readers[self.limits.readers :]
            if kind is KernelKind.REDUCTION and self.limits.wide:
                readers += plain.get((read, shape), ())[: self.limits.readers]
        return groups

    def _some(self, groups: Mapping[Group, Sequence[Candidate]]) -> Iterator[_Join]:
        """The pairs of each group, and in graphs that are not large what the first pair that saves
        something is joined with. Wider joins tie classes together, for which kernels then have to
        be chosen at once: in large graphs this takes long.
        """
        for group, readers in groups.items():
            alone = [_Join(item, frozenset({item.number})) for item in readers]
            pairs = [self._joined(one, other.candidate) for one, other in combinations(alone, 2)]
            saving = [pair for pair in pairs if pair is not None and pair.saves]
            yield from saving
            if len(readers) > 2 and saving and self.limits.wide:
                yield from self._wider(saving[0], [*readers, *self.beyond[group]])

    def _wider(self, join: _Join, readers: Sequence[Candidate]) -> Iterator[_Join]:
        """A join with all that save something besides, one after another."""
        for second in readers:
            wider = self._joined(join, second)
            if wider is not None and wider.saves:
                join = wider
                yield wider

    def _joined(self, join: _Join, second: Candidate) -> _Join | None:
        """A join and one candidate more; None where there is none, or it was tried before."""
        parts = join.parts | {second.number}
        if parts in self.known or not set(join.candidate.results).isdisjoint(second.results):
            return None
        self.known.add(parts)
        template, classes = self.merger.merged(join.candidate, second)
        if template is None or waits(template, classes, self.reach):
            return None
        saves = template.price < join.candidate.price + second.price
        self.found.left_out[NO_GAIN] += not saves
        return _Join(Candidate(-1, template, classes), parts, saves)


def _placed(join: _Join) -> Placed:
    """A join as others see it."""
    return join.candidate.template, join.candidate.classes


def _read_by(candidate: Candidate, view: View, handed: Container[int]) -> dict[int, None]:
    """What a candidate reads; for parts of a result also what they were made from."""
    read = dict.fromkeys(candidate.reads)
    pending = [key for key in read if key in handed]
    while pending:
        for member in view.classes[pending.pop()].members:
            pending += [item for item in member.operands if item in handed]
            for item in member.operands:
                made = (other for m in view.classes[item].members for other in m.operands)
                read.update(dict.fromkeys((item, *made)))
    return read


def _cheap_alone(found: CandidateSet, forms: int) -> Iterator[Candidate]:
    """For each class a few candidates that write it alone, from different values: first the
    cheapest of all classes.
    """
    ways: list[list[Candidate]] = [[] for _ in range(forms)]
    for numbers in found.writers.values():
        writers = map(found.candidates.__getitem__, numbers)
        alone = [item for item in writers if len(item.results) == 1]
        alone.sort(key=lambda item: (item.price, item.number))
        tried: list[frozenset[int]] = []
        for candidate in alone:
            reads = frozenset(candidate.reads)
            if reads not in tried:
                ways[len(tried)].append(candidate)
                tried.append(reads)
            if len(tried) == forms:
                break
    for place in ways:
        yield from place


def waits(template: Template, classes: tuple[int, ...], reach: Reach) -> bool:
    """Whether an input depends on a result."""
    return any(
        reach.depends(classes[item], classes[result])
        for item in template.inputs
        for result in template.results
    )


class Merger:
    """Joins two kernels to one of some kinds: each pair of templates once, for each way in which
    they share values. Where they are `chained`, the second may read what the first writes.
    """

    def __init__(
        self,
        view: View,
        found: CandidateSet,
        device: Device,
        kinds: Collection[KernelKind] = MERGED,
        chained: bool = False,
    ) -> None:
        self.view, self.kinds, self.chained = view, kinds, chained
        self.priced = found.priced_on(view.signatures, device)
        self.made: dict[_Pair, tuple[Template | None]] = table(found.memoise)

    def merged(
        self, first: Candidate, second: Candidate
    ) -> tuple[Template | None, tuple[int, ...]]:
        """The template of both, None where there is none, and its classes."""
        names: dict[int, int] = {}
        shared = tuple(
            names.setdefault(candidate.classes[name], len(names))
            for candidate in (first, second)
            for name in candidate.template.mentioned
        )
        key = (first.template, second.template, shared)
        known = self.made.get(key)
        if known is None:
            known = self.made[key] = (self._merge(first, second, names),)
        return known[0], tuple(names)

    def _merge(
        self, first: Candidate, second: Candidate, names: Mapping[int, int]
    ) -> Template | None:
        classes, signatures = self.view.classes, self.view.signatures
        results = first.results + second.results
        prepared = classes[first.results[0]].prepared
        if classes[second.results[0]].prepared is not prepared:
            return None
        if not self.chained and not set(first.results).isdisjoint(second.reads):
            return None
        if not set(second.results).isdisjoint(first.reads):
            return None
        nodes: dict[int, BodyNode] = {node[0]: node for node in (*second.body, *first.body)}
        ordered = body_order(nodes, results)
        if ordered is None:
            return None
        reads = [item for item in leaves_of(ordered) if not classes[item].inline]
        body = renamed(ordered, names)
        form = self.priced.form(body)
        if form is None or form.kind not in self.kinds:
            return None
        roots = [signatures[nodes[result][1]] for result in results]
        written = tuple([names[result] for result in results])
        if not all(map(form.writable, written, roots, [roots[0]] * len(roots))):
            return None
        types = {names[item]: classes[item].type for item in reads}
        price = self.priced.price(body, written, types)
        price = price_per_run(price, prepared)
        inputs = tuple(names[item] for item in reads if classes[item].leaf is None)
        facts = self.priced.facts(body, written, types)
        return Template(body, form, written, tuple(types), inputs, price, facts)
