"""Which schedules of a kernel are worth a measurement.

In: a fused kernel, its device. Out: a walk over its schedules, told each time whether the last was
the best yet: it changes one axis of the best at a time until no change helps. Each schedule is the
chosen one with some numbers fixed.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from xdsl.utils.exceptions import VerifyException

from mgn.dialects.fusion import FusedKernelOp, KernelKind, ScheduleAttr
from mgn.dialects.kernel import Device
from mgn.passes.schedules.choose import schedule_for, schedules_of
from mgn.passes.schedules.core.schedule import VARIANT, Entries, Schedule

STRIP = "strip"
"""The number of tiles in a strip, which depends on the tile and is an axis of its own."""

Axis = Sequence[Entries]
"""Entries that are alternatives to each other."""


def _choices(name: str, *values: int) -> Axis:
    return [{name: value} for value in values]


_LANES = _choices("lanes", 1, 2, 4, 8, 16)
_CHUNK = _choices("chunk", 512, 1024, 2048, 4096, 8192, 16384, 32768)
_GROUP = _choices("local", 64, 128, 256, 512, 1024)

_STRIPS = _choices("strip", 2, 4, 8, 16)

_CPU_PRODUCT: Sequence[Axis] = (
    [
        {"tile_rows": rows, "tile_vectors": vectors}
        for rows, vectors in ((4, 2), (4, 4), (6, 2), (8, 1), (8, 2), (8, 3), (12, 2), (14, 2))
    ],
    _choices("block_rows", 32, 64, 128, 256),
    _choices("block_columns", 32, 64, 128, 256),
    _choices("block_depth", 128, 256, 512, 1024),
    _choices("lanes", 8, 16),
)

AXES: Mapping[tuple[str, KernelKind], Sequence[Axis]] = {
    ("cpu", KernelKind.POINTWISE): (_CHUNK, _LANES),
    ("cpu", KernelKind.GATHER): (_CHUNK, _LANES),
    ("cpu", KernelKind.REDUCTION): (_CHUNK, _LANES, _choices("stash", 0, 8192, 65536)),
    ("cpu", KernelKind.CONTRACTION): _CPU_PRODUCT,
    ("gpu", KernelKind.POINTWISE): (_GROUP, _choices("lanes", 1, 2, 4, 8)),
    ("gpu", KernelKind.GATHER): (_GROUP, _choices("lanes", 1, 2, 4, 8)),
    ("gpu", KernelKind.REDUCTION): (_GROUP, _choices("lanes", 1, 2, 4)),
    ("gpu", KernelKind.CONTRACTION): (_GROUP,),
}
"""What may be changed of a form's schedule, by kind of kernel; other kinds are left as they are."""


def _names(axis: Axis) -> set[str]:
    """The entries that the alternatives of an axis have."""
    return {name for alternative in axis for name in alternative}


def _without_strip(schedule: Schedule) -> Entries:
    """The numbers of a schedule but those of an axis of their own."""
    return {name: number for name, number in schedule.numbers.items() if name != STRIP}


@dataclass(frozen=True)
class Choice:
    """A schedule, and the numbers that were fixed for it."""

    fixed: Entries
    schedule: ScheduleAttr


@dataclass(frozen=True)
class Space:
    """The schedules of one kernel on a device that are worth a measurement."""

    fused: FusedKernelOp
    device: Device

    @cached_property
    def axes(self) -> Sequence[Axis]:
        """What may be changed: which of the admissible schedules it is, where there are several,
        by its variant where these differ, else entries by its form and kind.
        """
        schedules = schedules_of(self.fused, self.device)
        if len(schedules) == 1:
            form = "cpu" if self.device.is_cpu else "gpu"
            return AXES.get((form, self.fused.kernel_kind), ())
        several = len({schedule.variant for schedule in schedules}) > 1
        tilings = [
            {**({VARIANT: str(schedule.variant)} if several else {}), **_without_strip(schedule)}
            for schedule in schedules
        ]
        return (tilings, _STRIPS) if STRIP in schedules[0].numbers else (tilings,)

    def complete(self, fixed: Entries) -> ScheduleAttr | None:
        """The schedule with those numbers fixed; None where no tiling of them fits."""
        try:
            return schedule_for(self.fused, self.device, **fixed)
        except (AssertionError, VerifyException):
            return None

    def allows(self, fixed: Entries) -> bool:
        """Whether numbers are what a walk can have fixed."""
        named: set[str] = set()
        for axis in self.axes:
            names = _names(axis)
            chosen = {name: fixed[name] for name in names if name in fixed}
            if chosen and chosen not in axis:
                return False
            named |= names
        types = {name: str if name == VARIANT else int for name in fixed}
        typed = all(type(value) is types[name] for name, value in fixed.items())
        return named.issuperset(fixed) and typed

    def walk(self, start: Choice) -> Generator[Choice, bool | None, None]:
        """Schedules to try, each once; `send` whether the last one is the best yet."""
        best = start.fixed
        seen = {start.schedule}
        improved = True
        while improved:
            improved = False
            for axis in self.axes:
                names = _names(axis)
                for entries in axis:
                    kept = {name: value for name, value in best.items() if name not in names}
                    fixed = {**kept, **entries}
                    candidate = self.complete(fixed)
                    if candidate is None or candidate in seen:
                        continue
                    seen.add(candidate)
                    if (yield Choice(fixed, candidate)):
                        best, improved = fixed, True
