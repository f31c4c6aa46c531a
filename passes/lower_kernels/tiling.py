"""Sizes of the tiles in which a GPU's work-groups compute a product.

In: the sizes of a product and the schedule's entries. Out: a `Tiling`. The largest tiles do the
most work for each byte they copy; smaller ones spread a small product over all compute units.
"""

from dataclasses import dataclass
from math import prod

from mgn.passes.lower_kernels.product import Product, statistics_bytes
from mgn.passes.lower_kernels.scalar import accumulator
from mgn.passes.lower_kernels.template import Job, ceil_div, turns

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
    the end. `width` results of a row or column are neighbours; the work-item's others lie a group's
    width apart.
    """

    down: int
    across: int
    rows: int
    columns: int
    depth: int
    slices: int
    width: int

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


@dataclass(frozen=True)
class Shape:
    """A tiling of 4-byte elements, and the share of the best rate of a compute unit that it
    reaches: with one group there, and with the `resident` groups that there is room for. `turned`
    is what is left of it where the right operand, too, is turned on its way into local memory.
    """

    down: int
    across: int
    rows: int
    columns: int
    depth: int
    slices: int
    resident: int
    alone: float
    crowded: float
    turned: float = 1.0


SHAPES = (
    Shape(8, 16, 8, 8, 8, 1, 3, 0.55, 1.00),
    Shape(8, 16, 8, 8, 16, 1, 4, 0.55, 0.88),
    Shape(8, 8, 8, 8, 8, 2, 4, 0.58, 0.86),
    Shape(4, 8, 8, 8, 8, 4, 4, 0.55, 0.75, 0.85),
    Shape(4, 4, 8, 8, 8, 8, 4, 0.40, 0.52),
    Shape(8, 8, 4, 4, 8, 8, 2, 0.42, 0.42),
    Shape(4, 4, 8, 8, 4, 16, 2, 0.44, 0.43),
    Shape(2, 4, 8, 8, 4, 16, 6, 0.31, 0.39),
    Shape(4, 4, 4, 4, 4, 32, 2, 0.18, 0.25),
    Shape(8, 8, 4, 4, 8, 1, 8, 0.15, 0.35),
)
"""Measured on an NVIDIA H200. The last one fits where local memory is short."""

SMALL_SHAPES = tuple(
    Shape(down, across, 4, 4, 8, 1, 1, 0.1, 0.1) for down, across in ((4, 8), (4, 4), (2, 4))
)
"""For devices whose groups or local memory have room for none of those: the first that fits."""


def tiling_of(job: Job, product: Product) -> Tiling:
    """The tiling that takes the least time, as far as work and idle compute units tell."""
    element = accumulator(product.element)
    width = max(min(VECTOR_BYTES // element.bytes, 4), 1)
    units, most = job.number("units", 1), job.number("largest_group", 256)
    room = job.number("local_memory", 1 << 15)
    row_bytes = statistics_bytes(job.body, product)
    best: tuple[float, Tiling] | None = None
    for shape in (*SHAPES, *SMALL_SHAPES):
        if best is not None and shape in SMALL_SHAPES:
            break
        side = 1 if element.bytes <= 4 else 2
        tiling = Tiling(
            down=job.number("tile_down", shape.down),
            across=job.number("tile_across", shape.across),
            rows=max(job.number("item_rows", shape.rows // side), width),
            columns=max(job.number("item_columns", shape.columns // side), width),
            depth=job.number("block_depth", shape.depth),
            slices=job.number("slices", shape.slices),
            width=width,
        )
        memory = tiling.memory * element.bytes
        memory += tiling.tile_rows * row_bytes
        if tiling.items > most or memory > room:
            continue
        groups = ceil_div(product.rows, tiling.tile_rows) * ceil_div(
            product.columns, tiling.tile_columns
        )
        share = ceil_div(groups * prod(product.batch), units)
        time = turns(share, shape.resident, shape.alone, shape.crowded)
        time *= tiling.tile_rows * tiling.tile_columns
        time /= shape.turned if product.node.values["transpose_b"] else 1.0
        if best is None or time < best[0]:
            best = time, tiling
    assert best is not None, "no tiling fits the device's local memory"
    return best[1]
