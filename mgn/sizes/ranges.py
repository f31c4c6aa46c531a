"""Dimensions that have a range of sizes, among those that have one size.

In: `{"B": 1, "S": range(1, 513)}`. Out: the one that has a range, as `Sizes`, and the others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mgn.diagnostics import MgnError, WrongType, clipped

MOST_PROGRAMS = 64
"""Programs that may be asked for."""

MOST_SIZES = 1 << 24
"""Sizes of a range: each is weighed, in time and memory that grow with them."""


@dataclass(frozen=True)
class Sizes:
    """The sizes of a dimension, in growing order; the one that is expected first, if one is."""

    values: Sequence[int]
    first: int | None = None

    @property
    def text(self) -> str:
        """The sizes as a message names them."""
        values = self.values
        step = values[1] - values[0] if len(values) > 1 else 1
        return f"{values[0]}..{values[-1]}" + (f" in steps of {step}" if step != 1 else "")


def sizes_of(name: str, given: Any) -> Sizes:
    """The sizes that a range stands for. MgnError where there are none, too many, or negative
    ones.
    """
    if isinstance(given, Sizes):
        return given
    values = given[::-1] if given.step < 0 else given
    if not values:
        raise MgnError(f"dimension '{name}' has no sizes in {given!r}, which is empty")
    count = (values[-1] - values[0]) // values.step + 1
    if count > MOST_SIZES:
        raise MgnError(
            f"dimension '{name}' has {count} sizes in {given!r}, not {MOST_SIZES} at most"
        )
    if values[0] < 0:
        raise MgnError(f"dimension '{name}' cannot be {values[0]}")
    return Sizes(values)


def ranged(dims: Mapping[str, Any] | None) -> tuple[str, Sizes, dict[str, int]] | None:
    """The dimension with a range, its sizes, and the other dimensions; None where there is none.
    MgnError where there are two.
    """
    found = {name: size for name, size in (dims or {}).items() if isinstance(size, range | Sizes)}
    if not found:
        return None
    if len(found) > 1:
        names = " and ".join(f"'{name}'" for name in found)
        raise MgnError(f"one dimension can have a range, not {names}: give the others one size")
    ((name, given),) = found.items()
    others = {other: size for other, size in (dims or {}).items() if other != name}
    return name, sizes_of(name, given), others


def fixed(dims: Mapping[str, Any] | None) -> dict[str, int]:
    """The dimensions, with the largest size of one that has a range."""
    return {
        name: sizes_of(name, size).values[-1] if isinstance(size, range | Sizes) else size
        for name, size in (dims or {}).items()
    }


def check_programs(most: Any) -> None:
    """MgnError where that is no number of programs."""
    if isinstance(most, bool) or not isinstance(most, int):
        raise WrongType(f"mgn.compile: 'buckets' takes a number, not {clipped(repr(most))}")
    if not 1 <= most <= MOST_PROGRAMS:
        raise MgnError(f"buckets takes a number from 1 to {MOST_PROGRAMS}, not {most}")
