"""By which of its ways each operand of an e-node comes, in the order in which that is tried.

In: the operands' names, and the ways in which each may come. Out: for each merge that is tried, the
place of each operand's way among these; of the cuts that came of it, some that are to be kept
besides.

An operand that stands in two places comes in one way: a kernel that computes a value does not read
it as well. What is lying rounded in memory is tried last: no other way is left out for it.

The operands of a heavy operation come *apart* where each comes from values that no other operand
comes from. Products of one value with several weights are also slices of one wide product. An
attention that reads these reads one value, which others read as well, and is guessed to be cheaper
than one that reads a value for each operand. Whether it is depends on what the products cost, which
is not known before the candidates are. So the best cut of either sort is a candidate, and the price
decides.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, product

from mgn.dialects.fusion import KernelKind
from mgn.passes.saturate.candidates.cuts import Cut, CutWay, Traits
from mgn.passes.saturate.candidates.limits import CutLimits
from mgn.passes.saturate.candidates.needless_reads import Choice, Places

SHARE = 3
"""The part of the merges that are tried which may be of operands apart."""


def merges_tried(
    heavy: bool,
    names: Sequence[int],
    choices: Sequence[Choice],
    traits: Sequence[Traits],
    most: int,
) -> tuple[Iterator[Places], frozenset[Places]]:
    """The merges of an operation, at most so many, and which of them have operands apart, where
    others have not: the operands of a heavy one come each in its own way.
    """
    if not heavy:
        return ways_tried(names, choices, most), frozenset()
    order = ways_tried(range(len(names)), choices, most)
    own = [*_own(names, choices, traits)]
    if all(len(ways) == len(choice) for ways, choice in zip(own, choices, strict=True)):
        return order, frozenset()
    apart = [*islice(product(*own), max(most // SHARE, 1))]
    return islice(dict.fromkeys(chain(apart, order)), most), frozenset(apart)


def ways_tried(names: Sequence[int], choices: Sequence[Choice], most: int) -> Iterator[Places]:
    """At most so many merges; operands of one name have the same choices."""
    distinct = list(dict.fromkeys(names))
    at = [distinct.index(name) for name in names]
    ways = [choices[names.index(name)] for name in distinct]
    if not any(_is_lying(cut) for way in ways for cut in way):
        every = islice(product(*[range(len(way)) for way in ways]), most)
        yield from every if len(distinct) == len(names) else _at(at, every)
        return
    others = [[place for place, cut in enumerate(way) if not _is_lying(cut)] for way in ways]
    first = list(islice(product(*others), most))
    every = islice(product(*map(range, map(len, ways))), most * 2)
    lying = (
        places
        for places in every
        if any(_is_lying(way[place]) for way, place in zip(ways, places, strict=True))
    )
    yield from _at(at, chain(first, islice(lying, most - len(first))))


def _at(at: Sequence[int], merges: Iterable[Places]) -> Iterator[Places]:
    """Merges of distinct operands as those of all, of which each stands at one of these places."""
    for places in merges:
        yield tuple([places[place] for place in at])


def best_apart(ranked: Sequence[Cut], kept: Iterable[Cut]) -> Iterator[Cut]:
    """The best cut of each way whose operands come apart, where none of these is kept."""
    met: set[CutWay] = {cut.way for cut in kept if cut.apart}
    for cut in ranked:
        if cut.apart and cut.way not in met:
            met.add(cut.way)
            yield cut


def through_views(chosen: Sequence[Cut | None], traits: Sequence[Traits]) -> list[Cut | None]:
    """How attention's queries may come, first of all so that no view has to be written for them:
    a view that several of their operations read.
    """
    through = [cut is None or not any(traits[x].views for x in cut.leaves) for cut in chosen]
    first = [cut for cut, is_through in zip(chosen, through, strict=True) if is_through]
    if not any(first):
        return list(chosen)
    rest = [cut for cut, is_through in zip(chosen, through, strict=True) if not is_through]
    return [*first, *rest]


def _is_lying(cut: Cut | None) -> bool:
    return cut is not None and cut.lying


def _own(
    names: Sequence[int], choices: Sequence[Sequence[Cut | None]], traits: Sequence[Traits]
) -> Iterator[list[int]]:
    """The ways of each operand by which it comes from values that are in no way of another one."""
    read = [
        [_written((name,) if cut is None else cut.leaves, traits) for cut in choice]
        for name, choice in zip(names, choices, strict=True)
    ]
    of_any = [frozenset[int]().union(*ways) for ways in read]
    for place, ways in enumerate(read):
        others = frozenset[int]().union(*of_any[:place], *of_any[place + 1 :])
        yield [way for way, leaves in enumerate(ways) if leaves.isdisjoint(others)]


def _written(leaves: Iterable[int], traits: Sequence[Traits]) -> frozenset[int]:
    """Those of some values that a run writes."""
    known = ((leaf, traits[leaf]) for leaf in leaves)
    return frozenset(leaf for leaf, of in known if not (of.in_memory or of.inline or of.prepared))


def best_of_each_kind(
    cuts: Sequence[Cut], limits: CutLimits, traits: Sequence[Traits]
) -> list[Cut]:
    """The few of an operand's cuts, best first, that its users try: a kernel of one kind is no
    substitute for one of another, as a slice of a wide product is none for the product. Of those
    that read the same but for scalars, the first is enough.
    """
    of_one_kind = len({cut.form.way for cut in cuts if not cut.form.reduced}) == 1
    kept: list[Cut] = []
    counts: dict[CutWay, int] = {}
    seen: set[tuple[CutWay, frozenset[int]]] = set()
    for cut in cuts:
        way = cut.way
        large = frozenset([name for name in cut.leaves if not traits[name].is_scalar])
        if (way, large) in seen:
            continue
        seen.add((way, large))
        counts[way] = counts.get(way, 0) + 1
        alone = of_one_kind and not cut.form.reduced and not cut.lying
        plain = cut.form.kind is KernelKind.POINTWISE
        most = limits.ways if alone else limits.pointwise if plain else limits.others
        if counts[way] <= most:
            kept.append(cut)
    return kept
