"""The contraction template for gradients of a convolution's weights on a CPU.

A work-item has some channels of what came in, and as many of what came back as its vectors have
lanes. For each block of places it copies bands of planes, with padding, into local memory, and
turns what came back there, so that the channels of a place lie side by side. Then, for some
elements of windows at a time, it walks the places and multiplies each element, in all lanes, with
the place's vectors. What a block comes to is added to sums in local memory; in the end squares of
them are turned and written, with what follows.
"""

from math import prod

from xdsl.dialects import arith
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from mgn.dialects import kernel
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.index import Index, constant, delinearised, lanes
from mgn.passes.kernels.product import Product
from mgn.passes.kernels.summed_windows import SummedWindows, summed_windows
from mgn.passes.kernels.window_planes import Band
from mgn.passes.lower_kernels.core.operand import LEFT, Operand
from mgn.passes.lower_kernels.core.product import add_products, write_tile
from mgn.passes.lower_kernels.core.pure_code import memory_type
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.staging.panels import transposed
from mgn.passes.lower_kernels.staging.plane_copies import PlaneCopy
from mgn.passes.schedules.product.summed_windows import SummedBlocking


def lower_summed_windows(job: Job, product: Product) -> Launch:
    """Writes a gradient of weights. VerifyException where the product is none."""
    windows = summed_windows(product)
    if windows is None:
        raise VerifyException("fusion.kernel contraction: no windows are added up over all places")
    return _Gradient(job, product, windows).write()


class _Gradient:
    def __init__(self, job: Job, product: Product, windows: SummedWindows) -> None:
        self.job, self.product, self.windows, self.code = job, product, windows, job.code
        self.sizes = sizes = SummedBlocking.of(job.schedule)
        self.band = Band(windows.planes, sizes.band)
        self.type = memory_type(product.element)
        self.columns = sizes.sums(windows)
        code, places = job.code, sizes.places(windows)
        copied = sizes.images * sizes.channels * self.band.size
        self.copies = code.local(self.type, copied + sizes.width)
        self.turned = code.local(self.type, places * sizes.across)
        self.sums = code.local(self.type, self.columns * sizes.across)

    def write(self) -> Launch:
        """Writes the kernel."""
        code, sizes, windows = self.code, self.sizes, self.windows
        tiles = ceil_div(self.product.rows, sizes.across)
        shares = windows.channels // sizes.channels
        items = sizes.items(self.product, windows)
        item = code.counter(kernel.GlobalIdOp, 0, items)
        self.batch = delinearised(item // (tiles * shares), self.product.batch)
        self.first_channel = item // tiles % shares * sizes.channels
        self.first_row = item % tiles * sizes.across
        zero = code.constant(0, self.type, sizes.width)
        code.each(
            0,
            self.columns * sizes.vectors,
            lambda n: code.store(zero, self.sums, code.index(n * sizes.width)),
        )
        whole = sizes.images * sizes.channels
        PlaneCopy(self.job, self.band, self.copies).clear(whole)
        bands = windows.planes.places[0] // sizes.band
        code.each(
            0,
            windows.images // sizes.images,
            lambda n: code.each(0, bands, lambda y: self._block(n * sizes.images, y * sizes.band)),
        )
        self._finish()
        return Launch((items,))

    def _block(self, image: Index, row: Index) -> None:
        """Adds the products of a block's places, from an image and a row of places on."""
        code, sizes = self.code, self.sizes
        code.each(0, sizes.images, lambda n: self._copy(image + n, row, n))
        code.each(0, sizes.images, lambda n: self._turn(image + n, row, n))
        code.forget_loads()
        together = sizes.together
        code.each(0, sizes.channels // together, lambda n: self._channels(n * together))

    def _copy(self, image: Index, row: Index, place: Index) -> None:
        """Copies the bands of an image's channels."""
        code, sizes, windows = self.code, self.sizes, self.windows
        outer = windows.planes.outer
        batch = self.batch[0] if self.batch else constant(0)

        def channel(number: Index) -> None:
            own = windows.outer(batch, image, self.first_channel + number)
            known = tuple(code.bounded(part, size) for part, size in zip(own, outer, strict=True))
            start = (place * sizes.channels + number) * self.band.size
            PlaneCopy(self.job, self.band, self.copies, start).copy(known, row)

        code.each(0, sizes.channels, channel)

    def _turn(self, image: Index, row: Index, number: Index) -> None:
        """Turns squares of what came back at the places of an image; the last ones overlap."""
        code, sizes, columns = self.code, self.sizes, self.windows.planes.places[1]
        operand = Operand(self.job, self.product, self.batch, LEFT)
        places = sizes.band * columns
        width = sizes.width
        while width > places:
            width //= 2
        first = image * prod(self.windows.planes.places) + row * columns

        def square(start: Index, part: Index) -> None:
            step = code.known(first + start, self.product.depth - width + 1)
            lines = [
                operand.along_depth(self._row(part * width + line), step, width)
                for line in range(width)
            ]
            for offset, value in enumerate(transposed(code, lines)):
                place = number * places + start + offset
                at = place * sizes.across + part * width
                code.store(value, self.turned, code.index(at))

        def squares(start: Index) -> None:
            code.each(0, sizes.across // width, lambda part: square(start, part))

        code.each(0, places // width, lambda n: squares(n * width))
        if places % width:
            squares(constant(places - width))

    def _row(self, number: Index) -> Index:
        """A row of the product; the last one where a tile reaches beyond."""
        return self.code.bounded(self.first_row + number, self.product.rows)

    def _channels(self, channel: Index) -> None:
        """Adds the products of some channels from one on, a tile of their elements at a time."""
        sizes, windows = self.sizes, self.windows
        rows, columns = windows.planes.kernel
        elements = [
            (n, n * self.band.size + self.band.element(constant(y), constant(x)).constant)
            for n in range(sizes.together)
            for y in range(rows)
            for x in range(columns)
        ]
        places = [place for _, place in elements]
        for first in range(0, len(places), sizes.tile):
            self._tile(channel, first, places[first : first + sizes.tile])

    def _tile(self, channel: Index, first: int, elements: list[int]) -> None:
        """Walks the places of a block with a register tile."""
        code, sizes = self.code, self.sizes
        columns = self.windows.planes.places[1]
        each = sizes.channels * self.band.size
        zero = code.constant(0, self.type, sizes.width)

        def place(image: Index, y: Index, x: Index, held: list[SSAValue]) -> list[SSAValue]:
            own = (image * sizes.band + y) * columns + x
            vectors = [
                code.load(
                    self.turned, code.index(own * sizes.across + n * sizes.width), sizes.width
                )
                for n in range(sizes.vectors)
            ]
            start = image * each + channel * self.band.size + y * self.band.stride + x
            values = (code.load(self.copies, code.index(start + element)) for element in elements)
            return add_products(code, self.product.element, values, vectors, held)

        held = code.loop(
            0,
            sizes.images,
            lambda n, a: code.loop(
                0,
                sizes.band,
                lambda y, b: code.loop(0, columns, lambda x, c: place(n, y, x, c), b),
                a,
            ),
            [zero] * (len(elements) * sizes.vectors),
        )
        at = channel * self.windows.elements + first
        for number, total in enumerate(held):
            index = code.index(at * sizes.across + number * sizes.width)
            kept = code.load(self.sums, index, sizes.width)
            code.store(code.binary(arith.AddfOp, kept, total), self.sums, index)

    def _finish(self) -> None:
        """Turns squares of the sums and writes them, with what follows; the last ones overlap."""
        code, sizes = self.code, self.sizes
        width = sizes.width
        while width > self.columns:
            width //= 2
        first = self.first_channel * self.windows.elements

        def square(start: Index, part: Index) -> None:
            lines = [
                code.load(self.sums, code.index((start + n) * sizes.across + part * width), width)
                for n in range(width)
            ]
            column = code.known(first + start, self.product.columns - width + 1) + lanes(width)
            for number, total in enumerate(transposed(code, lines)):
                row = self._row(part * width + number)
                at = self.batch, [row], [column], [total]
                write_tile(self.job, self.product, self.job.evaluator(width), *at)

        def squares(start: Index) -> None:
            code.each(0, sizes.across // width, lambda part: square(start, part))

        code.each(0, self.columns // width, lambda n: squares(n * width))
        if self.columns % width:
            squares(constant(self.columns - width))
