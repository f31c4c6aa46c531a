"""Kernels whose operands come *apart*, each from values that no other operand comes from.

In: the ways in which the operands of a heavy operation may come. Out: the order in which they are
merged; of the cuts that came of it, one that is to be kept besides.

Products of one value with several weights are also slices of one wide product. An attention that
reads these reads one value, which others read as well, and is guessed to be cheaper than one that
reads a value for each operand. Whether it is depends on what the products cost, which is not known
before the candidates are. So the best cut of either sort is a candidate, and the price decides.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, product

from mgn.passes.saturate.candidates.cuts import Cut, Traits
from mgn.passes.saturate.candidates.needless_reads import Choice, Places

SHARE = 3
"""The part of the merges that are tried which may be of operands apart."""


def merge_order(
    names: Sequence[int], choices: Sequence[Choice], traits: Sequence[Traits], most: int
) -> tuple[Iterator[Places], frozenset[Places]]:
    """The merges to try, at most so many, and which of them have operands apart, where others have
    not; `names` are the operands.
    """
    every = product(*(range(len(choice)) for choice in choices))
    own = [*_own(names, choices, traits)]
    if all(len(ways) == len(choice) for ways, choice in zip(own, choices, strict=True)):
        return islice(every, most), frozenset()
    apart = [*islice(product(*own), max(most // SHARE, 1))]
    return islice(dict.fromkeys(chain(apart, islice(every, most))), most), frozenset(apart)


def best_apart(ranked: Sequence[Cut], kept: Iterable[Cut]) -> Iterator[Cut]:
    """The best cut of each way whose operands come apart, where none of these is kept."""
    met = {cut.form.way for cut in kept if cut.apart}
    for cut in ranked:
        if cut.apart and cut.form.way not in met:
            met.add(cut.form.way)
            yield cut


def _own(
    names: Sequence[int], choices: Sequence[Choice], traits: Sequence[Traits]
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
