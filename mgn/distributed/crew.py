"""What a run needs of the processes that do it together: one alone, or several ranks.

In: nothing. Out: the protocol `Crew`, and `ALONE`, the crew of one process.
`mgn.distributed.ranks` has that of several.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TypeVar

Item = TypeVar("Item")


class Crew(Protocol):
    """Processes that do a run together. All call the same methods in the same order."""

    rank: int
    size: int
    node_rank: int
    """The rank among those of one host."""

    @property
    def is_first(self) -> bool:
        """Whether this is the one that writes files and talks to the reader."""
        ...

    def exchange(self, label: str, value: Item) -> list[Item]:
        """What each rank gives, in their order. The label says what for; MgnError where ranks are
        at different ones.
        """
        ...

    def from_first(self, make: Callable[[], Item]) -> Item:
        """What the first rank makes, and it alone."""
        ...

    def guard(self) -> AbstractContextManager[object]:
        """Tells the others of an error that leaves the `with`."""
        ...

    def in_turn(self) -> AbstractContextManager[object]:
        """Has the first rank of a host do something before the others do it."""
        ...


class Alone:
    """One process."""

    rank = 0
    size = 1
    node_rank = 0
    is_first = True

    def exchange(self, label: str, value: Item) -> list[Item]:
        """The value."""
        return [value]

    def from_first(self, make: Callable[[], Item]) -> Item:
        """What is made."""
        return make()

    def guard(self) -> AbstractContextManager[object]:
        """Nobody is to be told."""
        return nullcontext()

    def in_turn(self) -> AbstractContextManager[object]:
        """Nobody waits."""
        return nullcontext()


ALONE: Crew = Alone()


def crew_of(trainer: Any) -> Crew:
    """The crew that a trainer is of; one that knows of none is alone."""
    return getattr(trainer, "crew", ALONE)
