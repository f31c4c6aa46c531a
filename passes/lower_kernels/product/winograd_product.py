"""The contraction template for convolutions of tiles on a CPU, whose filters lie transformed.

A work-item has some tiles of 2 × 2 places and some panels of filters. For each block of channels it
transforms the 4 × 4 elements of its tiles into local memory, vectors along the channels. Then it
adds the 16 products of these with the panels to sums that are kept in local memory: a register tile
is tiles times vectors of filters. What the last sums come to is transformed back, four places of a
vector of filters at a time, and written with what follows.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod

from xdsl.dialects import arith
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from mgn.dialects import kernel
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.body import Node
from mgn.passes.kernels.index import ZERO, Index, delinearised, lanes, linear
from mgn.passes.kernels.product import Product
from mgn.passes.kernels.winograd import (
    PLACES,
    SIDE,
    TILE,
    TiledImage,
    results_of,
    transformed_elements,
)
from mgn.passes.lower_kernels.core.product import add_products, tile_start, write_tile
from mgn.passes.lower_kernels.core.pure_code import memory_type
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.schedules.product.winograd_products import TileBlocking

STEPS_TOGETHER, STEPS_AHEAD, NEAREST = 4, 16, 1
"""Steps that are written out for each turn of a tile's loop; how many steps before its use a
panel's row is fetched, and into which cache.
"""

Axis = Callable[[Sequence[SSAValue]], list[SSAValue]]


def lower_winograd(job: Job, product: Product) -> Launch:
    """Writes a convolution. VerifyException where the product is none."""
    image = TiledImage.of(product)
    if image is None:
        raise VerifyException("fusion.kernel contraction: the left operand is no 3 × 3 windows")
    return _Convolution(job, product, image).write()


def filters_of(product: Product) -> Node:
    """The input that holds the transformed filters."""
    found: set[Node] = set()
    pending = [product.node.operands[1]]
    while pending:
        node = pending.pop()
        pending.extend(node.operands)
        found |= {node} if node.name == "input" else set()
    (filters,) = found
    return filters


class _Convolution:
    def __init__(self, job: Job, product: Product, image: TiledImage) -> None:
        self.job, self.product, self.image, self.code = job, product, image, job.code
        self.sizes = sizes = TileBlocking.of(job.schedule)
        self.filters = filters_of(product)
        self.count = prod(image.tiles)
        self.blocks = ceil_div(image.channels, sizes.channels)
        self.type = memory_type(product.element)
        self.elements = job.code.local(self.type, PLACES * sizes.tiles * sizes.row)
        self.sums = job.code.local(self.type, PLACES * sizes.tiles * sizes.panels * sizes.columns)

    def write(self) -> Launch:
        """Writes the kernel."""
        code, sizes = self.code, self.sizes
        down, across = sizes.items(self.image, self.product.columns)
        item = code.counter(kernel.GlobalIdOp, 0, down * across)
        panels = self.product.columns // sizes.columns
        self.first_panel = tile_start(code, item // down, sizes.panels, panels)
        self.first_tile = item % down * sizes.tiles
        code.each(0, self.blocks, self._one_block)
        code.each(0, sizes.tiles, self._finish)
        return Launch((down * across,))

    def _tile(self, number: Index) -> tuple[Index, Index, Index]:
        """The image of a work-item's tile, and its first place; the last tiles may be the same."""
        tile = (self.first_tile + number).clamp(0, self.count - 1)
        image, row, column = delinearised(self.code.known(tile, self.count), self.image.tiles)
        return image, row * TILE, column * TILE

    def _one_block(self, block: Index) -> None:
        """Transforms a block of channels of all tiles, and adds its products."""
        code, sizes = self.code, self.sizes
        code.each(0, sizes.tiles, lambda tile: self._transform(tile, block))

        def panel(product: Index, number: Index) -> None:
            code.each(0, sizes.down, lambda tile: self._products(product, number, tile, block))

        def each(product: Index) -> None:
            code.each(0, sizes.panels, lambda number: panel(product, number))

        code.each(0, PLACES, each)

    def _transform(self, tile: Index, block: Index) -> None:
        """Transforms a block of channels of a tile."""
        code, image = self.code, self.image
        number, row, column = self._tile(tile)
        (down, right), (rows, columns) = image.low, image.source.shape[1:3]

        def inner(y: int, x: int) -> tuple[Node, Index, Index]:
            own_y = code.known(row + (y - down), rows) if rows else row
            return image.source, own_y, code.known(column + (x - right), columns)

        def outer(y: int, x: int) -> tuple[Node, Index, Index]:
            _, height, width, _ = image.image.shape
            return image.image, (row + y).clamp(0, height - 1), (column + x).clamp(0, width - 1)

        def written(place: Callable[[int, int], tuple[Node, Index, Index]]) -> None:
            self._transform_at(number, place, tile, block)

        ends = ((row - down, rows), (column - right, columns))
        tests = [code.is_below(first * -1, 1, 1) for first, _ in ends]
        tests += [code.is_below(first + (SIDE - 1), size, 1) for first, size in ends]
        code.branch(code.all_of(tests), lambda: written(inner), lambda: written(outer))

    def _transform_at(
        self,
        number: Index,
        place: Callable[[int, int], tuple[Node, Index, Index]],
        tile: Index,
        block: Index,
    ) -> None:
        """The same with elements of some places of an image, a vector of channels at a time."""
        code, sizes, width = self.code, self.sizes, self.sizes.width
        evaluator = self.job.evaluator(width)

        def element(channel: Index, y: int, x: int) -> SSAValue:
            node, own_y, own_x = place(y, x)
            index = (number, own_y, own_x, channel + lanes(width))
            return evaluator.lanes_at(node, index)

        def vector(step: Index) -> None:
            own = step * width
            channel = code.known(block * sizes.channels + own, self.image.channels)
            rows = [[element(channel, y, x) for x in range(SIDE)] for y in range(SIDE)]
            found = self._both_axes(rows, self._elements)
            for product, value in enumerate(item for row in found for item in row):
                at = (tile + product * sizes.tiles) * sizes.row + own
                code.store(value, self.elements, code.index(at))

        code.each(0, sizes.channels // width, vector)

    def _products(self, product: Index, panel: Index, tile: Index, block: Index) -> None:
        """A register tile: adds a block's products of some tiles with a panel to their sums."""
        code, sizes = self.code, self.sizes
        first = self._sum(product, panel, tile * sizes.rows)
        places = [first + n * sizes.width for n in range(sizes.rows * sizes.vectors)]
        held = zeros = [code.constant(0, self.type, sizes.width)] * len(places)
        if self.blocks > 1:
            begins = code.compare_integers("eq", code.index(block), code.index(0))
            held = code.branch(
                begins,
                lambda: zeros,
                lambda: [code.load(self.sums, code.index(at), sizes.width) for at in places],
            )
        row = (product * sizes.tiles + tile * sizes.rows) * sizes.row
        place = (product, self.first_panel + panel, block * sizes.channels, ZERO)
        start = linear(place, self.filters.shape)

        def step(k: Index, sums: list[SSAValue]) -> list[SSAValue]:
            columns = self._columns(start + k * sizes.columns)
            rows = (
                code.load(self.elements, code.index(row + k + n * sizes.row))
                for n in range(sizes.rows)
            )
            return add_products(code, self.product.element, rows, columns, sums)

        def turn(number: Index, sums: list[SSAValue]) -> list[SSAValue]:
            steps, own = STEPS_TOGETHER, number * STEPS_TOGETHER
            return code.loop(0, steps, lambda k, held: step(own + k, held), sums, unroll=steps)

        turns = sizes.channels // STEPS_TOGETHER
        totals = code.loop(0, turns, turn, held)
        totals = code.loop(turns * STEPS_TOGETHER, sizes.channels, step, totals)
        for at, total in zip(places, totals, strict=True):
            code.store(total, self.sums, code.index(at))

    def _columns(self, place: Index) -> list[SSAValue]:
        """A step of a panel of filters; a later one is asked for on the way."""
        code, sizes = self.code, self.sizes
        buffer = self.job.inputs[self.filters.number]
        code.prefetch(buffer, code.index(place + STEPS_AHEAD * sizes.columns), NEAREST)
        at = [place + n * sizes.width for n in range(sizes.vectors)]
        return [code.load(buffer, code.index(i), sizes.width, i.multiple) for i in at]

    def _sum(self, product: Index | int, panel: Index, tile: Index) -> Index:
        """Where the sums of a product of a panel begin for a tile."""
        panels = panel + (product * self.sizes.panels)
        return (panels * self.sizes.tiles + tile) * self.sizes.columns

    def _finish(self, tile: Index) -> None:
        """Writes the places of a tile, with what follows: a vector of filters at a time."""
        code, sizes = self.code, self.sizes
        number, row, column = self._tile(tile)

        def vector(panel: Index, part: Index) -> None:
            products = [
                code.load(
                    self.sums,
                    code.index(self._sum(product, panel, tile) + part * sizes.width),
                    sizes.width,
                )
                for product in range(PLACES)
            ]
            square = [products[n : n + SIDE] for n in range(0, PLACES, SIDE)]
            found = self._both_axes(square, self._results)
            first = (self.first_panel + panel) * sizes.columns + part * sizes.width
            own = code.known(first, self.product.columns - sizes.width + 1) + lanes(sizes.width)
            for y in range(TILE):
                for x in range(TILE):
                    self._write(number, row + y, column + x, own, found[y][x])

        def panel(number: Index) -> None:
            code.each(0, sizes.vectors, lambda part: vector(number, part))

        code.each(0, sizes.panels, panel)

    def _write(self, number: Index, row: Index, column: Index, own: Index, total: SSAValue) -> None:
        """Writes a vector of filters of a place, unless the tile goes beyond the last one."""
        code, (rows, columns) = self.code, self.image.places

        def write() -> None:
            index = number, code.known(row, rows), code.known(column, columns)
            place = linear(index, (self.image.images, rows, columns))
            evaluator = self.job.evaluator(self.sizes.width)
            write_tile(self.job, self.product, evaluator, (), [place], [own], [total])

        code.when(
            code.all_of([code.is_below(row, rows, 1), code.is_below(column, columns, 1)]), write
        )

    def _both_axes(self, square: list[list[SSAValue]], axis: Axis) -> list[list[SSAValue]]:
        """A transform along the rows of a square, and along its columns."""
        rows = [axis(row) for row in square]
        columns = [axis(column) for column in zip(*rows, strict=True)]
        return [list(row) for row in zip(*columns, strict=True)]

    def _elements(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        add, sub = (partial(self.code.binary, cls) for cls in (arith.AddfOp, arith.SubfOp))
        return transformed_elements(values, add, sub)

    def _results(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        code = self.code
        add, sub = (partial(code.binary, cls) for cls in (arith.AddfOp, arith.SubfOp))
        half = partial(code.binary, arith.MulfOp, code.constant(0.5, self.type))
        return results_of(values, add, sub, half)
