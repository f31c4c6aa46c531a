"""What may go wrong with values that share memory: reads too early, reads too late, bad overlaps.

In: the steps of a program in order, each with the byte ranges that it reads and writes. Out:
nothing, or a `Hazard` that names the step and the value.
"""

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise


class Hazard(Exception):
    """A step reads what is not there, or writes what it must not."""


@dataclass(frozen=True)
class Extent:
    """One value's place in memory, the bytes `[start, end)`; `key` tells values apart."""

    key: Hashable
    label: str
    start: int
    end: int

    def overlaps(self, other: "Extent") -> bool:
        return self.start < other.end and other.start < self.end

    def same_bytes(self, other: "Extent") -> bool:
        return self.start == other.start and self.end == other.end


@dataclass(frozen=True)
class Step:
    """One launch or copy, by argument position; `in_place` pairs (read, written) may coincide. Of
    `parts` pairs the second is written in part, and has to begin as the first. What is `unused` is
    given and not touched; what is `combined` begins as another one, and is read and written. One
    that is done `everywhere` is done by each work-group for itself.
    """

    label: str
    reads: dict[int, Extent]
    writes: dict[int, Extent]
    in_place: frozenset[tuple[int, int]] = frozenset()
    parts: frozenset[tuple[int, int]] = frozenset()
    unused: frozenset[int] = frozenset()
    combined: frozenset[int] = frozenset()
    everywhere: bool = False


@dataclass
class Memory:
    """Which value each byte holds: the valid extents, which never overlap, sorted by start."""

    _starts: list[int] = field(default_factory=list[int])
    _extents: list[Extent] = field(default_factory=list[Extent])
    _overwritten_by: dict[Hashable, str] = field(default_factory=dict[Hashable, str])
    _valid: set[Hashable] = field(default_factory=set[Hashable])

    def read(self, step: str, extent: Extent) -> None:
        """Check that a value is where it was written. Hazard otherwise."""
        if extent.key in self._valid:
            return
        culprit = self._overwritten_by.get(extent.key)
        if culprit is not None:
            raise Hazard(f"{step} reads {extent.label}, which {culprit} has written over")
        raise Hazard(f"{step} reads {extent.label}, which nothing has written")

    def write(self, step: str, extent: Extent) -> None:
        """Note that a value is now here, and that values which lay here are lost."""
        first = bisect_left(self._starts, extent.start)
        if first > 0 and self._extents[first - 1].overlaps(extent):
            first -= 1
        last = first
        while last < len(self._extents) and self._extents[last].overlaps(extent):
            lost = self._extents[last].key
            self._valid.discard(lost)
            self._overwritten_by[lost] = step
            last += 1
        self._starts[first:last] = [extent.start]
        self._extents[first:last] = [extent]
        self._valid.add(extent.key)
        self._overwritten_by.pop(extent.key, None)


def check_steps(steps: Iterable[Step], memory: Memory) -> None:
    """Run the steps on a description of the memory. Hazard at the first that is wrong."""
    for step in steps:
        for extent in step.reads.values():
            memory.read(step.label, extent)
        _check_overlaps(step)
        for read, written in step.parts:
            place, source = step.writes[written], step.reads.get(read)
            if source is None or not place.same_bytes(source):
                memory.read(f"{step.label}, which writes a part,", place)
        for extent in step.writes.values():
            memory.write(step.label, extent)


def check_apart(span: Sequence[Step]) -> None:
    """Steps that nothing orders: none may write what another one reads or writes, but for what
    each work-group has written for itself before it reads it.
    """
    for step in span:
        if step.everywhere:
            _check_repeats(step)
    touched = sorted(
        (
            (extent.start, extent.end, number, extents is step.writes, extent.label)
            for number, step in enumerate(span)
            for extents in (step.reads, step.writes)
            for extent in extents.values()
        ),
        key=lambda item: item[:2],
    )
    active: list[tuple[int, int, int, bool, str]] = []
    for item in touched:
        start, _, number, writes, label = item
        active = [other for other in active if other[1] > start]
        for _, _, other, wrote, other_label in active:
            if other == number or not (writes or wrote):
                continue
            (first, _), (_, overwrites) = sorted([(number, writes), (other, wrote)])
            if overwrites or not span[first].everywhere:
                one, two = span[number if writes else other], span[other if writes else number]
                raise Hazard(
                    f"{one.label} writes {label if writes else other_label} beside {two.label}, "
                    "and no barrier stands between them"
                )
        active.append(item)


def _check_repeats(step: Step) -> None:
    """A step that each work-group does for itself finds what it reads as the others do."""
    kept = {read for read, _ in step.parts if read in step.unused}
    for position in step.combined:
        label = step.writes[position].label
        raise Hazard(f"{step.label} is done everywhere, and combines {label} with what it writes")
    for position, read in step.reads.items():
        if position not in kept and any(read.overlaps(item) for item in step.writes.values()):
            raise Hazard(f"{step.label} is done everywhere, and writes {read.label} that it reads")


def _check_overlaps(step: Step) -> None:
    for position, written in step.writes.items():
        for other, read in step.reads.items():
            if other == position or not written.overlaps(read):
                continue
            if not written.same_bytes(read):
                raise Hazard(
                    f"{step.label} writes {written.label}, which partly overlaps {read.label} "
                    "that it reads"
                )
            if (other, position) not in step.in_place:
                raise Hazard(
                    f"{step.label} writes {written.label} over {read.label} that it reads, and "
                    "does not allow that in place"
                )
    _check_written_once(step.label, list(step.writes.values()))


def _check_written_once(label: str, writes: Sequence[Extent]) -> None:
    ordered = sorted(writes, key=lambda extent: extent.start)
    for before, after in pairwise(ordered):
        if before.overlaps(after):
            raise Hazard(f"{label} writes {before.label} and {after.label}, which overlap")
