"""The contraction template for large products on a CPU: panels packed into local memory.

A work-item computes a block of the result. For each block of the shared axis it packs the right
operand into panels, columns side by side, unless it lies in memory that way (prepack_products.py).
Then, a tile of rows at a time, it packs the left operand and multiplies it with all panels. What
comes before the product is evaluated while packing; what comes after, on the finished tile. While a
tile is multiplied, the next tile's rows and the panel's next columns are fetched into caches. The
hints are spread over the steps, a line every few: many at once would delay the tile's own loads.
"""

from collections.abc import Sequence
from math import prod

from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.passes.kernels.accumulation import accumulator
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.index import ZERO, Index, delinearised, lanes, linear
from mgn.passes.kernels.pooled_products import Group
from mgn.passes.kernels.product import Product, lying_input
from mgn.passes.lower_kernels.core.evaluate import Evaluator
from mgn.passes.lower_kernels.core.long_totals import LongTotals
from mgn.passes.lower_kernels.core.operand import Operand
from mgn.passes.lower_kernels.core.pooled import (
    group_value,
    need_whole_groups,
    pool_of,
    write_group,
)
from mgn.passes.lower_kernels.core.product import add_products, tile_start, write_halves, write_tile
from mgn.passes.lower_kernels.core.pure_code import memory_type
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.staging.panels import (
    LeftTile,
    RightBlock,
    pack_left_columns,
    pack_left_rows,
    pack_panels,
    pack_transposed_panels,
)
from mgn.passes.lower_kernels.staging.window_rows import pack_left_windows, windows_in_vectors
from mgn.passes.schedules.core.packed_blocking import (
    LEFT_PADDING,
    LONGEST_VECTOR,
    Blocking,
    is_simple,
    panels_of,
)

LINE_BYTES = 64
"""A line of a cache."""

STEPS_AHEAD = 16
"""How many steps before its use a panel's row is fetched into the nearest cache."""

STEPS_TOGETHER = 4
"""Steps that are written out for each turn of a tile's loop. With 8 of them, Intel's compiler loads
operands so early that sums of a full tile leave its 16 vector registers: half the speed.
"""

NEAREST, NEXT = 1, 2
"""Levels of caches."""


def lower_packed(job: Job, product: Product) -> Launch:
    """Writes a contraction kernel with packed panels."""
    return _Packed(job, product).write()


class _Packed:
    def __init__(self, job: Job, product: Product) -> None:
        self.job, self.product, self.code = job, product, job.code
        self.is_simple = is_simple(job.body, product)
        self.sizes = sizes = Blocking.of(job.schedule, product)
        need_whole_groups(product, sizes.rows)
        self.type = memory_type(accumulator(product.element))
        code = job.code
        self.tiles_down = ceil_div(product.rows, sizes.rows)
        self.tiles_across = ceil_div(product.columns // product.halves, sizes.span)
        self.blocks = ceil_div(product.depth, sizes.depth)
        vector_bytes = sizes.width * accumulator(product.element).bytes
        self.vectors_a_line = max(LINE_BYTES // vector_bytes, 1)
        self.windows = windows_in_vectors(product, sizes.depth, job.number("lanes", 16))
        self.left = self._left_tile() if sizes.copies_left else None
        self.right = self._right_block() if sizes.copies_right else None
        if self.blocks > 1 or not self.is_simple:
            count = sizes.down * sizes.rows * sizes.across * sizes.columns
            steps = (product.depth, sizes.depth)
            self.totals = LongTotals(code, accumulator(product.element), count, sizes.width, *steps)

    def _left_tile(self) -> LeftTile:
        sizes = self.sizes
        if self.product.node.values["transpose_a"]:
            buffer = self.code.local(self.type, sizes.rows * sizes.depth)
            return LeftTile(buffer, sizes.rows, step=sizes.rows, row=1)
        stride = sizes.depth + LEFT_PADDING
        buffer = self.code.local(self.type, sizes.rows * stride)
        return LeftTile(buffer, sizes.rows, step=1, row=stride)

    def _right_block(self) -> RightBlock:
        sizes = self.sizes
        buffer = self.code.local(self.type, sizes.across * sizes.depth * sizes.columns)
        return RightBlock(buffer, sizes)

    def write(self) -> Launch:
        product, sizes, code = self.product, self.sizes, self.code
        blocks_down = ceil_div(self.tiles_down, sizes.down)
        blocks_across = ceil_div(self.tiles_across, sizes.across)
        items = blocks_down * blocks_across * prod(product.batch)
        item = code.counter(kernel.GlobalIdOp, 0, items)
        block_row, other = item % blocks_down, item // blocks_down
        block_column, batch_number = other % blocks_across, other // blocks_across
        self.batch = delinearised(batch_number, product.batch)
        self.operands = Operand.both(self.job, product, self.batch)
        self.first_row = block_row * sizes.down
        self.first_column = block_column * sizes.across
        self.count_down = self._count(self.first_row, sizes.down, self.tiles_down)
        self.count_across = self._count(self.first_column, sizes.across, self.tiles_across)
        if self.blocks > 1:
            self.totals.clear()
        code.each(0, self.blocks, self._one_block)
        return Launch((items,))

    def _count(self, first: Index, most: int, limit: int) -> Index | int:
        if limit % most == 0:
            return most
        return (first * -1 + limit).clamp(1, most)

    def _row(self, tile: Index) -> Index:
        """The first row of a tile of this block."""
        number = self.code.known(self.first_row + tile, self.tiles_down)
        return tile_start(self.code, number, self.sizes.rows, self.product.rows)

    def _column(self, panel: Index) -> Index:
        """The first column of a panel of this block."""
        number = self.code.known(self.first_column + panel, self.tiles_across)
        columns = self.product.columns // self.product.halves
        return tile_start(self.code, number, self.sizes.span, columns)

    def _one_block(self, block: Index) -> None:
        """Packs one block of the shared axis, and adds its products to all tiles."""
        product, sizes, code = self.product, self.sizes, self.code
        first = block * sizes.depth
        steps: Index | int = sizes.depth
        if product.depth % sizes.depth:
            steps = (first * -1 + product.depth).clamp(0, sizes.depth)
        if self.right is not None:
            transposed = product.right_runs_along_depth and product.depth >= 2 * sizes.width > 2
            pack = pack_transposed_panels if transposed else pack_panels
            panels = (self.count_across, self._column)
            pack(self.operands[1], first, steps, panels, self.right)

        def tile(number: Index) -> None:
            row = self._row(number)
            if self.left is not None and self.windows is not None:
                rest = (first, sizes.depth, row, self.left)
                pack_left_windows(self.job, self.windows, product.pool, *rest)
            elif self.left is not None:
                transposed = product.node.values["transpose_a"]
                pack = pack_left_columns if transposed else pack_left_rows
                pack(self.operands[0], first, steps, row, self.left)

            code.each(
                0,
                self.count_across,
                lambda panel: self._tile(panel, number, row, block, steps),
            )

        code.each(0, self.count_down, tile)

    def _fetch_rows(self, panel: Index, row: Index, first: Index, turn: Index) -> None:
        """Asks for lines of the next tile's rows in a turn of the loop over a panel's steps."""
        product, sizes, code = self.product, self.sizes, self.code
        left = product.node.operands[0]
        source = lying_input(left)
        if self.left is None or source is None or not product.left_runs_along_depth:
            return
        turns = LONGEST_VECTOR // STEPS_TOGETHER
        rows = ceil_div(sizes.rows, sizes.across)
        share = ceil_div(rows, turns)
        steps = first + turn // turns * LONGEST_VECTOR
        for number in range(share):
            own = (turn % turns * share + number).clamp(0, rows - 1)
            below = row + sizes.rows + panel * rows + own
            index = linear(product.left_index(self.batch, below, steps), left.shape)
            code.prefetch(self.job.inputs[source.number], code.index(index), NEXT)

    def _tile(
        self, panel: Index, tile: Index, row: Index, block: Index, steps: Index | int
    ) -> None:
        """One register tile: a panel of columns times a few rows."""
        product, sizes, code = self.product, self.sizes, self.code
        first = block * sizes.depth
        element = accumulator(product.element)

        def step(k: Index, held: list[SSAValue]) -> list[SSAValue]:
            parts = self._right_values(panel, first, k)
            rows = (self._left_value(row, i, first, k) for i in range(sizes.rows))
            return add_products(code, element, rows, parts, held)

        def turn(number: Index, held: list[SSAValue]) -> list[SSAValue]:
            self._fetch_rows(panel, row, first, number)
            start = number * STEPS_TOGETHER
            return code.loop(
                0,
                STEPS_TOGETHER,
                lambda k, held: step(start + k, held),
                held,
                unroll=STEPS_TOGETHER,
            )

        turns = steps // STEPS_TOGETHER
        totals = code.loop(0, turns, turn, self._held(panel, tile, block))
        totals = code.loop(turns * STEPS_TOGETHER, steps, step, totals)
        if self.blocks == 1 and self.is_simple:
            self._write(panel, row, totals)
            return
        places = self._places(panel, tile)

        def keep() -> None:
            self.totals.keep(places, totals)
            self.totals.carry(block, places)

        def write() -> None:
            pairs = zip(places, totals, strict=True)
            self._write(panel, row, [self.totals.whole(*pair) for pair in pairs])

        def carry() -> None:
            self.totals.carry(block, places)

        if self.is_simple:
            code.branch(self._is_last(block), write, keep)
            return
        self.totals.keep(places, totals)
        code.branch(self._is_last(block), lambda: self._finish(panel, tile, row), carry)

    def _is_last(self, block: Index) -> SSAValue:
        code = self.code
        last = code.index(self.blocks - 1)
        return code.compare_integers("eq", code.index(block), last)

    def _place(self, panel: Index, tile: Index) -> Index:
        tile_size = self.sizes.rows * self.sizes.columns
        return panel * (self.sizes.down * tile_size) + tile * tile_size

    def _held(self, panel: Index, tile: Index, block: Index) -> list[SSAValue]:
        """The sums of the chain so far: zeros before its first block."""
        sizes, code = self.sizes, self.code
        count = sizes.rows * sizes.vectors
        zeros = [code.constant(0, self.type, sizes.width)] * count
        if self.blocks == 1:
            return zeros

        def kept() -> list[SSAValue]:
            return [self.totals.kept(place) for place in self._places(panel, tile)]

        return code.branch(self.totals.begins(block), lambda: zeros, kept)

    def _places(self, panel: Index, tile: Index) -> list[Index]:
        """Where memory has the vectors of a register tile."""
        sizes, first = self.sizes, self._place(panel, tile)
        return [first + number * sizes.width for number in range(sizes.rows * sizes.vectors)]

    def _left_value(self, row: Index, i: int, first: Index, k: Index) -> SSAValue:
        code, left = self.code, self.left
        if left is None:
            return self.operands[0].at(row + i, first + k)
        return code.load(left.buffer, code.index(left.place(i, k)))

    def _right_values(self, panel: Index, first: Index, k: Index) -> list[SSAValue]:
        """A step of a panel; a later one is asked for on the way."""
        sizes, code = self.sizes, self.code
        places = [self._right_place(panel, first, k, j) for j in range(sizes.vectors)]
        for buffer, place in places[:: self.vectors_a_line]:
            ahead = place + STEPS_AHEAD * sizes.columns
            code.prefetch(buffer, code.index(ahead), NEAREST)
        return [
            code.load(buffer, code.index(place), sizes.width, place.multiple)
            for buffer, place in places
        ]

    def _right_place(self, panel: Index, first: Index, k: Index, j: int) -> tuple[SSAValue, Index]:
        """Where vector `j` of a panel begins at a step."""
        if self.right is not None:
            return self.right.buffer, self.right.place(panel, k, j)
        lying = panels_of(self.product)
        _, count, steps, columns = lying.shape
        if self.sizes.columns == columns:
            number = self.code.known(self.first_column + panel, count)
            lane = ZERO + j * self.sizes.width
        else:
            column = self._column(panel) + j * self.sizes.width
            number, lane = column // columns, column % columns
        step = first + k
        place = linear((step // steps, number, step % steps, lane), lying.shape)
        return self.job.inputs[lying.number], place

    def _write(self, panel: Index, row: Index, totals: Sequence[SSAValue]) -> None:
        """What follows the product, on a tile in registers."""
        column, vectors = self._column(panel), self.sizes.vectors
        evaluator = self.job.evaluator(self.sizes.width)
        if self.product.pool is not None:
            self._write_groups(evaluator, row, column, totals)
            return
        for i in range(self.sizes.rows):
            own = totals[i * vectors : (i + 1) * vectors]
            self._write_row(evaluator, row + i, column, own)

    def _finish(self, panel: Index, tile: Index, row: Index) -> None:
        """What follows the product, on a tile in local memory, a row at a time."""
        sizes, code, pool = self.sizes, self.code, self.product.pool
        evaluator = self.job.evaluator(sizes.width)
        rows = pool.members if pool else 1

        def some_rows(number: Index) -> None:
            place = self._place(panel, tile) + number * (rows * sizes.columns)
            places = [place + j * sizes.width for j in range(rows * sizes.vectors)]
            totals = [self.totals.whole(at, self.totals.kept(at)) for at in places]
            at = code.known(row + number * rows, self.product.rows)
            if pool:
                self._write_groups(evaluator, at, self._column(panel), totals)
            else:
                self._write_row(evaluator, at, self._column(panel), totals)

        code.each(0, sizes.rows // rows, some_rows)

    def _write_groups(
        self, evaluator: Evaluator, row: Index, first: Index, totals: Sequence[SSAValue]
    ) -> None:
        """Combines groups of rows of vectors behind what follows them, and writes these."""
        job, product, sizes = self.job, self.product, self.sizes
        pool = pool_of(product)
        count = pool.members * sizes.vectors
        for start in range(0, len(totals), count):
            number = (row + start // sizes.vectors) // pool.members
            for j in range(sizes.vectors):
                column = sizes.vector(first, j) + lanes(sizes.width)
                group = Group(self.batch, self.code.known(number, pool.groups), column)
                own = totals[start + j : start + count : sizes.vectors]
                value = group_value(job, product, evaluator, group, own)
                write_group(job, product, evaluator, group, value)

    def _write_row(
        self, evaluator: Evaluator, row: Index, first: Index, totals: Sequence[SSAValue]
    ) -> None:
        """Evaluates what follows on a tile's row of vectors; column n together with n + half."""
        job, product, sizes = self.job, self.product, self.sizes
        own = sizes.vectors // sizes.halves
        for j in range(own):
            column = sizes.vector(first, j) + lanes(sizes.width)
            if product.halves > 1:
                write_halves(job, product, evaluator, self.batch, row, column, totals[j::own])
            else:
                write_tile(job, product, evaluator, self.batch, [row], [column], [totals[j]])
