"""How much a search may do: work is counted, so that no choice depends on a machine's speed.

In: what was done. Out: what is left. The figures are of one core of an Intel Xeon (Rocket Lake).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf

STATE = 5e-6
"""Seconds for a state that is met while a class is eliminated."""
PIVOT = 1.5e-9
"""Seconds for a row in an iteration of a linear program."""
ENTRY = 3e-7
"""Seconds for an entry of a linear program that is solved, or solved again."""
WRITTEN = 5e-7
"""Seconds for an entry of a row that is written."""
ROUNDED = 1e-6
"""Seconds for an entry of the rows that others are rounded from."""
LOOKED_AT = 15e-6
"""Seconds for a candidate of a problem that falls into parts."""


class Work:
    """Work that may still be done, in the seconds that it takes."""

    def __init__(self, seconds: float) -> None:
        self.left = seconds

    @contextmanager
    def shared(self, share: float) -> Iterator[None]:
        """Within it, only that share may be done of what is left."""
        with self.at_most(max(self.left, 0.0) * share):
            yield

    @contextmanager
    def at_most(self, seconds: float) -> Iterator[None]:
        """Within it, no more than so much may be done."""
        kept = max(self.left - seconds, 0.0)
        if kept < inf:
            self.left -= kept
        yield
        if kept < inf:
            self.left += kept

    def did(self, count: float, seconds: float) -> None:
        """Takes off what was done so many times, each of so many seconds."""
        self.left -= count * seconds
