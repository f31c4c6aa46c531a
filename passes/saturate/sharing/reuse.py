"""A choice of kernels made of those that were chosen at other sizes.

In: the candidates of a graph, which were found and priced for its own sizes, and what is known of
other sizes of its structure. Out: an extraction among few of the candidates; or nothing, and all of
them have to be searched.

The few are those that were chosen at some known size, those that were no candidates there, and
those that rival a kernel chosen there and became cheaper beside it. Were there no others, and each
chosen kernel's price grew no more than that of any rival, the choice at the known size would be the
best one here as well. Where these few make the choice much cheaper than the known one, prices have
moved too far for that, and all candidates are searched.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mgn.passes.saturate.candidates.candidates import Candidate, CandidateSet
from mgn.passes.saturate.extraction.components import forced_classes
from mgn.passes.saturate.extraction.extract import Extraction, extract
from mgn.passes.saturate.extraction.flow import flow_preferences
from mgn.passes.saturate.extraction.selection import Selection
from mgn.passes.saturate.sharing.known_sizes import KnownSize, KnownSizes, NamedCandidates
from mgn.passes.saturate.sharing.structure import KernelName

WORTHWHILE = 500
"""Candidates from which on a search takes longer than to look at other sizes."""
NEAR = 0.03
"""How much cheaper, relatively, the choice may become by what a known size does not say is worse.
"""
FEW = 0.8
"""The share of the candidates above which a choice among these is no shorter search."""
CHEAPER = 1e-3
"""How much less, relatively, a rival's price has to grow to be looked at again."""


@dataclass(frozen=True)
class Shared:
    """An extraction that was found by way of another size."""

    extraction: Extraction
    sizes: str


def shared_choice(
    named: NamedCandidates, known: KnownSizes, order: Sequence[int], budget: float
) -> Shared | None:
    """The choice by way of the known size that is nearest in price; None where there is none, or
    what is known is not enough. `order` has all classes, operands before users.
    """
    found = named.found
    sizes = [item for item in known.sizes if item.outputs == named.outputs]
    if not sizes:
        return None
    nearest = min(sizes, key=lambda item: _distance(item, named))
    chosen = frozenset[KernelName]().union(*[item.chosen for item in sizes])
    same = [item for item in found.candidates if named.name(item) in chosen]
    flow = flow_preferences(found, order)
    few = _closed(found, same, flow)
    more = _closed(found, [*same, *_rivals(named, nearest)], flow)
    if len(more) > FEW * len(found.candidates):
        return None
    plain, best = (extract(found.only(items), budget) for items in (few, more))
    cost = best.selection.cost
    if best.timed_out or cost < plain.selection.cost * (1.0 - NEAR):
        return None
    bound = max(_least(found), *[item.bound_for(named) for item in sizes])
    selection = _among_all(best.selection, more)
    return Shared(replace(best, selection=selection, bound=min(bound, cost)), nearest.sizes)


def _distance(known: KnownSize, named: NamedCandidates) -> float:
    """How far a size is from others: by how many times its chosen kernels cost more or less."""
    shares = [
        named.prices[name] / known.prices[name]
        for name in known.chosen
        if name in named.prices and known.prices[name]
    ]
    lacking = len(known.chosen) - len(shares)
    return lacking + sum(max(item, 1.0 / item) - 1.0 for item in shares if item)


def _rivals(named: NamedCandidates, known: KnownSize) -> Iterator[Candidate]:
    """The candidates of no name at a known size, and those whose price has grown less than that of
    a kernel chosen there which computes a value that they compute, too.
    """
    growth = {
        name: price / known.prices[name]
        for name, price in named.prices.items()
        if known.prices.get(name)
    }
    most: dict[int, float] = {}
    for item in named.found.candidates:
        name = named.name(item)
        if name in known.chosen and name in growth:
            for key in _computed(item):
                most[key] = max(growth[name], most.get(key, 0.0))
    for item in named.found.candidates:
        name = named.name(item)
        chosen = max((most.get(key, 0.0) for key in _computed(item)), default=0.0)
        if name not in known.prices or growth.get(name, 0.0) < chosen * (1.0 - CHEAPER):
            yield item


def _computed(item: Candidate) -> list[int]:
    """The classes that a candidate computes."""
    return [item.classes[name] for name, _, _ in item.template.body]


def _closed(
    found: CandidateSet, items: Iterable[Candidate], flow: Mapping[int, int]
) -> list[Candidate]:
    """Candidates, and for all that is needed a kernel that writes it."""
    numbers = {item.number for item in items}
    pending = [*found.outputs, *(key for n in numbers for key in found.candidates[n].inputs)]
    met: set[int] = set()
    while pending:
        key = pending.pop()
        if key not in met:
            met.add(key)
            numbers.add(flow[key])
            pending += found.candidates[flow[key]].inputs
    return [found.candidates[number] for number in sorted(numbers)]


def _among_all(selection: Selection, items: Sequence[Candidate]) -> Selection:
    """A selection among some candidates with the numbers that these have among all."""
    numbers = [item.number for item in items]
    writer = {key: numbers[number] for key, number in selection.writer.items()}
    return Selection(writer, [numbers[number] for number in selection.kernels], selection.cost)


def _least(found: CandidateSet) -> float:
    """What any choice costs at least: each class that all choices write takes its share of the
    cheapest kernel that writes it.
    """
    forced = forced_classes(found)
    total = 0.0
    for key in forced:
        writers = [found.candidates[number] for number in found.writers[key]]
        total += min(item.price / len(forced.intersection(item.results)) for item in writers)
    return total
