"""How a CPU cuts a product that adds windows up over all places: the gradient of weights.

In: a product, its windows, a request. Out: a `SummedBlocking`, and what it takes.

A work-item has some channels of what came in and a tile of those that came back, which are the
lanes of its vectors. It copies the planes of a block of places, turns what came back there, and
adds up the products of all places in registers, for some elements of the windows at a time. So
windows are never written, each place is read once for a tile, and no lane is computed in vain where
rows of places are short.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product as pairs
from math import prod

from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.long_chains import CHAIN
from mgn.passes.kernels.product import Product
from mgn.passes.kernels.summed_windows import SummedWindows
from mgn.passes.kernels.window_planes import Band
from mgn.passes.schedules.core.packed_blocking import Limits, evenly
from mgn.passes.schedules.core.schedule import Entries, Request
from mgn.passes.schedules.product.window_products import WAIT

COPY, TURN, MEET, LOADS, WRITE = 4.0, 6.0, 5.4, 1.7, 12.0
"""Steps to copy an element of a plane, to transpose an element of the windows that came back, and
to add a sum to those of the places before. `LOADS` is the elements of windows in whose time a
place's vectors are loaded. `WRITE` is the steps to transpose and write a result.
"""

TOGETHER = 4
"""The most channels whose elements are one after another in registers."""

NAMES = ("band", "images", "channels", "together", "tile_elements", "tile_vectors", "width")
"""What a schedule calls the numbers."""


@dataclass(frozen=True)
class SummedBlocking:
    """A register tile is `tile` elements of windows x `vectors` of `width` rows of the product. A
    work-item has so many `channels`; elements of some `together` are dealt out to tiles. A block of
    places is a `band` of their rows in so many `images`.
    """

    band: int
    images: int
    channels: int
    together: int
    tile: int
    vectors: int
    width: int

    @staticmethod
    def of(entries: Entries) -> "SummedBlocking":
        """The blocking that a schedule says."""
        return SummedBlocking(*(int(entries[name]) for name in NAMES))

    @property
    def entries(self) -> dict[str, int]:
        """The entries of a schedule that say it."""
        numbers = (self.band, self.images, self.channels, self.together)
        return dict(zip(NAMES, (*numbers, self.tile, self.vectors, self.width), strict=True))

    @property
    def across(self) -> int:
        """Rows of the product that a work-item has."""
        return self.vectors * self.width

    def places(self, windows: SummedWindows) -> int:
        """Places of a block."""
        return self.images * self.band * windows.planes.places[1]

    def sums(self, windows: SummedWindows) -> int:
        """Columns of the product that a work-item has."""
        return self.channels * windows.elements

    def local_elements(self, windows: SummedWindows) -> int:
        """Elements of local memory."""
        copies = self.images * self.channels * Band(windows.planes, self.band).size + self.width
        return copies + (self.places(windows) + self.sums(windows)) * self.across

    def items(self, product: Product, windows: SummedWindows) -> int:
        """Work-items of a launch."""
        tiles = ceil_div(product.rows, self.across)
        return tiles * (windows.channels // self.channels) * prod(product.batch)

    def steps(self, product: Product, windows: SummedWindows, units: int) -> float:
        """What it takes the busiest unit, in multiply-adds."""
        planes, rows = windows.planes, min(self.across, product.rows)
        places, bands = product.depth, planes.places[0] // self.band
        blocks = windows.images // self.images * bands
        tiles = ceil_div(self.together * windows.elements, self.tile)
        loads = self.channels // self.together * tiles * LOADS
        own = places * self.across * (self.sums(windows) + loads)
        own += windows.images * bands * self.channels * Band(planes, self.band).size * COPY
        own += places * self.across * TURN
        own += self.sums(windows) * (self.across * blocks * MEET + rows * WRITE)
        return own * (ceil_div(self.items(product, windows), units) + WAIT)


def summed_blocking(
    request: Request, product: Product, windows: SummedWindows
) -> tuple[SummedBlocking, float] | None:
    """The blocking that takes the least, and the steps that it takes, of all units; None where none
    fits.
    """
    limits = Limits.of(request.entries)
    room = limits.local_memory // product.element.bytes
    fitting = (
        blocking
        for blocking in _blockings(limits, product, windows)
        if blocking.local_elements(windows) <= room
    )
    priced = [(blocking, blocking.steps(product, windows, limits.units)) for blocking in fitting]
    if not priced:
        return None
    best, steps = min(priced, key=lambda item: item[1])
    return best, 2.0 * steps * limits.units


def _blockings(
    limits: Limits, product: Product, windows: SummedWindows
) -> Iterator[SummedBlocking]:
    """Blockings that cut nothing unevenly: a place that was added twice would be wrong."""
    width = limits.lanes
    while width > 1 and width // 2 >= product.rows:
        width //= 2
    for vectors in range(1, limits.tile_vectors + 1):
        most = limits.tile_rows * limits.tile_vectors // vectors
        for channels, (images, band) in pairs(_divisors(windows.channels), _blocks(windows)):
            together = min(
                (count for count in _divisors(channels) if count <= TOGETHER),
                key=lambda count: _uneven(count * windows.elements, most) / count,
            )
            tile = evenly(together * windows.elements, most)
            yield SummedBlocking(band, images, channels, together, tile, vectors, width)


def _uneven(elements: int, most: int) -> float:
    """What tiles of so many elements at most take, in the time of one element."""
    return elements + ceil_div(elements, most) * LOADS


def _blocks(windows: SummedWindows) -> Iterator[tuple[int, int]]:
    """Images and rows of places of blocks whose sums are a short chain."""
    rows, columns = windows.planes.places
    for band in _divisors(rows):
        for images in _divisors(windows.images) if band == rows else (1,):
            if band * images == 1 or band * images * columns <= CHAIN:
                yield images, band


def _divisors(number: int) -> list[int]:
    return [count for count in range(1, number + 1) if number % count == 0]
