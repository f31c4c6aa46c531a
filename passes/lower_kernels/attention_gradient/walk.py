"""A walk of attention's gradient: a group holds a tile of rows, queries or keys, and goes over the
others a tile at a time (FlashAttention-2; Dao 2023, arXiv:2307.08691).

In: an operation, sizes, a job. Out: the group's rows and tiles, the products of a panel of a tile,
and scores. What is made of scores is written in totals.py and sums.py.
"""

import math as numbers

from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.index import Index, lanes
from mgn.passes.lower_kernels.attention_gradient.local_tiles import LocalTiles
from mgn.passes.lower_kernels.attention_gradient.node import AttentionGradient, HeadOperands, at
from mgn.passes.lower_kernels.core.product import multiply_add
from mgn.passes.lower_kernels.core.pure_code import lane_of, memory_type
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.schedules.attention.gradient import Walk

UNROLL = 8
"""Steps of the loops over products that the device's compiler is asked to do at a time."""

BLOCK, MOST_TILES = 64, 128
"""Tiles of a block of a long walk. A walk of at most so many tiles stays one loop."""

Vectors = list[SSAValue]


class Walking:
    """A group with its rows, at what it walks."""

    def __init__(self, job: Job, attention: AttentionGradient, sizes: Walk) -> None:
        self.job, self.attention, self.sizes, self.code = job, attention, sizes, job.code
        self.type = memory_type(attention.element)
        self.zero = self.code.constant(0, self.type, sizes.lanes)
        self.parts = range(sizes.rows // sizes.lanes)

    def write(self) -> Launch:
        """Writes the kernel."""
        attention, sizes, code = self.attention, self.sizes, self.code
        blocks = ceil_div(attention.own, sizes.tile_rows)
        groups = blocks * attention.groups
        group = code.counter(kernel.GroupIdOp, 0, groups)
        place = code.counter(kernel.LocalIdOp, 0, sizes.items)
        block = group // attention.groups
        if attention.causal and not attention.of_keys:
            block = block * -1 + (blocks - 1)
        _, batch, head = attention.place(group % attention.groups)
        self.first_row = block * sizes.tile_rows
        self.operands = HeadOperands(self.job, attention, batch, head)
        self.tiles = LocalTiles(self.job, attention, sizes, self.operands, place)
        self.rows = [self._rows(part) for part in self.parts]
        self.tiles.copy_rows(self.first_row)
        self.write_results()
        return Launch((groups * sizes.items,), (sizes.items,))

    def _rows(self, part: int) -> Index:
        """A vector of the work-item's rows; a row past the last one becomes the last."""
        row = self.first_row + self.tiles.row(part) + lanes(self.sizes.lanes)
        return row.clamp(0, max(self.attention.own - 1, 0))

    def tiles_seen(self) -> tuple[Index, Index]:
        """The first tile that a row of the group needs, and the first one after all."""
        attention, sizes, code = self.attention, self.sizes, self.code
        first = code.bounded(self.first_row, attention.own)
        last = code.bounded(self.first_row + (sizes.tile_rows - 1), attention.own)
        if attention.of_keys:
            begin, end = attention.first_row(first), attention.row_limit(last)
        else:
            begin, end = attention.first(first), attention.limit(last)
        return at(begin) // sizes.tile_keys, (at(end) + (sizes.tile_keys - 1)) // sizes.tile_keys

    def write_results(self) -> None:
        """Walks, and writes what that comes to."""
        raise NotImplementedError

    def copy_tile(self, first: Index) -> None:
        """Copies a tile that is walked, when all have read the one before."""
        self.tiles.wait()
        self.tiles.copy_lines(first)
        self.tiles.wait()

    def score(
        self, product: SSAValue, part: int, other: Index
    ) -> tuple[SSAValue, SSAValue, SSAValue | None]:
        """A vector of scores, the same before bias and masks, and the bias."""
        attention, code, count = self.attention, self.code, self.sizes.lanes
        rows = self.rows[part]
        inside = code.bounded(other, attention.walked)
        row, key = (inside, rows) if attention.of_keys else (rows, inside)
        free = attention.score(code, product, None)
        bias = self.operands.bias(row, key, count)
        score = free if bias is None else attention.biased(code, free, bias)
        return self.masked(score, part, other, -numbers.inf), free, bias

    def masked(self, score: SSAValue, part: int, other: Index, hidden: float) -> SSAValue:
        """A vector of scores, or of what lies as they do, with another number where a query does
        not see the key.
        """
        attention, rows = self.attention, self.rows[part]
        inside = self.code.bounded(other, attention.walked)
        row, key = (inside, rows) if attention.of_keys else (rows, other)
        limit, start = attention.limit(row), attention.first(row)
        return attention.masked(self.code, score, key, limit, start, hidden)

    def products(self, which: int, panel: Index) -> Vectors:
        """The products of the work-item's rows and a panel's lines: for each vector of rows, one
        for each of its lines.
        """
        sizes, code, tiles = self.sizes, self.code, self.tiles
        size = tiles.lengths[which]

        def step(number: Index, held: Vectors) -> Vectors:
            k = number * sizes.vector
            lines = [tiles.of_line_at(which, panel + tiles.across(c), k) for c in range(sizes.keys)]
            totals = list(held)
            for lane in range(sizes.vector):
                rows = [tiles.of_rows(which, k + lane, part) for part in self.parts]
                for n in range(len(totals)):
                    part, c = divmod(n, sizes.keys)
                    own = lane_of(code, lines[c], lane)
                    totals[n] = self.multiply_add_to(totals[n], rows[part], own)
            return totals

        held = [self.zero] * (len(self.parts) * sizes.keys)
        return code.loop(0, ceil_div(size, sizes.vector), step, held, unroll=UNROLL)

    def multiply_add_to(self, held: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        """A vector with the product of two added."""
        return multiply_add(self.code, self.attention.element, a, b, held)
