"""Merges that read an operand which the kernel can as well compute.

In: the merges of an e-node, by which choice each operand comes, and which of them are legal. Out:
those that are left out.

Let p be an operand with one reader, c a kernel that reads p, and d one that computes p. The kernel
c∘d writes the result in the place of p, launches once less and reads what both read: it costs no
more than c and d. So c is left out where c∘d is legal for *each* d, as any d may be the best one: a
sum may read a slice of a wide product as it goes, but not a product.

Two things make less of a d, or of another operand that comes with c. Where d computes a value v,
and d' reads it, d' may take the place of d: the kernel that wrote p writes v in its place, if v is
no larger than p, or may be stored anyway. What d' computes besides has one reader, so that it takes
the place of a kernel. And an operand that may be stored may come in any way.
"""

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from itertools import product

from mgn.dialects.types import tensor_bytes
from mgn.passes.saturate.candidates.cuts import Cut, Traits

Places = tuple[int, ...]
"""Of each operand, by which of its choices it comes."""

Choice = Sequence[Cut | None]
"""The ways in which an operand may come: None is from memory."""


Merge = Callable[[Places], Cut | None]
"""The cut of a merge that is tried; None where it is not legal."""


def needless_reads(
    tried: Collection[Places],
    merge: Merge,
    names: Sequence[int],
    choices: Sequence[Choice],
    traits: Sequence[Traits],
    reduces: bool,
) -> set[Places]:
    """The merges that are left out of those that are tried, most of them without a look; `names`
    are the operands, and name 0 is what is computed. Where a product `reduces` rows, each is looked
    at: one that does so stays.
    """
    found = set[Places]()
    alike = _Alike(names, choices, traits)
    for position, name in enumerate(names):
        operand, choice = traits[name], choices[position]
        if operand.stored or operand.prepared is not traits[0].prepared or None not in choice:
            continue
        computed = [way for way, cut in enumerate(choice) if cut is not None]
        same = [item for item, other in enumerate(names) if other == name]
        for places in tried:
            if choice[places[position]] is None and places not in found:
                if reduces and not _is_legal(merge(places)):
                    continue
                each = [alike.of(item, place) for item, place in enumerate(places)]
                ways = [alike.of(position, way) for way in computed]
                if _computes_in_each(tried, merge, each, same, ways):
                    found.add(places)
    return found


def note_besides(
    legal: Mapping[Places, Cut],
    names: Sequence[int],
    choices: Sequence[Choice],
    traits: Sequence[Traits],
) -> None:
    """Marks the legal merges that read operands with one reader which another one computes, and
    all that they compute themselves.
    """
    alike = [
        not traits[name].stored and traits[name].prepared is traits[0].prepared for name in names
    ]
    inside = {
        places: frozenset(
            position
            for position, place in enumerate(places)
            if alike[position] and choices[position][place] is not None
        )
        for places, cut in legal.items()
        if not cut.form.reduced
    }
    for places, own in inside.items():
        legal[places].besides = any(own < others for others in inside.values())


class _Alike:
    """For each way in which an operand comes, those that may come in its place, worked out where
    they are asked for.
    """

    def __init__(
        self, names: Sequence[int], choices: Sequence[Choice], traits: Sequence[Traits]
    ) -> None:
        self.names, self.choices, self.traits = names, choices, traits
        self.known: dict[int, Sequence[Sequence[int]]] = {}

    def of(self, position: int, way: int) -> Sequence[int]:
        """Those in the place of one way of the operand at a position."""
        name, choice = self.names[position], self.choices[position]
        if self.traits[name].stored:
            return range(len(choice))
        if len(choice) == 1:
            return (0,)
        known = self.known.get(position)
        if known is None:
            known = self.known[position] = _others_for(name, choice, self.traits)
        return known[way]


def _computes_in_each(
    tried: Container[Places],
    merge: Merge,
    alike: Sequence[Sequence[int]],
    positions: Sequence[int],
    ways: Sequence[Sequence[int]],
) -> bool:
    """Whether the operand at some positions can be computed in each of the ways that are tried.
    The others come in one of those that are alike. At least one way is tried.
    """
    found = False
    for way in ways:
        each = [way if place in positions else item for place, item in enumerate(alike)]
        merges = [places for places in product(*each) if places in tried]
        if merges and not any(map(_is_legal, map(merge, merges))):
            return False
        found |= bool(merges)
    return found


def _is_legal(cut: Cut | None) -> bool:
    return cut is not None and not cut.form.reduced


def _others_for(name: int, choice: Choice, traits: Sequence[Traits]) -> list[Sequence[int]]:
    """For each way in which an operand comes, itself and those that read what it computes: values
    that may be stored, or that take no more memory than the operand.
    """
    found: list[Sequence[int]] = []
    inside = [set[int]() if cut is None else cut.inside for cut in choice]
    for place, cut in enumerate(choice):
        others = [
            other
            for other, instead in enumerate(choice)
            if cut is not None
            and instead is not None
            and not inside[place].isdisjoint(instead.leaves)
            and _replaces(name, instead, inside[other] - inside[place], inside[place], traits)
        ]
        found.append([place, *others])
    return found


def _replaces(
    name: int,
    instead: Cut,
    besides: Iterable[int],
    inside: Container[int],
    traits: Sequence[Traits],
) -> bool:
    """Whether a cut reads what another one computes inside, and computes `besides` only what that
    one reads.
    """
    if any(traits[item].stored for item in besides):
        return False
    new = [
        traits[leaf].type for leaf in instead.leaves if leaf in inside and not traits[leaf].stored
    ]
    return sum(map(tensor_bytes, new)) <= tensor_bytes(traits[name].type)
