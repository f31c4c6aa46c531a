"""How a CPU cuts a convolution with vectors along its output channels: places are broadcast.

In: a product of weights with windows, or with plain columns, the planes, a request. Out: a
`PixelBlocking` and what it takes. Tiles are of as many places as divide a row of them, so that no
lane is computed in vain, however short rows are.
"""

from dataclasses import dataclass
from math import prod

from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.product import Product
from mgn.passes.kernels.window_planes import Band, PooledPlaces, WindowPlanes
from mgn.passes.schedules.core.packed_blocking import Limits, evenly
from mgn.passes.schedules.core.schedule import Entries, Request
from mgn.passes.schedules.product.window_products import WAIT, bands_of

MOST_PLACES, LEAST_PLACES, VECTORS = 10, 6, 2
"""Places of a register tile, which divide a row of them, and vectors of channels."""

BLOCK_STEPS = 256
"""Steps of the shared axis of a block, or a few more."""

COPY, MEET, LOADS, WRITE = 8.0, 5.4, 0.4, 12.0
"""Steps to copy an element of a plane, and to store a sum and fetch it; places of a tile in whose
time it loads its weights; and steps to turn and write a result.
"""

EVALUATION = 2.0
"""What an element computed after the product takes, in the time of one in a full vector: vectors of
a square belong to a channel each, and read again what is one number for the channel.
"""

REGISTERS = 32
"""Vector registers that a tile of so many places and vectors needs."""

NAMES = ("band", "channels", "tile_places", "tile_vectors", "tiles_down", "width")
"""What a schedule calls the numbers."""


@dataclass(frozen=True)
class PixelBlocking:
    """A register tile is `places` x `vectors` of `width` channels of the result. A work-item has
    `down` tiles of channels for a `band` of rows of places, and copies so many `channels` of the
    operand at a time.
    """

    band: int
    channels: int
    places: int
    vectors: int
    down: int
    width: int

    @staticmethod
    def of(entries: Entries) -> "PixelBlocking":
        """The blocking that a schedule says."""
        return PixelBlocking(*(int(entries[name]) for name in NAMES))

    @property
    def entries(self) -> dict[str, int]:
        """The entries of a schedule that say it."""
        numbers = (self.band, self.channels, self.places, self.vectors, self.down, self.width)
        return dict(zip(NAMES, numbers, strict=True))

    @property
    def across(self) -> int:
        """Channels of the result of a tile."""
        return self.vectors * self.width

    def depth(self, planes: WindowPlanes) -> int:
        """Steps of a block."""
        return self.channels * prod(planes.kernel)

    def local_elements(self, planes: WindowPlanes) -> int:
        """Elements of local memory."""
        copies = self.channels * Band(planes, self.band).size + self.width
        sums = self.down * self.across * self.band * planes.places[1]
        return copies + sums

    def steps(
        self, product: Product, planes: WindowPlanes, pooled: PooledPlaces, units: int
    ) -> float:
        """What it takes the busiest unit, in multiply-adds."""
        each, columns = product.depth // prod(planes.kernel), planes.places[1]
        tiles, bands = ceil_div(product.rows, self.across), ceil_div(pooled.rows, self.band)
        items = ceil_div(tiles, self.down) * bands * prod(product.batch)
        groups = self.band * ceil_div(columns, self.places)
        lanes = self.down * self.across
        own = groups * lanes * (self.places + LOADS) * product.depth
        own += each * Band(planes, self.band).size * COPY
        own += lanes * self.band * columns * (ceil_div(each, self.channels) * MEET + WRITE)
        return own * (ceil_div(items, units) + WAIT)


def pixel_blocking(
    request: Request, product: Product, planes: WindowPlanes
) -> tuple[PixelBlocking, float] | None:
    """The blocking that takes the least, and the steps that it takes, of all units; None where none
    fits.
    """
    pooled = PooledPlaces.of(product, planes)
    if pooled is None:
        return None
    limits = Limits.of(request.entries)
    width, elements = limits.lanes, prod(planes.kernel)
    each = product.depth // elements
    if request.device.vector_registers < REGISTERS or product.rows % (VECTORS * width):
        return None
    most = max(BLOCK_STEPS // elements, 1)
    channels = next(count for count in range(min(each, most), 0, -1) if each % count == 0)
    columns = planes.places[1]
    places = next(count for count in range(MOST_PLACES, 0, -1) if columns % count == 0)
    if places < LEAST_PLACES:
        return None
    tiles = ceil_div(product.rows, VECTORS * width)
    room = limits.local_memory // product.element.bytes
    best: tuple[float, PixelBlocking] | None = None
    for band in bands_of(pooled):
        for down in {evenly(tiles, number) for number in (1, 2, 3, 4, 6, 8, 12, 16)}:
            blocking = PixelBlocking(band, channels, places, VECTORS, down, width)
            if blocking.local_elements(planes) > room:
                continue
            steps = blocking.steps(product, planes, pooled, limits.units)
            if best is None or steps < best[0]:
                best = steps, blocking
    return None if best is None else (best[1], 2.0 * best[0] * limits.units)
