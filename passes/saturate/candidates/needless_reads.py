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

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import product

from mgn.dialects.types import tensor_bytes
from mgn.passes.saturate.candidates.cuts import Cut, Traits

Places = tuple[int, ...]
"""Of each operand, by which of its choices it comes."""

Choice = Sequence[Cut | None]
"""The ways in which an operand may come: None is from memory."""


def needless_reads(
    merged: Mapping[Places, Cut | None],
    names: Sequence[int],
    choices: Sequence[Choice],
    traits: Sequence[Traits],
) -> Iterator[Places]:
    """The merges that are left out of those that were tried; `names` are the operands, and name 0
    is what is computed.
    """
    instead = [
        [range(len(choice))] * len(choice)
        if traits[name].stored
        else _others_for(name, choice, traits)
        for name, choice in zip(names, choices, strict=True)
    ]
    for position, name in enumerate(names):
        operand = traits[name]
        if operand.stored or operand.prepared is not traits[0].prepared:
            continue
        choice = choices[position]
        ways = [instead[position][way] for way, cut in enumerate(choice) if cut is not None]
        for places, cut in merged.items():
            if cut is None or cut.form.reduced or choice[places[position]] is not None:
                continue
            alike = [instead[item][place] for item, place in enumerate(places)]
            same = [item for item, other in enumerate(names) if other == name]
            if _computes_in_each(merged, alike, same, ways):
                yield places


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


def _computes_in_each(
    merged: Mapping[Places, Cut | None],
    alike: Sequence[Sequence[int]],
    positions: Sequence[int],
    ways: Sequence[Sequence[int]],
) -> bool:
    """Whether the operand at some positions can be computed in each of the ways that were tried.
    The others come in one of those that are alike. At least one way was tried.
    """
    found = False
    for way in ways:
        each = [way if place in positions else item for place, item in enumerate(alike)]
        tried = [merged[places] for places in product(*each) if places in merged]
        if tried and not any(cut is not None and not cut.form.reduced for cut in tried):
            return False
        found |= bool(tried)
    return found


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
