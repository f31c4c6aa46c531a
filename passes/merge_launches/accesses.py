"""What launches read and write, and between which of them a barrier must stand.

In: launches in order, with their kernels. Out: the bytes that each touches, and for each launch the
first one behind it that cannot be of one span with all from it on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.ir import SSAValue

from mgn.dialects.kernel.buffers import byte_size
from mgn.dialects.kernel.function import FuncOp
from mgn.dialects.plan.buffers import ViewOp
from mgn.dialects.plan.states import NextOp, StateOp
from mgn.dialects.plan.steps import LaunchOp

ARENA = "arena"

Range = tuple[object, int, int]
"""The bytes from one place to another of the arena, or of a state."""


@dataclass(frozen=True)
class Accesses:
    """What a launch reads and writes of all that launches write."""

    reads: tuple[Range, ...]
    writes: tuple[Range, ...]


@dataclass
class Span:
    """What the launches of a span touch together."""

    reads: list[Range] = field(default_factory=list[Range])
    writes: list[Range] = field(default_factory=list[Range])

    def is_apart(self, launch: Accesses) -> bool:
        """Whether a launch neither writes what the span touches nor touches what it writes."""
        return not _overlap(launch.writes, [*self.reads, *self.writes]) and not _overlap(
            launch.reads, self.writes
        )

    def add(self, launch: Accesses) -> None:
        """Has the launch in the span."""
        self.reads += launch.reads
        self.writes += launch.writes


def accesses(launch: LaunchOp, kernels: Mapping[str, FuncOp]) -> Accesses:
    """What a launch touches. What is read alone in the whole program does not count."""
    reads: list[Range] = []
    writes: list[Range] = []
    modes = kernels[launch.kernel_name].accesses
    for value, mode in zip(launch.arguments, modes, strict=True):
        place = _range(value)
        if place is None:
            continue
        if mode.reads:
            reads.append(place)
        if mode.writes:
            writes.append(place)
    return Accesses(tuple(reads), tuple(writes))


def next_barriers(launches: Sequence[Accesses]) -> list[int]:
    """For each launch the number of the first that a barrier must part from those before it, where
    a span begins at the launch.
    """
    found: list[int] = []
    for first in range(len(launches)):
        span, end = Span(), first
        while end < len(launches) and span.is_apart(launches[end]):
            span.add(launches[end])
            end += 1
        found.append(end)
    return found


def _range(value: SSAValue) -> Range | None:
    owner = value.owner
    size = max(byte_size(value.type), 1)
    if isinstance(owner, ViewOp):
        return ARENA, owner.start, owner.start + size
    if isinstance(owner, NextOp):
        return owner.state, 0, size
    return (value, 0, size) if isinstance(owner, StateOp) else None


def _overlap(some: Sequence[Range], others: Sequence[Range]) -> bool:
    return any(
        place == other and start < last and first < end
        for place, start, end in some
        for other, first, last in others
    )
