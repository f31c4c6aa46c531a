"""Sizes of the tiles in which a GPU's work-groups compute a product.

In: the sizes of a product and the schedule's entries. Out: a `Tiling`. The largest tiles do the
most work for each byte they copy; smaller ones spread a small product over all compute units.
"""

from dataclasses import dataclass
from math import prod

from mgn.passes.lower_kernels.product import Product
from mgn.passes.lower_kernels.scalar import accumulator
from mgn.passes.lower_kernels.template import Job, ceil_div

VECTOR_BYTES = 16
STAGES = 2
PADDING = 1
"""Vectors between the rows of a tile in local memory."""


@dataclass(frozen=True)
class Tiling:
    """A group has `slices` times `down` x `across` work-items of `rows` x `columns` results.

    A block is `depth` steps of the shared axis for each slice; the slices' sums are added up at
    the end. `width` results of a row or column are neighbours; the work-item's others lie a group's
    width apart. `warp` work-items side by side of 32 that run together.
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
    def memory(self) -> int:
        """Elements of local memory: the stages, or later the sums of all slices."""
        sums = self.slices * self.tile_rows * self.tile_columns if self.slices > 1 else 0
        return max(STAGES * self.stage, sums)


SHAPES: tuple[tuple[int, int, int, int, int, int, float], ...] = (
    (16, 16, 8, 8, 16, 1, 1.0),
    (8, 16, 8, 8, 16, 1, 0.9),
    (8, 8, 8, 8, 16, 2, 0.8),
    (8, 8, 8, 4, 8, 4, 0.6),
    (8, 8, 4, 4, 16, 4, 0.5),
)
"""Down, across, rows, columns, depth and slices of a tiling of 4-byte elements, and the share of
the device's rate that it reaches where there are tiles enough."""


def tiling_of(job: Job, product: Product) -> Tiling:
    """The tiling that takes the least time, as far as work and idle compute units tell."""
    element = accumulator(product.element)
    width = max(min(VECTOR_BYTES // element.bytes, 4), 1)
    units, most = job.number("units", 1), job.number("largest_group", 256)
    room = job.number("local_memory", 1 << 15)
    best: tuple[float, Tiling] | None = None
    for down, across, rows, columns, depth, slices, rate in SHAPES:
        if element.bytes > 4:
            rows, columns = rows // 2, columns // 2
        tiling = Tiling(
            down=job.number("tile_down", down),
            across=job.number("tile_across", across),
            rows=max(job.number("item_rows", rows), width),
            columns=max(job.number("item_columns", columns), width),
            depth=job.number("block_depth", depth),
            slices=job.number("slices", slices),
            width=width,
        )
        if tiling.items > most or tiling.memory * element.bytes > room:
            continue
        groups = ceil_div(product.rows, tiling.tile_rows) * ceil_div(
            product.columns, tiling.tile_columns
        )
        turns = ceil_div(groups * prod(product.batch), units)
        time = turns * tiling.tile_rows * tiling.tile_columns / rate
        if best is None or time < best[0]:
            best = time, tiling
    assert best is not None, "the smallest tiling fits every device"
    return best[1]
