"""The choice of a tile: among shapes that were measured, those that fit, the quickest first.

In: a table of shapes, a request, and what a kernel makes of a shape's numbers. Out: tilings with
the seconds that each takes, as far as the work of a tile and idle compute units tell.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.schedules.core.schedule import Request

T = TypeVar("T")

Numbers = Mapping[str, int]
"""The numbers of a tiling by the names that they have in a schedule."""


@dataclass(frozen=True)
class Shape:
    """A tiling, and how many groups of it a compute unit holds. `alone` and `crowded` are the
    shares of the unit's best rate that it reaches: with one group there, and with as many as there
    is room for. `turned` is the part of the share that is left where the right operand, too, is
    transposed on its way into local memory.
    """

    numbers: Numbers
    resident: int
    alone: float
    crowded: float
    turned: float = 1.0


def shapes_of(names: Sequence[str], *rows: tuple[float, ...]) -> tuple[Shape, ...]:
    """A table of shapes: in each row the numbers of those names, then the figures of `Shape`."""
    count = len(names)
    return tuple(
        Shape(
            dict(zip(names, map(int, row[:count]), strict=True)), int(row[count]), *row[count + 1 :]
        )
        for row in rows
    )


@dataclass(frozen=True)
class Fit(Generic[T]):
    """A tiling that fits, with its number of groups. `work` is the seconds of one group at the best
    rate of a compute unit. `room` is how many groups fit on a unit, if fewer than the shape says.
    `longest` is the seconds of the longest group, if groups differ.
    """

    tiling: T
    groups: int
    work: float
    room: int | None = None
    longest: float = 0.0


@dataclass(frozen=True)
class Room:
    """What groups have on a device: compute units, at which rate of all of them a group works; the
    most work-items of a group, its bytes of local memory, and numbers that are fixed.
    """

    units: int
    rate: float
    items: int
    memory: int
    fixed: tuple[tuple[str, int], ...] = ()

    @staticmethod
    def of(request: Request, names: Iterable[str], rate: float, memory: int) -> "Room":
        """That of a request, where a tiling has numbers of those names."""
        entries = request.entries
        fixed = tuple([(name, int(entries[name])) for name in names if name in entries])
        units, items = request.number("units", 1), request.number("largest_group", 256)
        return Room(units, rate, items, memory, fixed)


def fitting_tilings(
    room: Room, shapes: Iterable[Shape], fit: Callable[[Numbers], Fit[T] | None]
) -> list[tuple[float, T, Shape]]:
    """The tilings that fit, in the order of their shapes, with the seconds that each takes."""
    units, fixed = room.units, dict(room.fixed)
    found: list[tuple[float, T, Shape]] = []
    for shape in shapes:
        fitted = fit({**shape.numbers, **{n: fixed[n] for n in shape.numbers if n in fixed}})
        if fitted is not None:
            resident = shape.resident if fitted.room is None else min(fitted.room, shape.resident)
            share = ceil_div(fitted.groups, units)
            longest = max(fitted.longest, fitted.work)
            time = group_seconds(share, resident, shape, fitted.work, longest)
            found.append((time, fitted.tiling, shape))
    return found


UNEVEN = 0.15
"""How much of what the longest group takes longer than others is waited for, where all groups are
worked on at once.
"""


def group_seconds(groups: int, resident: int, shape: Shape, mean: float, longest: float) -> float:
    """The seconds of so many groups on one compute unit, which holds `resident` at once; of a group
    at its best rate in the mean, and of the longest.
    """
    rounds = turns(groups, resident, shape.alone, shape.crowded)
    seconds = rounds * mean
    if groups > resident:
        return seconds
    uneven = UNEVEN * rounds * (longest - mean)
    return min(max(longest / shape.alone, seconds) + uneven, rounds * longest)


def turns(groups: int, resident: int, alone: float, crowded: float) -> float:
    """The time of so many groups on one compute unit, in the best time of one.

    It holds `resident` at once; `alone` and `crowded` are the shares of its best rate that it
    reaches with one of them there, and with as many as there is room for.
    """
    rounds, rest = divmod(groups, resident)
    last = max(1 / alone, rest / crowded) if rest else 0.0
    return rounds * max(1 / alone, resident / crowded) + last
