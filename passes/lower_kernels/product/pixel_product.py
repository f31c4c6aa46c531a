"""The contraction template for convolutions on a CPU with vectors along their output channels.

A work-item computes some channels of a band of places. For each block of input channels it copies
the bands of their planes, with padding, into local memory. Then, a tile of output channels at a
time, it multiplies vectors of weights, which lie turned in memory, with places, each in all lanes.
What a tile comes to is kept in local memory; after the last block squares of it are turned and
written, with what follows. No lane is computed in vain where rows of places are short.
"""

from math import prod

from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from mgn.dialects import kernel
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.body import Node
from mgn.passes.kernels.index import Index, constant, delinearised, lanes, linear
from mgn.passes.kernels.product import Product
from mgn.passes.kernels.window_planes import Band, WindowPlanes, planes_of_columns
from mgn.passes.lower_kernels.core.product import add_products, tile_start, write_tile
from mgn.passes.lower_kernels.core.pure_code import memory_type
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.staging.panels import transposed
from mgn.passes.lower_kernels.staging.plane_copies import PlaneCopy
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


class _Convolution:
    def __init__(self, job: Job, product: Product, planes: WindowPlanes) -> None:
        self.job, self.product, self.planes, self.code = job, product, planes, job.code
        self.sizes = sizes = PixelBlocking.of(job.schedule)
        self.band = Band(planes, sizes.band)
        self.each = product.depth // prod(planes.kernel)
        self.blocks = self.each // sizes.channels
        self.tiles = ceil_div(product.rows, sizes.across)
        self.held = sizes.band * planes.places[1]
        self.type = memory_type(product.element)
        code = job.code
        self.copies = code.local(self.type, sizes.channels * self.band.size + sizes.width)
        self.weights = job.inputs[input_of(product.node.operands[0]).number]
        self.sums = code.local(self.type, sizes.down * self.held * sizes.across)

    def write(self) -> Launch:
        code, sizes, product = self.code, self.sizes, self.product
        parts, bands = ceil_div(self.tiles, sizes.down), ceil_div(self.planes.places[0], sizes.band)
        items = parts * bands * prod(product.batch)
        item = code.counter(kernel.GlobalIdOp, 0, items)
        part, other = item % parts, item // parts
        self.batch = delinearised(other // bands, product.batch)
        self.first_row = tile_start(code, other % bands, sizes.band, self.planes.places[0])
        self.first_tile = tile_start(code, part, sizes.down, self.tiles)
        PlaneCopy(self.job, self.band, self.copies).clear(sizes.channels)
        code.each(0, self.blocks, self._one_block)
        code.each(0, sizes.down, self._finish)
        return Launch((items,))

    def _one_block(self, block: Index) -> None:
        """Copies a block of channels, and adds its products to all tiles."""
        code, sizes = self.code, self.sizes
        first = block * sizes.channels
        shape = self.product.node.operands[1].shape[:-2]
        group = linear(self.batch, shape) if shape else constant(0)

        def channel(number: Index) -> None:
            own = code.known(group * self.each + first + number, prod(self.planes.outer))
            copy = PlaneCopy(self.job, self.band, self.copies, number * self.band.size)
            copy.copy(delinearised(own, self.planes.outer), self.first_row)

        code.each(0, sizes.channels, channel)
        across = self.planes.places[1] // sizes.places

        def tile(number: Index) -> None:
            code.each(
                0,
                sizes.band,
                lambda y: code.each(0, across, lambda x: self._tile(number, y, x, block)),
            )

        code.each(0, sizes.down, tile)

    def _channel_of(self, tile: Index) -> Index:
        """The first output channel of a tile."""
        number = self.code.known(self.first_tile + tile, self.tiles)
        return number * self.sizes.across

    def _tile(self, tile: Index, y: Index, group: Index, block: Index) -> None:
        """A register tile: places times vectors of output channels."""
        code, sizes, columns = self.code, self.sizes, self.planes.places[1]
        x = group * sizes.places
        first = tile * (self.held * sizes.across) + (y * columns + x) * sizes.across
        at = [first + n * sizes.width for n in range(sizes.places * sizes.vectors)]
        zero = [code.constant(0, self.type, sizes.width)] * len(at)

        def kept() -> list[SSAValue]:
            return [code.load(self.sums, code.index(index), sizes.width) for index in at]

        held = zero
        if self.blocks > 1:
            is_first = code.compare_integers("eq", code.index(block), code.index(0))
            held = code.branch(is_first, lambda: zero, kept)
        place = y * self.band.stride + x
        depth, elements = self.product.depth, prod(self.planes.kernel)
        number = code.known(self.first_tile + tile, self.tiles)
        panel = (number * depth + block * (sizes.channels * elements)) * sizes.across
        totals = self._channels(place, panel, held)
        for index, total in zip(at, totals, strict=True):
            code.store(total, self.sums, code.index(index))

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
        code, sizes = self.code, self.sizes
        row = self._channel_of(tile)
        width = sizes.width
        while width > self.held:
            width //= 2
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
