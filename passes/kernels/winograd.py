"""Convolutions by fewer multiplications: F(2 × 2, 3 × 3), as A. Lavin and S. Gray write it ("Fast
Algorithms for Convolutional Neural Networks", 2015, after S. Winograd).

In: a product of 3 × 3 windows, channels last, with filters. Out: a `TiledImage` and the transforms.
The `TiledImage` is the image, with the tiles of 2 × 2 places that its results are cut into. One
transform makes 16 numbers of a tile's 4 × 4 elements. Another makes 16 of a filter's 9. The last
makes 4 results of 16 products.

One axis, of elements d, filters g and products m:

    elements  d0 - d2, d1 + d2, d2 - d1, d1 - d3
    filters   g0, g0 + g1 + g2, g0 - g1 + g2, g2
    results   m0 + (m1 + m2) / 2, (m1 - m2) / 2 - m3

Halves are exact, so that a filter is found again in its transform: g1 is half of what the middle
two differ by.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.body import Node
from mgn.passes.kernels.channel_windows import ChannelWindows
from mgn.passes.kernels.product import Product

TILE, WINDOW, SIDE = 2, 3, 4
"""Places of a tile along an axis, elements of a window, and elements that a tile reads."""

PLACES = SIDE * SIDE
"""Products of a tile and a channel."""

ELEMENTS = ("f32", "f64")
"""Types whose sums are of their own type."""

Value = TypeVar("Value")
Join = Callable[[Value, Value], Value]


def transformed_elements(d: Sequence[Value], add: Join[Value], sub: Join[Value]) -> list[Value]:
    """What four elements of an axis become."""
    return [sub(d[0], d[2]), add(d[1], d[2]), sub(d[2], d[1]), sub(d[1], d[3])]


def transformed_filters(g: Sequence[Value], add: Join[Value], sub: Join[Value]) -> list[Value]:
    """What three elements of filters become."""
    ends = add(g[0], g[2])
    return [g[0], add(ends, g[1]), sub(ends, g[1]), g[2]]


def recovered_filters(
    u: Sequence[Value], sub: Join[Value], half: Callable[[Value], Value]
) -> list[Value]:
    """The filters that four numbers were made of."""
    return [u[0], half(sub(u[1], u[2])), u[3]]


def results_of(
    m: Sequence[Value], add: Join[Value], sub: Join[Value], half: Callable[[Value], Value]
) -> list[Value]:
    """The two results of an axis' four products."""
    return [add(m[0], half(add(m[1], m[2]))), sub(half(sub(m[1], m[2])), m[3])]


@dataclass(frozen=True)
class TiledImage:
    """`image` is what windows slide over, `[N, rows, columns, channels]` with its padding, and
    `source` what is padded; `low` says by how much before its first row and column. The results are
    `places` rows and columns of each image.
    """

    image: Node
    source: Node
    low: tuple[int, int]
    places: tuple[int, int]

    @property
    def images(self) -> int:
        return self.image.shape[0]

    @property
    def channels(self) -> int:
        return self.image.shape[3]

    @property
    def tiles(self) -> tuple[int, int, int]:
        """Images, and rows and columns of tiles of each; the last ones may go beyond the places."""
        rows, columns = self.places
        return self.images, ceil_div(rows, TILE), ceil_div(columns, TILE)

    @staticmethod
    def of(product: Product) -> "TiledImage | None":
        """The image of a product whose left operand is 3 × 3 windows of one; None for others."""
        left, right = product.node.operands
        if product.batch or product.node.values["transpose_a"] or product.halves != 1:
            return None
        if {item.element.name for item in (left, right, product.node)} - set(ELEMENTS):
            return None
        found = ChannelWindows.of(left)
        if found is None or found.sizes != (WINDOW, WINDOW) or set(found.steps) != {(1, 1)}:
            return None
        (rows, columns), (down, right) = found.places, found.low
        return TiledImage(found.image, found.source, (down, right), (rows, columns))
