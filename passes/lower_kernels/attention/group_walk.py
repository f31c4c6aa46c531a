"""Attention by work-groups: what templates with and without a matrix unit share.

In: an attention and sizes of tiles. Out: which rows of which key head a group takes, which keys it
visits, how a larger score scales down what was summed before, and how columns of a row are written.
"""

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from mgn.dialects import kernel
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.index import Index, lanes
from mgn.passes.lower_kernels.attention.node import Attention
from mgn.passes.lower_kernels.core.pure_code import lane_count
from mgn.passes.lower_kernels.core.template import Job
from mgn.passes.schedules.attention.matrix import MatrixTiling
from mgn.passes.schedules.attention.tiles import Tiling

Vectors = list[SSAValue]


class GroupWalk:
    """A group's walk over the keys that its rows see."""

    def __init__(self, job: Job, attention: Attention, sizes: Tiling | MatrixTiling) -> None:
        self.job, self.attention, self.code = job, attention, job.code
        self.tile, self.items = sizes.group, sizes.items

    def begin(self) -> int:
        """Finds the group's rows, part, batch and key head. Gives the number of work-items."""
        attention, code, (rows, _) = self.attention, self.code, self.tile
        blocks = ceil_div(attention.rows, rows)
        groups = blocks * attention.groups
        group = code.counter(kernel.GroupIdOp, 0, groups)
        self.place = code.counter(kernel.LocalIdOp, 0, self.items)
        outer, block = group % (groups // blocks), group // (groups // blocks)
        if attention.causal:
            block = block * -1 + (blocks - 1)
        self.part, self.batch, self.head = attention.place(outer)
        self.first_row = block * rows
        return groups * self.items

    def seen(self) -> tuple[Index, Index]:
        """The first key that some row of the group sees, and the first one after all."""
        attention, code, (rows, _) = self.attention, self.code, self.tile
        last = code.bounded(self.first_row + (rows - 1), attention.rows)
        first = code.bounded(self.first_row, attention.rows)
        begin = attention.within(self.part, attention.first(first))
        return begin, attention.within(self.part, attention.limit(last))

    def raised(self, largest: Vectors, found: Vectors) -> tuple[Vectors, Vectors, Vectors]:
        """The largest scores with those of a tile, what is subtracted from scores, and what sums
        from before are multiplied by.
        """
        attention, code = self.attention, self.code
        new = [code.binary(arith.MaxnumfOp, a, b) for a, b in zip(largest, found, strict=True)]
        shifts = [attention.shift(code, value) for value in new]
        pairs = zip(largest, shifts, strict=True)
        return new, shifts, [attention.power(code, old, shift) for old, shift in pairs]

    def over(self, cls: type[Operation], values: Sequence[SSAValue]) -> SSAValue:
        """Values as one."""
        total = values[0]
        for value in values[1:]:
            total = self.code.binary(cls, total, value)
        return total

    def store(self, row: Index, column: Index, value: SSAValue) -> None:
        """Stores neighbouring results of a row, and what follows from them."""
        own = (self.batch, self.head, row, column + lanes(lane_count(value)), value)
        self.attention.write(self.job, *own, self.part)

    def store_inside(self, row: Index, column: Index, value: SSAValue) -> None:
        """The same where the row has the columns."""
        code, width = self.code, lane_count(value)
        count = self.attention.width // width
        code.when(
            code.is_below(column // width, count, 1),
            lambda: self.store(row, code.bounded(column // width, count) * width, value),
        )
