"""What launches read and write, and between which of them a barrier must stand.

In: launches in order, with their kernels. Out: the bytes that each touches, and for each launch the
first one behind it that cannot be of one span with all from it on.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from xdsl.ir import SSAValue

from mgn.dialects.kernel.buffers import byte_size, combined_results, starting_pairs
from mgn.dialects.kernel.function import FuncOp
from mgn.dialects.plan.buffers import ViewOp
from mgn.dialects.plan.states import NextOp, StateOp
from mgn.dialects.plan.steps import LaunchOp

ARENA = "arena"

Range = tuple[object, int, int]
"""The bytes from one place to another of the arena, or of a state."""


@dataclass(frozen=True)
class Accesses:
    """What a launch reads and writes of all that launches write. What runs `everywhere` is computed
    by each work-group for itself.
    """

    reads: tuple[Range, ...]
    writes: tuple[Range, ...]
    everywhere: bool = False

    @property
    def can_repeat(self) -> bool:
        """Whether it may run again on what it leaves: it reads nothing that it writes."""
        return not any(
            place == other and start < last and first < end
            for place, start, end in self.reads
            for other, first, last in self.writes
        )


@dataclass
class _Part:
    """Bytes of a place that the same launches touched last, each by its number or that of its span,
    -1 for none.
    """

    start: int
    end: int
    writer: int = -1
    reader: int = -1


def _start_of(part: _Part) -> int:
    return part.start


@dataclass
class _Touched:
    """Which launch read and wrote each byte last, as parts of places."""

    _parts: dict[object, list[_Part]] = field(default_factory=dict[object, list[_Part]])
    _everywhere: set[int] = field(default_factory=set[int])

    def last(self, launch: Accesses) -> int:
        """The last launch so far that must not be of one span with another; -1 for none."""
        writers = [
            part.writer
            for item in launch.reads
            for part in self._within(item)
            if part.writer not in self._everywhere
        ]
        both = [
            max(part.writer, part.reader) for item in launch.writes for part in self._within(item)
        ]
        return max(*writers, *both, -1, -1)

    def add(self, number: int, launch: Accesses) -> None:
        """Notes what a launch touches."""
        if launch.everywhere:
            self._everywhere.add(number)
        for item in launch.reads:
            for part in self._within(item):
                part.reader = max(part.reader, number)
        for item in launch.writes:
            for part in self._within(item):
                part.writer = max(part.writer, number)

    def _within(self, item: Range) -> list[_Part]:
        """The parts that make up a range, which are cut where it begins and ends."""
        place, start, end = item
        parts = self._parts.setdefault(place, [_Part(0, 1 << 62)])
        for edge in (start, end):
            at = bisect_right(parts, edge, key=_start_of) - 1
            part = parts[at]
            if part.start < edge:
                parts[at : at + 1] = [replace(part, end=edge), replace(part, start=edge)]
        return parts[
            bisect_left(parts, start, key=_start_of) : bisect_left(parts, end, key=_start_of)
        ]


def accesses(launch: LaunchOp, kernels: Mapping[str, FuncOp]) -> Accesses:
    """What a launch touches. What is read alone in the whole program does not count, nor what a
    kernel writes a part of in place and does not look at.
    """
    reads: list[Range] = []
    writes: list[Range] = []
    kernel = kernels[launch.kernel_name]
    kept, combined = {read for read, _ in starting_pairs(kernel)}, combined_results(kernel)
    given = zip(launch.arguments, kernel.arguments, kernel.accesses, strict=True)
    for position, (value, argument, mode) in enumerate(given):
        place = _range(value)
        if place is None or (position in kept and argument.first_use is None):
            continue
        if mode.reads or position in combined:
            reads.append(place)
        if mode.writes:
            writes.append(place)
    return Accesses(tuple(reads), tuple(writes))


def last_conflicts(launches: Sequence[Accesses]) -> list[int]:
    """For each launch the last one before it that a barrier must part from it; -1 for none."""
    touched, conflicts = _Touched(), list[int]()
    for number, launch in enumerate(launches):
        conflicts.append(touched.last(launch))
        touched.add(number, launch)
    return conflicts


def next_barriers(launches: Sequence[Accesses]) -> list[int]:
    """For each launch the number of the first that a barrier must part from those before it, where
    a span begins at the launch.
    """
    conflicts = last_conflicts(launches)
    found: list[int] = []
    end = 0
    for first in range(len(launches)):
        end = max(end, first + 1)
        while end < len(launches) and conflicts[end] < first:
            end += 1
        found.append(end)
    return found


def in_early_spans(launches: Sequence[Accesses], movable: Sequence[bool]) -> list[int]:
    """An order of launches, by their numbers, in which what is movable stands first in the first
    span that may have it. All others stay in their order, and no more barriers are needed.
    """
    touched, spans, current = _Touched(), list[int](), 0
    for launch, may_move in zip(launches, movable, strict=True):
        span = touched.last(launch) + 1
        if not may_move or span > current:
            current = span = max(span, current)
        touched.add(span, launch)
        spans.append(span)
    numbers = range(len(launches))
    return sorted(numbers, key=lambda number: (spans[number], not movable[number], number))


def _range(value: SSAValue) -> Range | None:
    owner = value.owner
    size = max(byte_size(value.type), 1)
    if isinstance(owner, ViewOp):
        return ARENA, owner.start, owner.start + size
    if isinstance(owner, NextOp):
        return owner.state, 0, size
    return (value, 0, size) if isinstance(owner, StateOp) else None
