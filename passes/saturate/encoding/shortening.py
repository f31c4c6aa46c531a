"""A program with the middle ones of its periods left out: what saturation has to look at.

In: facts with their `Periods`. Out: a `Shortened`: facts of their own, in which the first periods
read, and are read by, the last ones across the gap as they were their neighbours.

    before   p0 → p1 → p2 → p3 → … → p20 → p21        after   p0 → p1 → p2 → p19 → p20 → p21
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mgn.passes.saturate.encoding.definitions import ORIGINS, Origin
from mgn.passes.saturate.encoding.facts import Facts, Leaf, NodeFact
from mgn.passes.saturate.encoding.periods import Periods

KEPT = 3
"""Periods that stay at either end of a program: the last of the first ones then has a neighbour on
each side that has, in turn, one that is like it.
"""
LEAST_LEFT_OUT = 4
"""Periods that have to be left out for a shorter program to be worth it."""


@dataclass(frozen=True)
class Shortened:
    """Facts of the shortened program; `original` has the handles that its own ones have in the
    `whole`, `place` the orbit and the period, counted from 0, of those that are in one.
    """

    whole: Facts
    periods: Periods
    facts: Facts
    original: tuple[int, ...]
    place: Mapping[int, tuple[int, int]]
    orbits: tuple[tuple[int, ...], ...]

    @property
    def left_out(self) -> range:
        """The periods that are not there."""
        return range(KEPT, self.periods.count - KEPT)


class _Uneven(Exception):
    """Something outside of a repetition, or no neighbour in it, reads what would be left out."""


def shorten(whole: Facts, periods: Periods) -> Shortened | None:
    """The program without its middle periods; None where they cannot or need not be left out."""
    if periods.count - 2 * KEPT < LEAST_LEFT_OUT:
        return None
    try:
        return _Shortening(whole, periods).shortened()
    except _Uneven:
        return None


class _Shortening:
    """Facts to which the kept part of a program is restated, handle by handle."""

    def __init__(self, whole: Facts, periods: Periods) -> None:
        self.whole, self.periods = whole, periods
        self.gap = range(KEPT, periods.count - KEPT)
        self.short = Facts(
            whole.literals,
            whole.types,
            whole.properties,
            whole.leaves,
            whole.splats,
            results=whole.results,
        )
        self.handles: dict[int, int] = {}

    def shortened(self) -> Shortened:
        whole, short, handles = self.whole, self.short, self.handles
        for handle, fact in enumerate(whole.definitions):
            place = self.periods.place.get(handle)
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
        kept = [*range(self.gap.start), *range(self.gap.stop, self.periods.count)]
        orbits = tuple(
            tuple([handles[values[period]] for period in kept]) for values in self.periods.orbits
        )
        place = {
            handle: (number, period)
            for number, values in enumerate(orbits)
            for period, handle in enumerate(values)
        }
        if any(origin is Origin.CONSTANTS for origin in self._origins(orbits)):
            raise _Uneven
        return Shortened(whole, self.periods, short, tuple(handles), place, orbits)

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
        orbit, period = self.periods.place[item]
        ends = {self.gap.start: self.gap.stop, self.gap.stop - 1: self.gap.start - 1}
        if reader is None or abs(reader[1] - period) != 1 or period not in ends:
            raise _Uneven
        beyond = self.handles.get(self.periods.orbits[orbit][ends[period]])
        if beyond is None:
            raise _Uneven
        return beyond

    def _origins(self, orbits: tuple[tuple[int, ...], ...]) -> Iterator[Origin]:
        """What decides the values of a period: constants alone may not be alike in all."""
        origins: list[Origin] = []
        for fact in self.short.definitions:
            if isinstance(fact, Leaf):
                origins.append(ORIGINS[fact.kind])
            else:
                read = [origins[item] for item in fact.operands]
                origins.append(max(read, default=Origin.CONSTANTS))
        for values in orbits:
            yield origins[values[0]]
