"""The contraction template for convolutions on a CPU: windows are read from copied planes.

A work-item computes some rows of a band of places. For each block of channels it copies the bands
of their planes, with padding, into local memory. Then, a tile of rows at a time, it packs the
weights and multiplies them with vectors of places, which lie side by side in the copies: over rows
of places, padding between them included. What a tile comes to is kept in local memory; after the
last block it is written row by row, with what follows. Of a pool behind the convolution, what its
windows come to is written instead.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from math import prod

from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.body import INPUT
from mgn.passes.kernels.index import Index, constant, lanes
from mgn.passes.kernels.index_maps import MOVES, place_of
from mgn.passes.kernels.pooled_products import Group
from mgn.passes.kernels.product import Product
from mgn.passes.kernels.window_planes import WindowPlanes, planes_of_product
from mgn.passes.lower_kernels.core.evaluate import Evaluator
from mgn.passes.lower_kernels.core.operand import Operand
from mgn.passes.lower_kernels.core.pooled import group_value, write_group
from mgn.passes.lower_kernels.core.product import add_products, tile_start, write_tile
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.product.plane_walk import PlaneWalk
from mgn.passes.lower_kernels.staging.panels import LeftTile, every_second, pack_left_rows
from mgn.passes.schedules.core.packed_blocking import LEFT_PADDING
from mgn.passes.schedules.product.window_products import WindowBlocking

LINE, NEXT = 16, 2
"""Elements that are fetched together, and the cache that they are fetched into."""

EVERY_SECOND = 2
"""Places of a window beside one another, of which vectors are found by shuffles."""

WRITTEN_OUT = 10
"""Elements of a window up to which all are written out one after the other; else those of a row."""


def lower_window_product(job: Job, product: Product) -> Launch:
    """Writes a convolution. VerifyException where the product is none."""
    planes = planes_of_product(product)
    if planes is None:
        raise VerifyException("fusion.kernel contraction: the right operand is no windows")
    return _Convolution(job, product, planes).write()


class _Convolution(PlaneWalk[WindowBlocking]):
    def __init__(self, job: Job, product: Product, planes: WindowPlanes) -> None:
        sizes = WindowBlocking.of(job.schedule)
        super().__init__(job, product, planes, sizes, ceil_div(product.rows, sizes.rows))
        self.panels = sizes.panels(planes)
        self.columns = sizes.vectors * sizes.width
        code, depth = job.code, sizes.depth(planes)
        self.copies = code.local(self.type, sizes.channels * self.band.size + self.columns)
        left = code.local(self.type, sizes.rows * (depth + LEFT_PADDING))
        self.left = LeftTile(left, sizes.rows, step=1, row=depth + LEFT_PADDING)
        self.sums = code.local(self.type, sizes.down * sizes.held(planes))

    @cached_property
    def moves_weights(self) -> bool:
        """Whether the weights lie in memory, in some order."""
        node = self.product.node.operands[0]
        while node.name in MOVES:
            (node,) = node.operands
        return node.name == INPUT

    def _one_block(self, block: Index) -> None:
        code, sizes = self.code, self.sizes
        first = block * sizes.channels
        count: Index | int = sizes.channels
        if self.each % sizes.channels:
            count = (first * -1 + self.each).clamp(0, sizes.channels)
        self.copy_planes(block, count)
        code.forget_loads()
        elements = prod(self.planes.kernel)
        weights, _ = Operand.both(self.job, self.product, self.batch)

        def tile(number: Index) -> None:
            pack_left_rows(
                weights, first * elements, count * elements, self._row(number), self.left
            )
            code.forget_loads()
            code.each(0, self.panels, lambda panel: self._tile(number, panel, block, count))

        code.each(0, sizes.down, tile)

    def _row(self, tile: Index) -> Index:
        """The first row of a tile."""
        return tile_start(self.code, self.number_of(tile), self.sizes.rows, self.product.rows)

    def _tile(self, tile: Index, panel: Index, block: Index, count: Index | int) -> None:
        """A register tile: rows times places of the copies."""
        place = panel * self.columns

        def products(held: list[SSAValue]) -> list[SSAValue]:
            self._fetch(tile, block, panel)
            return self.code.loop(0, count, lambda c, sums: self._channel(c, place, sums), held)

        self.add_to(self._places(tile, panel), block, products)

    def _fetch(self, tile: Index, block: Index, panel: Index) -> None:
        """Asks for a panel's share of the lines of the weights that are packed next, before the
        loop over channels: registers are full in there.
        """
        code, sizes = self.code, self.sizes
        if not self.moves_weights:
            return
        depth = sizes.depth(self.planes)
        lines = ceil_div(depth, LINE)
        share = ceil_div(sizes.rows * lines, self.panels)
        number = block * sizes.down + tile + 1
        row = self._row(number % sizes.down)
        first = code.bounded(number // sizes.down, self.blocks) * depth

        def fetch(part: Index) -> None:
            own = panel * share + part
            step = (first + own % lines * LINE).clamp(0, self.product.depth - 1)
            below = (row + own // lines).clamp(0, self.product.rows - 1)
            index = self.product.left_index(self.batch, below, step)
            node, place = place_of(self.product.node.operands[0], index)
            code.prefetch(self.job.inputs[node.number], code.index(place), NEXT)

        code.each(0, share, fetch)

    def _channel(self, channel: Index, place: Index, held: list[SSAValue]) -> list[SSAValue]:
        """Adds the products of one channel's elements."""
        down, across = self.planes.kernel
        if down * across <= WRITTEN_OUT:
            return self._elements(channel, place, range(down), held)
        return self.code.loop(
            0, down, lambda y, sums: self._elements(channel, place, [y], sums), held
        )

    def _elements(
        self, channel: Index, place: Index, rows: Sequence[Index | int], held: list[SSAValue]
    ) -> list[SSAValue]:
        code, sizes, across = self.code, self.sizes, self.planes.kernel[1]
        step = channel * prod(self.planes.kernel)
        start = channel * self.band.size + place
        for row in rows:
            y = constant(row) if isinstance(row, int) else row
            for x in range(across):
                own = start + self.band.element(y, constant(x))
                columns = [
                    code.load(self.copies, code.index(own + n * sizes.width), sizes.width)
                    for n in range(sizes.vectors)
                ]
                k = step + y * across + x
                weights = (
                    code.load(self.left.buffer, code.index(self.left.place(i, k)))
                    for i in range(sizes.rows)
                )
                held = add_products(code, self.product.element, weights, columns, held)
        return held

    def _places(self, tile: Index, panel: Index) -> list[Index]:
        """Where a register tile is kept."""
        sizes = self.sizes
        line = self.panels * self.columns
        first = tile * (sizes.rows * line) + panel * self.columns
        return [first + i * line + n * sizes.width for i in range(sizes.rows)
                for n in range(sizes.vectors)]  # fmt: skip

    def _finish(self, tile: Index) -> None:
        """Writes the rows of a tile, with what follows."""
        code, sizes, narrow = self.code, self.sizes, self.sizes.narrow
        down, columns = self.pooled.size[0], self.pooled.count[1]
        line = self.panels * self.columns
        first = self._row(tile)

        def one_row(number: Index) -> None:
            row = code.known(first + number, self.product.rows)

            def one_line(y: Index) -> None:
                start = tile * (sizes.rows * line) + number * line + y * down * self.band.stride
                self._write(row, self.row_of_windows(y), start)

            code.each(0, sizes.band // down, one_line)

        code.each(0, sizes.rows, one_row)
        assert narrow <= columns, "vectors are no longer than rows of places"

    def _write(self, row: Index, y: Index, start: Index) -> None:
        """Writes one row of places of a row of the product, or of windows of these; the last vector
        overlaps. The sums of the row are kept from `start` on.
        """
        code, narrow, columns = self.code, self.sizes.narrow, self.pooled.count[1]

        def some(x: Index) -> None:
            evaluator, column = self.job.evaluator(narrow), y * columns + x + lanes(narrow)
            if self.product.pool is None:
                total = code.load(self.sums, code.index(start + x), narrow)
                write_tile(self.job, self.product, evaluator, self.batch, [row], [column], [total])
                return
            group = Group(self.batch, column, row)
            totals = self._members(evaluator, start + x * self.pooled.size[1])
            value = group_value(self.job, self.product, evaluator, group, totals)
            write_group(self.job, self.product, evaluator, group, value)

        code.each(0, columns // narrow, lambda number: some(number * narrow))
        if columns % narrow:
            some(constant(columns - narrow))

    def _members(self, evaluator: Evaluator, start: Index) -> Iterator[SSAValue]:
        """The sums of each member of neighbouring windows, the first of which begins at a start."""
        code, narrow = self.code, self.sizes.narrow
        down, across = self.pooled.size
        for y in range(down):
            first = start + y * self.band.stride
            if across == EVERY_SECOND:
                places = [first, first + narrow]
                pair = [code.load(self.sums, code.index(place), narrow) for place in places]
                yield from (every_second(code, pair, x) for x in range(across))
                continue
            for x in range(across):
                yield evaluator.load(self.sums, first + x + lanes(narrow) * across)
