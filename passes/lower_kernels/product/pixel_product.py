"""The contraction template for convolutions on a CPU with vectors along their output channels.

A work-item computes some channels of a band of places. For each block of input channels it copies
the bands of their planes, with padding, into local memory. Then, a tile of output channels at a
time, it multiplies vectors of weights, which lie turned in memory, with places, each in all lanes.
What a tile comes to is kept in local memory; after the last block squares of it are turned and
written, with what follows. Of a pool behind the convolution, what its windows come to is turned and
written instead. No lane is computed in vain where rows of places are short.
"""

from collections.abc import Iterator
from math import prod

from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.body import Node
from mgn.passes.kernels.index import ZERO, Index, constant, lanes
from mgn.passes.kernels.pooled_products import Group
from mgn.passes.kernels.product import Product
from mgn.passes.kernels.window_planes import WindowPlanes, planes_of_columns
from mgn.passes.lower_kernels.core.pooled import group_value, write_group
from mgn.passes.lower_kernels.core.product import add_products, write_tile
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.product.plane_walk import PlaneWalk
from mgn.passes.lower_kernels.staging.panels import transposed
from mgn.passes.schedules.product.pixel_products import PixelBlocking

WRITTEN_OUT = 9
"""Elements of a window up to which all are written out one after the other; else those of a row."""


def lower_pixel_product(job: Job, product: Product) -> Launch:
    """Writes a convolution. VerifyException where the product is none."""
    planes = planes_of_columns(product)
    if planes is None:
        raise VerifyException("fusion.kernel contraction: the right operand has no places")
    return _Convolution(job, product, planes).write()


def input_of(node: Node) -> Node:
    """The input that holds the weights in panels."""
    while node.operands:
        node = node.operands[0]
    return node


class _Convolution(PlaneWalk[PixelBlocking]):
    def __init__(self, job: Job, product: Product, planes: WindowPlanes) -> None:
        sizes = PixelBlocking.of(job.schedule)
        super().__init__(job, product, planes, sizes, ceil_div(product.rows, sizes.across))
        code = job.code
        self.held = sizes.band * planes.places[1]
        self.copies = code.local(self.type, sizes.channels * self.band.size + sizes.width)
        self.weights = job.inputs[input_of(product.node.operands[0]).number]
        self.sums = code.local(self.type, sizes.down * self.held * sizes.across)

    def _one_block(self, block: Index) -> None:
        code, sizes = self.code, self.sizes
        self.copy_planes(block, sizes.channels)
        across = self.planes.places[1] // sizes.places

        def tile(number: Index) -> None:
            code.each(
                0,
                sizes.band,
                lambda y: code.each(0, across, lambda x: self._tile(number, y, x, block)),
            )

        code.each(0, sizes.down, tile)

    def _tile(self, tile: Index, y: Index, group: Index, block: Index) -> None:
        """A register tile: places times vectors of output channels."""
        sizes, columns = self.sizes, self.planes.places[1]
        x = group * sizes.places
        first = tile * (self.held * sizes.across) + (y * columns + x) * sizes.across
        at = [first + n * sizes.width for n in range(sizes.places * sizes.vectors)]
        place = y * self.band.stride + x
        steps = self.number_of(tile) * self.product.depth + block * sizes.depth(self.planes)
        self.add_to(at, block, lambda held: self._channels(place, steps * sizes.across, held))

    def _channels(self, place: Index, panel: Index, held: list[SSAValue]) -> list[SSAValue]:
        """Adds the products of all channels of a block."""
        code, channels = self.code, self.sizes.channels
        down, across = self.planes.kernel

        def channel(number: Index, sums: list[SSAValue]) -> list[SSAValue]:
            if down * across <= WRITTEN_OUT:
                for y in range(down):
                    sums = self._elements(number, place, panel, constant(y), sums)
                return sums
            return code.loop(
                0, down, lambda y, own: self._elements(number, place, panel, y, own), sums
            )

        together = max(WRITTEN_OUT // (down * across), 1)
        while channels % together:
            together -= 1

        def several(number: Index, sums: list[SSAValue]) -> list[SSAValue]:
            for part in range(together):
                sums = channel(number * together + part, sums)
            return sums

        return code.loop(0, channels // together, several, held)

    def _elements(
        self, channel: Index, place: Index, panel: Index, y: Index, held: list[SSAValue]
    ) -> list[SSAValue]:
        """Adds the products of the elements of a row of windows."""
        code, sizes, across = self.code, self.sizes, self.planes.kernel[1]
        start = channel * self.band.size + place
        step = channel * prod(self.planes.kernel) + y * across
        for x in range(across):
            own = start + self.band.element(y, constant(x))
            weights = [
                code.load(
                    self.weights,
                    code.index(panel + (step + x) * sizes.across + n * sizes.width),
                    sizes.width,
                )
                for n in range(sizes.vectors)
            ]
            values = (
                code.load(self.copies, code.index(own + number)) for number in range(sizes.places)
            )
            held = add_products(code, self.product.element, values, weights, held)
        return held

    def _finish(self, tile: Index) -> None:
        """Turns squares of what a tile came to and writes them, with what follows."""
        if self.product.pool is not None:
            self._finish_windows(tile)
            return
        code, sizes = self.code, self.sizes
        row = self.number_of(tile) * sizes.across
        width = self._side(self.held)
        base = tile * (self.held * sizes.across)
        first = self.first_row * self.planes.places[1]

        def square(start: Index, part: Index) -> None:
            lines = [
                code.load(
                    self.sums,
                    code.index(base + (start + n) * sizes.across + part * width),
                    width,
                )
                for n in range(width)
            ]
            column = code.known(first + start, self.product.columns - width + 1) + lanes(width)
            for number, total in enumerate(transposed(code, lines)):
                own = code.known(row + part * width + number, self.product.rows)
                evaluator = self.job.evaluator(width)
                at = self.batch, [own], [column], [total]
                write_tile(self.job, self.product, evaluator, *at)

        def all_parts(start: Index) -> None:
            code.each(0, sizes.across // width, lambda part: square(start, part))

        code.each(0, self.held // width, lambda number: all_parts(number * width))
        if self.held % width:
            all_parts(constant(self.held - width))

    def _side(self, count: int) -> int:
        """The side of a square of so many places, or more."""
        width = self.sizes.width
        while width > count:
            width //= 2
        return width

    def _finish_windows(self, tile: Index) -> None:
        """The same of windows of places: the members of each are combined in vectors of channels,
        and squares of what they come to are turned.
        """
        code, job, product, batch = self.code, self.job, self.product, self.batch
        down, columns = self.pooled.size[0], self.pooled.count[1]
        row, held = self.number_of(tile) * self.sizes.across, self.sizes.band // down * columns
        width = self._side(held)
        base = tile * (self.held * self.sizes.across)
        first, count = self.row_of_windows(ZERO) * columns, columns * self.pooled.count[0]

        def combined(number: Index, part: Index) -> SSAValue:
            """What the members of a window of the band come to, for a vector of channels."""
            own = code.known(row + part * width, product.rows - width + 1) + lanes(width)
            group = Group(batch, code.known(first + number, count), own)
            place = base + self._first_place(number) * self.sizes.across + part * width
            totals = self._members(place, width)
            return group_value(job, product, job.evaluator(width), group, totals)

        def square(start: Index, part: Index) -> None:
            lines = [combined(start + n, part) for n in range(width)]
            windows = code.known(first + start, count - width + 1) + lanes(width)
            for number, value in enumerate(transposed(code, lines)):
                own = code.known(row + part * width + number, product.rows)
                group = Group(batch, windows, own)
                write_group(job, product, job.evaluator(width), group, value)

        def all_parts(start: Index) -> None:
            code.each(0, self.sizes.across // width, lambda part: square(start, part))

        code.each(0, held // width, lambda number: all_parts(number * width))
        if held % width:
            all_parts(constant(held - width))

    def _first_place(self, window: Index) -> Index:
        """The place in a band where a window of it begins."""
        (down, across), columns = self.pooled.size, self.pooled.count[1]
        return window // columns * (down * self.planes.places[1]) + window % columns * across

    def _members(self, first: Index, width: int) -> Iterator[SSAValue]:
        """Vectors of the sums of each place of a window, of which the first is kept at a place."""
        code, (down, across) = self.code, self.pooled.size
        for y in range(down):
            for x in range(across):
                step = y * self.planes.places[1] + x
                yield code.load(self.sums, code.index(first + step * self.sizes.across), width)
