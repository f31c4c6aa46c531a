"""The choice of a tile: among shapes that were measured, those that fit, the quickest first.

In: a table of shapes, a request, and what a kernel makes of a shape's numbers. Out: tilings with
the seconds that each takes, as far as the work of a tile and idle compute units tell.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.schedules.schedule import Request

T = TypeVar("T")

Numbers = Mapping[str, int]
"""The numbers of a tiling by the names that they have in a schedule."""


@dataclass(frozen=True)
class Shape:
    """A tiling, how many groups of it a compute unit holds, and the share of the best rate of a
    compute unit that it reaches: with one group there, and with as many as there is room for.
    `turned` is what is left of it where the right operand, too, is transposed on its way into local
    memory.
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
    """A tiling that fits: how many groups there are of it, the seconds of one group at the best
    rate of a compute unit, and how many groups there is room for on a unit, where less than the
    shape says.
    """

    tiling: T
    groups: int
    work: float
    room: int | None = None


def fitting_tilings(
    request: Request, shapes: Iterable[Shape], fit: Callable[[Numbers], Fit[T] | None]
) -> list[tuple[float, T, Shape]]:
    """The tilings that fit, in the order of their shapes, with the seconds that each takes."""
    units = request.number("units", 1)
    found: list[tuple[float, T, Shape]] = []
    for shape in shapes:
        numbers = {name: request.number(name, number) for name, number in shape.numbers.items()}
        fitted = fit(numbers)
        if fitted is not None:
            resident = shape.resident if fitted.room is None else min(fitted.room, shape.resident)
            share = ceil_div(fitted.groups, units)
            time = turns(share, resident, shape.alone, shape.crowded) * fitted.work
            found.append((time, fitted.tiling, shape))
    return found


def turns(groups: int, resident: int, alone: float, crowded: float) -> float:
    """The time of so many groups on one compute unit, in the best time of one.

    It holds `resident` at once; `alone` and `crowded` are the shares of its best rate that it
    reaches with one of them there, and with as many as there is room for.
    """
    rounds, rest = divmod(groups, resident)
    last = max(1 / alone, rest / crowded) if rest else 0.0
    return rounds * max(1 / alone, resident / crowded) + last
