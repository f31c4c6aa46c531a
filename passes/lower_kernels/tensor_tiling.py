"""Sizes of the tiles in which a matrix unit's work-groups compute a product.

In: the sizes of a product, the bytes of an operand's element, the schedule's entries. Out: a
`TensorTiling`. A sub-group of 32 work-items adds up a tile of `rows` x `columns` results in its
registers; a group has `slices` times `down` x `across` of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from mgn.passes.choose_schedules import ENLARGED_MEMORY
from mgn.passes.lower_kernels.product import Product, statistics_bytes
from mgn.passes.lower_kernels.template import Job, ceil_div, turns

SUB_GROUP = 32
CHUNK_BYTES = 16
"""What a work-item copies at once, and the unit in which tiles lie in local memory."""

LINE_CHUNKS = 8
"""Chunks of the longest line in local memory: 128 bytes, once around the banks."""

GROUP_ROWS = 16
"""Rows of each of the four sub-groups that multiply together."""

STEP_CHUNKS = 2
"""Chunks of the shared axis that one matrix instruction multiplies."""


@dataclass(frozen=True)
class TensorTiling:
    """A block is `chunks` chunks of the shared axis; `stages` of them are in local memory.

    With `groups`, four sub-groups together multiply from local memory (`kernel.group_mma`).
    """

    down: int
    across: int
    rows: int
    columns: int
    slices: int
    chunks: int
    stages: int
    element_bytes: int
    groups: bool = False

    @property
    def is_possible(self) -> bool:
        """Whether groups, if there are any, find rows and lines of the sizes they multiply."""
        lines = self.chunks == LINE_CHUNKS and self.rows == GROUP_ROWS
        return not self.groups or (lines and self.down % 4 == 0 and self.across == 1)

    @property
    def items(self) -> int:
        return SUB_GROUP * self.down * self.across * self.slices

    @property
    def tile_rows(self) -> int:
        return self.down * self.rows

    @property
    def tile_columns(self) -> int:
        return self.across * self.columns

    @property
    def chunk(self) -> int:
        """Elements of a chunk."""
        return CHUNK_BYTES // self.element_bytes

    @property
    def depth(self) -> int:
        """Elements of the shared axis in a block."""
        return self.chunks * self.chunk

    @property
    def stage(self) -> int:
        """Elements of a block of both operands."""
        return self.depth * (self.tile_rows + self.tile_columns)

    @property
    def sums(self) -> int:
        """Numbers that the slices but the first hand over at the end."""
        return (self.slices - 1) * self.tile_rows * self.tile_columns

    @property
    def memory(self) -> int:
        """Bytes of local memory."""
        return self.stages * self.stage * self.element_bytes + 4 * self.sums


@dataclass(frozen=True)
class Shape:
    """A tiling, how many groups of it a compute unit holds, and the share of the best rate that it
    reaches: with one group there, and with as many as there is room for.
    """

    down: int
    across: int
    rows: int
    columns: int
    slices: int
    chunks: int
    stages: int
    resident: int
    alone: float
    crowded: float


SHAPES = (
    Shape(2, 4, 64, 64, 1, 8, 4, 1, 1.15, 1.15),
    Shape(2, 4, 64, 64, 1, 8, 3, 1, 1.12, 1.12),
    Shape(2, 4, 64, 64, 1, 4, 4, 1, 1.12, 1.12),
    Shape(2, 2, 64, 64, 1, 8, 3, 2, 0.75, 1.07),
    Shape(2, 2, 64, 64, 1, 4, 3, 2, 0.70, 1.00),
    Shape(2, 2, 64, 32, 1, 4, 4, 3, 0.60, 0.85),
    Shape(2, 2, 32, 32, 1, 4, 4, 4, 0.40, 0.70),
    Shape(1, 2, 32, 32, 2, 8, 3, 4, 0.35, 0.55),
    Shape(1, 1, 32, 32, 4, 8, 4, 4, 0.30, 0.45),
    Shape(1, 1, 16, 32, 4, 8, 4, 4, 0.20, 0.30),
    Shape(1, 1, 32, 32, 4, 16, 4, 2, 0.46, 0.50),
    Shape(1, 1, 32, 32, 4, 16, 3, 3, 0.42, 0.48),
    Shape(1, 1, 16, 32, 4, 16, 3, 4, 0.28, 0.32),
)
"""From large to small: the larger do more work for each byte, the smaller fill all units."""


GROUP_SHAPES = (
    Shape(8, 1, 16, 128, 1, 8, 3, 2, 1.10, 1.64),
    Shape(8, 1, 16, 256, 1, 8, 4, 1, 1.80, 1.80),
    Shape(4, 1, 16, 128, 1, 8, 4, 2, 0.75, 1.24),
)
"""Tilings for products by groups of four sub-groups of 16 rows each."""

COPIED_SHAPES = (
    Shape(12, 1, 16, 192, 1, 8, 4, 1, 1.66, 1.66),
    Shape(12, 1, 16, 256, 1, 8, 3, 1, 1.70, 1.70),
    Shape(8, 1, 16, 192, 1, 8, 4, 1, 1.60, 1.60),
)
"""The same where all of both operands is copied past the registers: these have room for the sums,
but not for operands besides.
"""


def any_tiling(element_bytes: int) -> TensorTiling:
    """A tiling, to ask what does not depend on its sizes."""
    first = SHAPES[0]
    sizes = (first.down, first.across, first.rows, first.columns, first.slices, first.chunks)
    return TensorTiling(*sizes, first.stages, element_bytes)


def tensor_tiling(
    job: Job, product: Product, element_bytes: int, shapes: Sequence[Shape]
) -> TensorTiling:
    """The tiling that takes the least time, as far as work and idle compute units tell."""
    units, most = job.number("units", 1), job.number("largest_group", 256)
    row_bytes = statistics_bytes(job.body, product)
    best: tuple[float, TensorTiling] | None = None
    for shape in shapes:
        groups = bool(job.number("groups", int(shape in (*GROUP_SHAPES, *COPIED_SHAPES))))
        enlarged = job.schedule.get("matrix_unit") == "wgmma"
        room = ENLARGED_MEMORY if enlarged else job.number("local_memory", 1 << 15)
        tiling = TensorTiling(
            down=job.number("tile_down", shape.down),
            across=job.number("tile_across", shape.across),
            rows=job.number("item_rows", shape.rows),
            columns=job.number("item_columns", shape.columns),
            slices=job.number("slices", shape.slices),
            chunks=job.number("chunks", shape.chunks),
            stages=job.number("stages", shape.stages),
            element_bytes=element_bytes,
            groups=groups,
        )
        memory = tiling.memory + tiling.tile_rows * row_bytes
        if tiling.items > most or memory > room or not tiling.is_possible:
            continue
        down = ceil_div(product.rows, tiling.tile_rows)
        across = ceil_div(product.columns, tiling.tile_columns)
        share = ceil_div(down * across * prod(product.batch), units)
        time = turns(share, shape.resident, shape.alone, shape.crowded)
        time *= tiling.tile_rows * tiling.tile_columns
        if best is None or time < best[0]:
            best = time, tiling
    assert best is not None, "no tiling fits the device's local memory"
    return best[1]
