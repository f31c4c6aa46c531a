"""The work-items of a group copy the pieces of a tile in turns.

In: how many pieces a tile has, a work-item's number in its group. Out: the pieces that it copies.
All copies of tiles to local memory are cut so: operands, lines of keys, tiles for matrix units. So
are the results of a tile that slices add up.
"""

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.ir import SSAValue

from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.index import Index
from mgn.passes.lower_kernels.core.emission import Code


@dataclass(frozen=True)
class Pieces:
    """A tile of `count` pieces for `items` work-items; `own` is the number of this one."""

    code: Code
    count: int
    items: int
    own: Index

    @property
    def turns(self) -> int:
        """How many pieces a work-item has."""
        return ceil_div(self.count, self.items)

    def number(self, turn: Index | int) -> Index:
        """The number of the work-item's piece in a turn. The last turn may have no such piece."""
        return self.own + turn * self.items

    def is_there(self, turn: Index | int) -> SSAValue | bool:
        """Whether the work-item has a piece in a turn; a bool where all work-items agree."""
        return self.code.is_below(self.number(turn), self.count, 1)

    def inside(self, turn: Index | int, body: Callable[[], None]) -> None:
        """Runs a body in the work-items that have a piece in a turn."""
        self.code.when(self.is_there(turn), body)
