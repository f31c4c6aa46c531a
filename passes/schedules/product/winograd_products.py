"""How a CPU cuts a convolution of tiles: 16 products of transformed elements and filters.

In: a product of 3 × 3 windows with transformed filters, their image, a request. Out: a
`TileBlocking` and what it takes.

A work-item has some tiles of 2 × 2 places and some panels of filters. It transforms a block of the
channels of its tiles into local memory, and adds its products to sums that are kept there; the last
sums become results. Of all that fit into local memory the one is taken that takes the least time:
few tiles fetch the filters often, few panels transform tiles often.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.product import Product
from mgn.passes.kernels.winograd import PLACES, TiledImage
from mgn.passes.schedules.core.packed_blocking import LEFT_PADDING, Limits, evenly, tile_rows
from mgn.passes.schedules.core.schedule import Entries, Request

MOST_PARTS = 64
"""Up to how many parts tiles, panels and channels are cut into."""

TRANSFORM, FINISH, MEET, LOADS, FETCH = 80.0, 100.0, 5.4, 0.6, 2.0
"""Figures in the time of multiply-adds: to transform the elements of a tile, for each channel; to
transform the sums of its products and write them, for each filter; to store and fetch a sum.
`LOADS` is the rows of a register tile in whose time it loads its columns. `FETCH` is the time of an
element of the filters that comes from a far cache.
"""

WAIT = 0.25
"""The share of a work-item that a unit waits for the last one of the others."""

NAMES = ("width", "tile_vectors", "tile_rows", "tiles_down", "panels", "channels")
"""What a schedule calls the numbers."""


@dataclass(frozen=True)
class TileBlocking:
    """A register tile is `rows` tiles x `vectors` of `width` filters, which are a panel. A
    work-item has `down` of them, one below the other, for each of some `panels`, and transforms so
    many `channels` at a time.
    """

    width: int
    vectors: int
    rows: int
    down: int
    panels: int
    channels: int

    @staticmethod
    def of(entries: Entries) -> "TileBlocking":
        """The blocking that a schedule says."""
        return TileBlocking(*(int(entries[name]) for name in NAMES))

    @property
    def entries(self) -> dict[str, int]:
        """The entries of a schedule that say it."""
        numbers = (self.width, self.vectors, self.rows, self.down, self.panels, self.channels)
        return dict(zip(NAMES, numbers, strict=True))

    @property
    def tiles(self) -> int:
        """Tiles of a work-item."""
        return self.rows * self.down

    @property
    def columns(self) -> int:
        """Filters of a panel."""
        return self.vectors * self.width

    @property
    def row(self) -> int:
        """Elements from the channels of a transformed tile to those of the next one."""
        return self.channels + LEFT_PADDING

    @property
    def local_elements(self) -> int:
        """Elements of local memory."""
        return PLACES * self.tiles * (self.row + self.panels * self.columns)

    def items(self, image: TiledImage, filters: int) -> tuple[int, int]:
        """Parts of the tiles and of the panels."""
        down = ceil_div(prod(image.tiles), self.tiles)
        return down, ceil_div(filters // self.columns, self.panels)

    def steps(self, image: TiledImage, filters: int, units: int) -> float:
        """What it takes the busiest unit, in multiply-adds."""
        depth, own = image.channels, self.panels * self.columns
        blocks = ceil_div(depth, self.channels)
        each = self.tiles * depth * TRANSFORM + self.tiles * own * FINISH
        each += PLACES * self.down * own * (self.rows + LOADS) * depth
        each += PLACES * own * (self.tiles * blocks * MEET + depth * FETCH)
        return each * (ceil_div(prod(self.items(image, filters)), units) + WAIT)


def tile_blocking(
    request: Request, product: Product, image: TiledImage
) -> tuple[TileBlocking, float] | None:
    """The blocking that takes the least, and the steps that it takes, of all units; None where none
    fits.
    """
    limits = Limits.of(request.entries)
    room = limits.local_memory // product.element.bytes
    fitting = (item for item in _blockings(limits, product, image) if item.local_elements <= room)
    steps = {item: item.steps(image, product.columns, limits.units) for item in fitting}
    best = min(steps, key=lambda item: (steps[item], *item.entries.values()), default=None)
    return None if best is None else (best, 2.0 * steps[best] * limits.units)


def _blockings(limits: Limits, product: Product, image: TiledImage) -> Iterator[TileBlocking]:
    """All blockings of whole panels and whole vectors of channels."""
    width, vectors, tiles = limits.lanes, limits.tile_vectors, prod(image.tiles)
    panels, rest = divmod(product.columns, vectors * width)
    if rest or image.channels % width:
        return
    counts = {evenly(panels, panels // part) for part in range(1, min(panels, MOST_PARTS) + 1)}
    depths = [
        image.channels // part
        for part in range(1, MOST_PARTS + 1)
        if image.channels % (part * width) == 0
    ]
    for own in {ceil_div(tiles, part) for part in range(1, min(tiles, MOST_PARTS) + 1)}:
        rows = tile_rows(own, limits.tile_rows, vectors)
        for count in counts:
            for depth in depths:
                yield TileBlocking(width, vectors, rows, ceil_div(own, rows), count, depth)
