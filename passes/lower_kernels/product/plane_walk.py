"""How a work-item of a CPU goes through a convolution: a band of places, a block of channels at a
time.

In: a product whose right operand is windows, or plain columns, and how many tiles its rows make.
Out: the loops around a tile. For each block, bands of planes are copied, with padding, into local
memory. What a tile comes to is kept there too; once the last block is done, it is written. What a
tile is, the templates say: `window_product.py`, `pixel_product.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from math import prod
from typing import Generic, TypeVar

from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from mgn.dialects import kernel
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.index import Index, constant, delinearised, linear
from mgn.passes.kernels.product import Product
from mgn.passes.kernels.window_planes import Band, PooledPlaces, WindowPlanes
from mgn.passes.lower_kernels.core.product import tile_start
from mgn.passes.lower_kernels.core.pure_code import memory_type
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.staging.plane_copies import PlaneCopy
from mgn.passes.schedules.product.pixel_products import PixelBlocking
from mgn.passes.schedules.product.window_products import WindowBlocking

Blocking = TypeVar("Blocking", WindowBlocking, PixelBlocking)


class PlaneWalk(ABC, Generic[Blocking]):
    """The walk of a template, which makes room for `copies` of planes and for `sums`."""

    copies: SSAValue
    sums: SSAValue

    def __init__(
        self, job: Job, product: Product, planes: WindowPlanes, sizes: Blocking, tiles: int
    ) -> None:
        self.job, self.product, self.planes, self.code = job, product, planes, job.code
        self.sizes, self.tiles = sizes, tiles
        self.band = Band(planes, sizes.band)
        self.each = product.depth // prod(planes.kernel)
        self.blocks = ceil_div(self.each, sizes.channels)
        self.type = memory_type(product.element)
        pooled = PooledPlaces.of(product, planes)
        if pooled is None or sizes.band % pooled.size[0]:
            raise VerifyException("fusion.kernel contraction: a band has no whole windows")
        self.pooled = pooled

    def write(self) -> Launch:
        """Writes the kernel."""
        code, sizes, product = self.code, self.sizes, self.product
        rows = self.pooled.rows
        parts, bands = ceil_div(self.tiles, sizes.down), ceil_div(rows, sizes.band)
        items = parts * bands * prod(product.batch)
        item = code.counter(kernel.GlobalIdOp, 0, items)
        part, other = item % parts, item // parts
        self.batch = delinearised(other // bands, product.batch)
        self.first_row = tile_start(code, other % bands, sizes.band, rows)
        self.first_tile = tile_start(code, part, sizes.down, self.tiles)
        PlaneCopy(self.job, self.band, self.copies).clear(sizes.channels)
        code.each(0, self.blocks, self._one_block)
        code.each(0, sizes.down, self._finish)
        return Launch((items,))

    @abstractmethod
    def _one_block(self, block: Index) -> None:
        """Copies a block of channels, and adds its products to all tiles."""

    @abstractmethod
    def _finish(self, tile: Index) -> None:
        """Writes what a tile came to, with what follows."""

    def number_of(self, tile: Index) -> Index:
        """The number of a work-item's tile among all."""
        return self.code.known(self.first_tile + tile, self.tiles)

    def row_of_windows(self, y: Index) -> Index:
        """The number of a row of windows among all, by its number in the band."""
        size, count = self.pooled.size[0], self.pooled.count[0]
        return self.code.known(self.first_row // size + y, count)

    def copy_planes(self, block: Index, count: Index | int) -> None:
        """Copies the planes of so many channels of a block, one after the other."""
        shape = self.product.node.operands[1].shape[:-2]
        group = linear(self.batch, shape) if shape else constant(0)
        first, outer = block * self.sizes.channels, self.planes.outer

        def channel(number: Index) -> None:
            own = self.code.known(group * self.each + first + number, prod(outer))
            copy = PlaneCopy(self.job, self.band, self.copies, number * self.band.size)
            copy.copy(delinearised(own, outer), self.first_row)

        self.code.each(0, count, channel)

    def add_to(
        self,
        places: Sequence[Index],
        block: Index,
        products: Callable[[list[SSAValue]], list[SSAValue]],
    ) -> None:
        """Adds a block's products to the vectors that are kept at some places; to nothing in the
        first block.
        """
        code, width = self.code, self.sizes.width
        held = zero = [code.constant(0, self.type, width)] * len(places)

        def kept() -> list[SSAValue]:
            return [code.load(self.sums, code.index(index), width) for index in places]

        if self.blocks > 1:
            is_first = code.compare_integers("eq", code.index(block), code.index(0))
            held = code.branch(is_first, lambda: zero, kept)
        for index, total in zip(places, products(held), strict=True):
            code.store(total, self.sums, code.index(index))
