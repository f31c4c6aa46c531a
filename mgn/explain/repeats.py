"""Finds what repeats in the sequence of kernels, so that equal layers are drawn once.

In: a sequence of names. Out: `Repeat`s: where a run of equal stretches starts, how long one is, and
how often it comes.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

LONGEST = 256
LEAST_SAVED = 6
"""Kernels that must be saved for a repeat to be worth folding."""


@dataclass(frozen=True)
class Repeat:
    """`count` equal stretches of `period` items, the first of them at `start`."""

    start: int
    period: int
    count: int

    @property
    def folded(self) -> range:
        """The items after the first stretch."""
        return range(self.start + self.period, self.start + self.period * self.count)


def find_repeats(names: Sequence[Hashable]) -> list[Repeat]:
    """The repeats of a sequence from its start on, each as long as can be."""
    found: list[Repeat] = []
    position = 0
    while position < len(names):
        best = _best_at(names, position)
        if best is None:
            position += 1
            continue
        found.append(best)
        position = best.start + best.period * best.count
    return found


def _best_at(names: Sequence[Hashable], start: int) -> Repeat | None:
    best: Repeat | None = None
    for period in range(1, min(LONGEST, (len(names) - start) // 2) + 1):
        if names[start] != names[start + period]:
            continue
        stretch = names[start : start + period]
        count = 1
        while names[start + count * period : start + (count + 1) * period] == stretch:
            count += 1
        repeat = Repeat(start, period, count)
        if len(repeat.folded) >= LEAST_SAVED and len(repeat.folded) > len(
            best.folded if best is not None else ()
        ):
            best = repeat
    return best
