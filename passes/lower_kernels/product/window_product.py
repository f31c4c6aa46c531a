"""The contraction template for convolutions on a CPU: windows are read from copied planes.

A work-item computes some rows of a band of places. For each block of channels it copies the bands
of their planes, with padding, into local memory. Then, a tile of rows at a time, it packs the
weights and multiplies them with vectors of places, which lie side by side in the copies: over rows
of places, padding between them included. What a tile comes to is kept in local memory; after the
last block it is written row by row, with what follows.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from math import prod

from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from mgn.dialects import kernel
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.body import INPUT
from mgn.passes.kernels.index import Index, constant, delinearised, lanes, linear
from mgn.passes.kernels.index_maps import MOVES, place_of
from mgn.passes.kernels.product import Product
from mgn.passes.kernels.window_planes import Band, WindowPlanes, planes_of_product
from mgn.passes.lower_kernels.core.operand import Operand
from mgn.passes.lower_kernels.core.product import add_products, tile_start, write_tile
from mgn.passes.lower_kernels.core.pure_code import memory_type
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.staging.panels import LeftTile, pack_left_rows
from mgn.passes.lower_kernels.staging.plane_copies import PlaneCopy
from mgn.passes.schedules.core.packed_blocking import LEFT_PADDING
from mgn.passes.schedules.product.window_products import WindowBlocking

LINE, NEXT = 16, 2
"""Elements that are fetched together, and the cache that they are fetched into."""

WRITTEN_OUT = 10
"""Elements of a window up to which all are written out one after the other; else those of a row."""


def lower_window_product(job: Job, product: Product) -> Launch:
    """Writes a convolution. VerifyException where the product is none."""
    planes = planes_of_product(product)
    if planes is None:
        raise VerifyException("fusion.kernel contraction: the right operand is no windows")
    return _Convolution(job, product, planes).write()


class _Convolution:
    def __init__(self, job: Job, product: Product, planes: WindowPlanes) -> None:
        self.job, self.product, self.planes, self.code = job, product, planes, job.code
        self.sizes = sizes = WindowBlocking.of(job.schedule)
        self.band = Band(planes, sizes.band)
        self.panels = sizes.panels(planes)
        self.each = product.depth // prod(planes.kernel)
        self.blocks = ceil_div(self.each, sizes.channels)
        self.tiles = ceil_div(product.rows, sizes.rows)
        self.columns = sizes.vectors * sizes.width
        self.type = memory_type(product.element)
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

    def write(self) -> Launch:
        code, sizes, product = self.code, self.sizes, self.product
        parts, bands = ceil_div(self.tiles, sizes.down), ceil_div(self.planes.places[0], sizes.band)
        items = parts * bands * prod(product.batch)
        item = code.counter(kernel.GlobalIdOp, 0, items)
        part, other = item % parts, item // parts
        self.batch = delinearised(other // bands, product.batch)
        self.first_row = tile_start(code, other % bands, sizes.band, self.planes.places[0])
        self.first_tile = tile_start(code, part, sizes.down, self.tiles)
        self.operand, _ = Operand.both(self.job, product, self.batch)
        PlaneCopy(self.job, self.band, self.copies).clear(sizes.channels)
        code.each(0, self.blocks, self._one_block)
        code.each(0, sizes.down, self._finish)
        return Launch((items,))

    def _one_block(self, block: Index) -> None:
        """Copies a block of channels, and adds its products to all tiles."""
        code, sizes = self.code, self.sizes
        first = block * sizes.channels
        count: Index | int = sizes.channels
        if self.each % sizes.channels:
            count = (first * -1 + self.each).clamp(0, sizes.channels)
        shape = self.product.node.operands[1].shape[:-2]
        group = linear(self.batch, shape) if shape else constant(0)

        def channel(number: Index) -> None:
            own = code.known(group * self.each + first + number, prod(self.planes.outer))
            copy = PlaneCopy(self.job, self.band, self.copies, number * self.band.size)
            copy.copy(delinearised(own, self.planes.outer), self.first_row)

        code.each(0, count, channel)
        code.forget_loads()
        elements = prod(self.planes.kernel)

        def tile(number: Index) -> None:
            pack_left_rows(
                self.operand, first * elements, count * elements, self._row(number), self.left
            )
            code.forget_loads()
            code.each(0, self.panels, lambda panel: self._tile(number, panel, block, count))

        code.each(0, sizes.down, tile)

    def _row(self, tile: Index) -> Index:
        """The first row of a tile."""
        number = self.code.known(self.first_tile + tile, self.tiles)
        return tile_start(self.code, number, self.sizes.rows, self.product.rows)

    def _tile(self, tile: Index, panel: Index, block: Index, count: Index | int) -> None:
        """A register tile: rows times places of the copies."""
        code, sizes = self.code, self.sizes
        place = panel * self.columns
        zero = [code.constant(0, self.type, sizes.width)] * (sizes.rows * sizes.vectors)
        at = self._places(tile, panel)

        def kept() -> list[SSAValue]:
            return [code.load(self.sums, code.index(index), sizes.width) for index in at]

        held = zero
        if self.blocks > 1:
            is_first = code.compare_integers("eq", code.index(block), code.index(0))
            held = code.branch(is_first, lambda: zero, kept)

        self._fetch(tile, block, panel)
        totals = code.loop(0, count, lambda c, sums: self._channel(c, place, sums), held)
        for index, total in zip(at, totals, strict=True):
            code.store(total, self.sums, code.index(index))

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
        columns = self.planes.places[1]
        line = self.panels * self.columns
        first = self._row(tile)

        def one_row(number: Index) -> None:
            row = code.known(first + number, self.product.rows)

            def one_line(y: Index) -> None:
                start = tile * (sizes.rows * line) + number * line + y * self.band.stride
                own = code.known(self.first_row + y, self.planes.places[0])
                self._write(row, own, lambda x: code.index(start + x))

            code.each(0, sizes.band, one_line)

        code.each(0, sizes.rows, one_row)
        assert narrow <= columns, "vectors are no longer than rows of places"

    def _write(self, row: Index, y: Index, place: Callable[[Index], SSAValue]) -> None:
        """Writes one row of places of a row of the product; the last vector overlaps."""
        code, narrow, columns = self.code, self.sizes.narrow, self.planes.places[1]

        def some(x: Index) -> None:
            total = code.load(self.sums, place(x), narrow)
            evaluator = self.job.evaluator(narrow)
            column = y * columns + x + lanes(narrow)
            write_tile(self.job, self.product, evaluator, self.batch, [row], [column], [total])

        code.each(0, columns // narrow, lambda number: some(number * narrow))
        if columns % narrow:
            some(constant(columns - narrow))
