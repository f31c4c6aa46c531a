"""Sizes of the tiles in which a GPU's work-groups compute a product.

In: the sizes of a product, a request. Out: the `Tiling`s that fit, the quickest first. The largest
tiles do the most work for each byte they copy; smaller ones spread a small product over all compute
units.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from mgn.dialects.types import ELEMENT_TYPES, ElementType
from mgn.passes.kernels.accumulation import accumulator
from mgn.passes.kernels.product import Product
from mgn.passes.schedules.core.schedule import Entries, Request
from mgn.passes.schedules.core.tilings import Fit, Numbers, Room, Shape, fitting_tilings, shapes_of
from mgn.passes.schedules.product.seconds import GPU_EFFICIENCY, Extent, plain_rate

NAMES = ("tile_down", "tile_across", "item_rows", "item_columns", "block_depth", "slices", "ahead")
"""What a schedule calls the numbers of a tiling."""

VECTOR_BYTES = 16
STAGES = 2
MANY_SLICES = 16
"""From how many slices on their sums meet in two steps."""

PADDING = 1
"""Vectors between the rows of a tile in local memory."""


@dataclass(frozen=True)
class Tiling:
    """A group has `slices` times `down` x `across` work-items of `rows` x `columns` results.

    A block is `depth` steps of the shared axis for each slice; the slices' sums are added up at
    the end. `ahead` is how many blocks are read before they are multiplied. `width` results of a
    row or column are neighbours; the work-item's others lie a group's width apart.
    """

    down: int
    across: int
    rows: int
    columns: int
    depth: int
    slices: int
    ahead: int
    width: int

    @staticmethod
    def of(entries: Entries, element: ElementType) -> "Tiling":
        """The tiling that a schedule says for an element type."""
        numbers = [int(entries[name]) for name in NAMES]
        return Tiling(*numbers, width=vector_width(element))

    @property
    def entries(self) -> dict[str, int]:
        """The entries of a schedule that say it."""
        numbers = (self.down, self.across, self.rows, self.columns, self.depth, self.slices)
        return dict(zip(NAMES, (*numbers, self.ahead), strict=True))

    @property
    def square(self) -> int:
        """Work-items of one slice."""
        return self.down * self.across

    @property
    def items(self) -> int:
        return self.square * self.slices

    @property
    def tile_rows(self) -> int:
        return self.down * self.rows

    @property
    def tile_columns(self) -> int:
        return self.across * self.columns

    @property
    def steps(self) -> int:
        """Steps of the shared axis in a block."""
        return self.depth * self.slices

    @property
    def padding(self) -> int:
        return PADDING * self.width

    @property
    def stage(self) -> int:
        """Elements of local memory that a block of both operands takes."""
        return self.steps * (self.tile_rows + self.tile_columns + 2 * self.padding)

    @property
    def meeting(self) -> int:
        """How many slices' sums are in local memory at once: half of many, else all."""
        halved = self.slices % 2 == 0 and self.slices >= MANY_SLICES
        return self.slices // 2 if halved else self.slices

    @property
    def memory(self) -> int:
        """Elements of local memory: the stages, or later the sums of the slices that meet."""
        sums = self.meeting * self.tile_rows * self.tile_columns if self.slices > 1 else 0
        return max(STAGES * self.stage, sums)


SHAPES = shapes_of(
    NAMES,
    (8, 16, 8, 8, 8, 1, 1, 3, 0.55, 1.00),
    (16, 8, 8, 8, 8, 1, 1, 3, 0.55, 1.00),
    (8, 16, 8, 8, 16, 1, 1, 4, 0.55, 0.88),
    (8, 8, 8, 8, 8, 2, 1, 4, 0.58, 0.86),
    (4, 8, 8, 8, 8, 4, 2, 4, 0.55, 0.75, 0.85),
    (4, 4, 8, 8, 8, 8, 2, 4, 0.40, 0.52),
    (8, 8, 4, 4, 8, 8, 2, 2, 0.42, 0.42),
    (4, 4, 8, 8, 4, 16, 2, 2, 0.44, 0.43),
    (2, 4, 8, 8, 4, 16, 2, 6, 0.31, 0.39),
    (4, 4, 4, 4, 4, 32, 2, 2, 0.18, 0.25),
    (8, 8, 4, 4, 8, 1, 1, 8, 0.15, 0.35),
)
"""Tilings of 4-byte elements, measured on an NVIDIA H200. The last one fits where local memory is
short.
"""

SMALL_SHAPES = shapes_of(
    NAMES,
    *((down, across, 4, 4, 8, 1, 1, 1, 0.1, 0.1) for down, across in ((4, 8), (4, 4), (2, 4))),
)
"""For devices whose groups or local memory have room for none of those: the first that fits."""


def vector_width(element: ElementType) -> int:
    """Elements of a vector of local memory."""
    return max(min(VECTOR_BYTES // element.bytes, 4), 1)


def local_tilings(request: Request, product: Product) -> Sequence[tuple[float, Tiling]]:
    """The tilings that fit and their seconds, the quickest first. A transposed right operand orders
    them in another way; the best takes as long as the best for one that is not.
    """
    rate, memory = plain_rate(product, request.device), request.number("local_memory", 1 << 15)
    room = Room.of(request, NAMES, GPU_EFFICIENCY * rate, memory)
    turned = bool(product.node.values["transpose_b"])
    element = accumulator(product.element)
    return _tilings(Extent.of(request.body, product), element.name, turned, room)


@lru_cache(maxsize=4096)
def _tilings(extent: Extent, name: str, turned: bool, room: Room) -> Sequence[tuple[float, Tiling]]:
    element = ELEMENT_TYPES[name]
    width = vector_width(element)

    def fit(numbers: Numbers) -> Fit[Tiling] | None:
        own = {name: max(numbers[name], width) for name in ("item_rows", "item_columns")}
        tiling = Tiling.of({**numbers, **own}, element)
        memory = tiling.memory * element.bytes + tiling.tile_rows * extent.row_bytes
        if tiling.items > room.items or memory > room.memory:
            return None
        tile = (tiling.tile_rows, tiling.tile_columns)
        return Fit(tiling, extent.groups(tile), extent.tile_seconds(tile, room))

    found = fitting_tilings(room, _of_element(SHAPES, element), fit)
    if not found:
        found = fitting_tilings(room, _of_element(SMALL_SHAPES, element), fit)[:1]
    times = [(time / (shape.turned if turned else 1.0), tiling) for time, tiling, shape in found]
    first, own = min(time for time, _, _ in found), min(time for time, _ in times)
    level = first / own if own else 1.0
    return sorted([(time * level, tiling) for time, tiling in times], key=lambda item: item[0])


def _of_element(shapes: tuple[Shape, ...], element: ElementType) -> list[Shape]:
    """The shapes with as many bytes of results a work-item: half the sides of 8-byte elements."""
    if element.bytes <= 4:
        return list(shapes)
    return [
        replace(
            shape,
            numbers={
                **shape.numbers,
                "item_rows": shape.numbers["item_rows"] // 2,
                "item_columns": shape.numbers["item_columns"] // 2,
            },
        )
        for shape in shapes
    ]
