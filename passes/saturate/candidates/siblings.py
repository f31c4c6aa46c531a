"""Kernels that compute two values side by side, neither from the other, and read what both need
once.

In: a view and its candidates of one result. Out: candidates of two: both arms of a diamond that are
wanted, two statistics of the same rows.
"""

from collections.abc import Container, Iterator, Mapping
from itertools import combinations

from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel.device import Device
from mgn.dialects.shifts import LARGEST, SHIFTS
from mgn.passes.saturate.candidates.candidates import Candidate, CandidateSet, Template
from mgn.passes.saturate.candidates.cuts import body_order, leaves_of
from mgn.passes.saturate.candidates.priced_bodies import PricedBodies
from mgn.passes.saturate.candidates.reach import Reach
from mgn.passes.saturate.candidates.repetition import table
from mgn.passes.saturate.egraph.view import View
from mgn.passes.saturate.prices.forms import BodyNode, renamed
from mgn.passes.saturate.prices.prices import price_per_run

READERS = 6
"""Readers of one value that are tried with each other."""
WAYS = 2
"""Candidates of one class that are tried: the cheapest, and the next that reads other values."""

MERGED = (KernelKind.POINTWISE, KernelKind.REDUCTION)

LIKE_ANY = frozenset({(LARGEST, SHIFTS)})
"""What a kernel may say that reads and writes what any other might."""

Space = tuple[KernelKind, tuple[int, ...], tuple[int, ...]]
Placed = tuple[Template, tuple[int, ...]]
_Pair = tuple[Template, Template, tuple[int, ...]]


def sibling_candidates(
    view: View, found: CandidateSet, device: Device, reach: Reach
) -> Iterator[Placed]:
    """Templates of two results, with their classes, that are cheaper than the two kernels they
    replace.
    """
    groups: dict[tuple[int, Space], list[Candidate]] = {}
    for candidate in _cheap_alone(found):
        form = candidate.template.form
        if form.kind not in MERGED or not LIKE_ANY.issuperset(candidate.template.facts):
            continue
        root = view.signatures[candidate.template.body[-1][1]]
        shape = root.shape if form.kind is KernelKind.POINTWISE else form.shape
        for read in _read_by(candidate, view, found.handed):
            groups.setdefault((read, (form.kind, shape, form.axes)), []).append(candidate)
    tried: set[tuple[int, int]] = set()
    merger = _Merger(view, device, found.memoise)
    for readers in groups.values():
        for first, second in combinations(readers[:READERS], 2):
            pair = (first.number, second.number)
            if pair not in tried and first.results != second.results:
                tried.add(pair)
                template, classes = merger.merged(first, second)
                if template is not None and not _waits(template, classes, reach):
                    yield template, classes


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


def _cheap_alone(found: CandidateSet) -> Iterator[Candidate]:
    """For each class a few candidates that write it alone, from different values: first the
    cheapest of all classes.
    """
    ways: list[list[Candidate]] = [[] for _ in range(WAYS)]
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
            if len(tried) == WAYS:
                break
    for place in ways:
        yield from place


def _waits(template: Template, classes: tuple[int, ...], reach: Reach) -> bool:
    """Whether an input depends on a result."""
    return any(
        reach.depends(classes[item], classes[result])
        for item in template.inputs
        for result in template.results
    )


class _Merger:
    """Merges two kernels into one: each pair of templates once, for each way they share values."""

    def __init__(self, view: View, device: Device, memoise: bool) -> None:
        self.view = view
        self.priced = PricedBodies(view.signatures, device)
        self.used: dict[Template, tuple[int, ...]] = {}
        self.made: dict[_Pair, tuple[Template | None]] = table(memoise)

    def merged(
        self, first: Candidate, second: Candidate
    ) -> tuple[Template | None, tuple[int, ...]]:
        """The template of both, None where there is none that is cheaper, and its classes."""
        names: dict[int, int] = {}
        shared = tuple(
            names.setdefault(candidate.classes[name], len(names))
            for candidate in (first, second)
            for name in self._used(candidate.template)
        )
        key = (first.template, second.template, shared)
        known = self.made.get(key)
        if known is None:
            known = self.made[key] = (self._merge(first, second, names),)
        return known[0], tuple(names)

    def _used(self, template: Template) -> tuple[int, ...]:
        """The names that a template's body mentions."""
        known = self.used.get(template)
        if known is None:
            mentioned = {name: None for node in template.body for name in (node[0], *node[2])}
            known = self.used[template] = tuple(mentioned)
        return known

    def _merge(
        self, first: Candidate, second: Candidate, names: Mapping[int, int]
    ) -> Template | None:
        classes, signatures = self.view.classes, self.view.signatures
        nodes: dict[int, BodyNode] = {node[0]: node for node in (*second.body, *first.body)}
        results = first.results + second.results
        prepared = classes[first.results[0]].prepared
        if classes[second.results[0]].prepared is not prepared:
            return None
        if any(result in other.reads for result in results for other in (first, second)):
            return None
        ordered = body_order(nodes, results)
        if ordered is None:
            return None
        reads = [item for item in leaves_of(ordered) if not classes[item].inline]
        body = renamed(ordered, names)
        form = self.priced.form(body)
        roots = [signatures[nodes[result][1]] for result in results]
        if form is None or form.kind is not first.kind:
            return None
        written = tuple(names[result] for result in results)
        if not all(
            form.writable(name, root, roots[0]) for name, root in zip(written, roots, strict=True)
        ):
            return None
        types = {names[item]: classes[item].type for item in reads}
        price = self.priced.price(body, form, written, types)
        price = price_per_run(price, prepared)
        if price >= first.price + second.price:
            return None
        inputs = tuple(names[item] for item in reads if classes[item].leaf is None)
        facts = self.priced.facts(body, form, written, types)
        return Template(body, form, written, tuple(types), inputs, price, facts)
