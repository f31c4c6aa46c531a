"""A program with its middle layers left out: saturation looks at this one alone.

In: facts with their `RepeatedLayers`. Out: a `Deduplicated`, with facts of its own. In these the
first layers read the last ones across the gap, as if they were neighbours, and the other way round.

    before   p0 → p1 → p2 → p3 → … → p20 → p21        after   p0 → p1 → p2 → p19 → p20 → p21
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mgn.passes.saturate.encoding.definitions import ORIGINS, Origin
from mgn.passes.saturate.encoding.facts import Facts, Leaf, NodeFact
from mgn.passes.saturate.encoding.repeated_layers import RepeatedLayers

KEPT = 3
"""Layers that stay at either end of a program. Of three, the innermost has a neighbour on each
side, and each of these has a neighbour that is like it.
"""
LEAST_LEFT_OUT = 4
"""The fewest layers to leave out: for fewer of them a shorter program is not worth it."""


@dataclass(frozen=True)
class Deduplicated:
    """Facts of the deduplicated program. `original` has the value of the `whole` program that each
    of its own values stands for. `place` has the orbit and the layer, counted from 0, of each value
    of a layer.
    """

    whole: Facts
    layers: RepeatedLayers
    facts: Facts
    original: tuple[int, ...]
    place: Mapping[int, tuple[int, int]]
    orbits: tuple[tuple[int, ...], ...]

    @property
    def left_out(self) -> range:
        """The layers that are not there."""
        return range(KEPT, self.layers.count - KEPT)


class _Uneven(Exception):
    """Something outside of a repetition, or no neighbour in it, reads what would be left out."""


def deduplicate(whole: Facts, layers: RepeatedLayers) -> Deduplicated | None:
    """The program without its middle layers; None where they cannot or need not be left out."""
    if layers.count - 2 * KEPT < LEAST_LEFT_OUT:
        return None
    try:
        return _Deduplication(whole, layers).deduplicated()
    except _Uneven:
        return None


class _Deduplication:
    """Facts to which the kept part of a program is restated, handle by handle."""

    def __init__(self, whole: Facts, layers: RepeatedLayers) -> None:
        self.whole, self.layers = whole, layers
        self.gap = range(KEPT, layers.count - KEPT)
        self.short = Facts(
            whole.literals,
            whole.types,
            whole.properties,
            whole.leaves,
            whole.splats,
            results=whole.results,
        )
        self.handles: dict[int, int] = {}

    def deduplicated(self) -> Deduplicated:
        whole, short, handles = self.whole, self.short, self.handles
        for handle, fact in enumerate(whole.definitions):
            place = self.layers.place.get(handle)
            if place is None or place[1] not in self.gap:
                restated = self._restated(fact, place)
                location = whole.locations.get(handle)
                handles[handle] = short.restate(restated, whole.handle_types[handle], location)
                short.readers[handles[handle]] = whole.readers[handle]
        for handle, number in whole.new_splats:
            if handle in handles:
                short.new_splats.append((handles[handle], number))
        for left, right in whole.new_unions:
            if left in handles and right in handles:
                short.union(handles[left], handles[right])
        kept = [*range(self.gap.start), *range(self.gap.stop, self.layers.count)]
        orbits = tuple(
            tuple([handles[values[layer]] for layer in kept]) for values in self.layers.orbits
        )
        place = {
            handle: (number, layer)
            for number, values in enumerate(orbits)
            for layer, handle in enumerate(values)
        }
        if any(origin is Origin.CONSTANTS for origin in self._origins(orbits)):
            raise _Uneven
        return Deduplicated(whole, self.layers, short, tuple(handles), place, orbits)

    def _restated(self, fact: NodeFact | Leaf, place: tuple[int, int] | None) -> NodeFact | Leaf:
        if isinstance(fact, Leaf):
            return fact
        operands = tuple([self._operand(item, place) for item in fact.operands])
        return fact._replace(operands=operands)

    def _operand(self, item: int, reader: tuple[int, int] | None) -> int:
        """What is read in the place of a value: itself, or its like beyond the gap."""
        known = self.handles.get(item)
        if known is not None:
            return known
        orbit, layer = self.layers.place[item]
        ends = {self.gap.start: self.gap.stop, self.gap.stop - 1: self.gap.start - 1}
        if reader is None or abs(reader[1] - layer) != 1 or layer not in ends:
            raise _Uneven
        beyond = self.handles.get(self.layers.orbits[orbit][ends[layer]])
        if beyond is None:
            raise _Uneven
        return beyond

    def _origins(self, orbits: tuple[tuple[int, ...], ...]) -> Iterator[Origin]:
        """What decides the values of a layer: constants alone may not be alike in all."""
        origins: list[Origin] = []
        for fact in self.short.definitions:
            if isinstance(fact, Leaf):
                origins.append(ORIGINS[fact.kind])
            else:
                read = [origins[item] for item in fact.operands]
                origins.append(max(read, default=Origin.CONSTANTS))
        for values in orbits:
            yield origins[values[0]]
