"""How a CPU cuts a convolution: a product whose right operand is windows, read from copied planes.

In: a product, the planes that its windows slide over, a request. Out: a `WindowBlocking`: rows of
places of a band, channels of a block, tiles of rows of a work-item; and what it takes.

A work-item has a band of places and some tiles of rows. It copies the band of each channel of a
block, and multiplies each tile with it: columns are the places of the copy, padding between rows
included. Of all that fit into local memory the one is taken that takes the least time.
"""

from dataclasses import dataclass
from math import prod

from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.product import Product
from mgn.passes.kernels.window_planes import Band, PooledPlaces, WindowPlanes
from mgn.passes.schedules.core.packed_blocking import LEFT_PADDING, Limits, evenly, tile_rows
from mgn.passes.schedules.core.schedule import Entries, Request

BLOCK_STEPS = 288
"""Steps of the shared axis of a block that are worth the sums of a tile leaving registers."""

COPY, COPY_LEFT, MEET, LOADS, WRITE = 8.0, 4.4, 5.4, 0.6, 8.0
"""Steps to copy an element of a plane and of the left operand, to store a sum and fetch it, those
of a tile in whose time it loads its columns, and to write a result.
"""


WAIT = 0.25
"""The share of a work-item that a unit waits for the last one of the others."""

NAMES = ("band", "channels", "tile_rows", "tile_vectors", "tiles_down", "width", "write_width")
"""What a schedule calls the numbers."""


@dataclass(frozen=True)
class WindowBlocking:
    """`rows` x `vectors` of `width` lanes are a register tile; a work-item has `down` of them, one
    below the other, for a `band` of rows of places, and copies so many `channels` at a time. What a
    row of places comes to is written in vectors of `narrow` lanes.
    """

    band: int
    channels: int
    rows: int
    vectors: int
    down: int
    width: int
    narrow: int

    @staticmethod
    def of(entries: Entries) -> "WindowBlocking":
        """The blocking that a schedule says."""
        return WindowBlocking(*(int(entries[name]) for name in NAMES))

    @property
    def entries(self) -> dict[str, int]:
        """The entries of a schedule that say it."""
        numbers = (self.band, self.channels, self.rows, self.vectors, self.down, self.width)
        return dict(zip(NAMES, (*numbers, self.narrow), strict=True))

    def panels(self, planes: WindowPlanes) -> int:
        """Register tiles side by side that a band takes."""
        lanes = Band(planes, self.band).stride * (self.band - 1) + planes.places[1]
        return ceil_div(lanes, self.width * self.vectors)

    def evaluation(self, pooled: PooledPlaces) -> float:
        """What an element takes that is written, in the time of one in a full vector."""
        columns = pooled.count[1]
        return self.width * ceil_div(columns, self.narrow) / columns

    def held(self, planes: WindowPlanes) -> int:
        """Elements of the sums of a tile."""
        return self.rows * self.panels(planes) * self.vectors * self.width

    def depth(self, planes: WindowPlanes) -> int:
        """Steps of a block."""
        return self.channels * prod(planes.kernel)

    def local_elements(self, planes: WindowPlanes) -> int:
        """Elements of local memory."""
        copies = self.channels * Band(planes, self.band).size + self.width * self.vectors
        left = self.rows * (self.depth(planes) + LEFT_PADDING)
        return copies + left + self.down * self.held(planes)

    def steps(
        self, product: Product, planes: WindowPlanes, pooled: PooledPlaces, units: int
    ) -> float:
        """What it takes the busiest unit, in multiply-adds."""
        each = product.depth // prod(planes.kernel)
        tiles, bands = ceil_div(product.rows, self.rows), ceil_div(pooled.rows, self.band)
        items = ceil_div(tiles, self.down) * bands * prod(product.batch)
        lanes = self.panels(planes) * self.vectors * self.width
        blocks = ceil_div(each, self.channels)
        own = self.down * lanes * (self.rows + LOADS) * product.depth
        own += self.down * self.rows * product.depth * COPY_LEFT
        own += each * Band(planes, self.band).size * COPY
        own += self.down * self.rows * lanes * (blocks * MEET + WRITE)
        return own * (ceil_div(items, units) + WAIT)


def bands_of(pooled: PooledPlaces) -> list[int]:
    """The rows of places that bands of one size can have, the most first: whole windows."""
    size, rows = pooled.size[0], pooled.count[0]
    found = {ceil_div(rows, count) * size for count in range(1, rows + 1)}
    return sorted(found, reverse=True)


def window_blocking(
    request: Request, product: Product, planes: WindowPlanes
) -> tuple[WindowBlocking, float] | None:
    """The blocking that takes the least, and the seconds that it takes but for the rate, with fewer
    channels where rows are so long that none fits; None where none does.
    """
    each, elements = product.depth // prod(planes.kernel), prod(planes.kernel)
    channels = evenly(each, min(each, ceil_div(BLOCK_STEPS, elements)))
    while (found := _blocking_of(request, product, planes, channels)) is None and channels > 1:
        channels = evenly(each, channels // 2)
    return found


def _blocking_of(
    request: Request, product: Product, planes: WindowPlanes, channels: int
) -> tuple[WindowBlocking, float] | None:
    pooled = PooledPlaces.of(product, planes)
    if pooled is None:
        return None
    limits = Limits.of(request.entries)
    width, columns = limits.lanes, pooled.count[1]
    narrow = width
    while narrow > columns:
        narrow //= 2
    rows = tile_rows(product.rows, limits.tile_rows, limits.tile_vectors)
    tiles = ceil_div(product.rows, rows)
    room = limits.local_memory // (request.body.written[0].element.bits // 8 or 4)
    best: tuple[float, WindowBlocking] | None = None
    for band in bands_of(pooled):
        for down in {evenly(tiles, most) for most in (1, 2, 3, 4, 6, 8, 12, 16)}:
            numbers = (band, channels, rows, limits.tile_vectors, down, width, narrow)
            blocking = WindowBlocking(*numbers)
            if blocking.local_elements(planes) > room:
                continue
            steps = blocking.steps(product, planes, pooled, limits.units)
            if best is None or steps < best[0]:
                best = steps, blocking
    return None if best is None else (best[1], 2.0 * best[0] * limits.units)
