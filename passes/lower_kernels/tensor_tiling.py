"""Sizes of the tiles in which a matrix unit's work-groups compute a product.

In: the sizes of a product, the bytes of an operand's element, the schedule's entries. Out: a
`TensorTiling`. A sub-group of 32 work-items adds up a tile of `rows` x `columns` results in its
registers; a group has `slices` times `down` x `across` of them.
"""

from dataclasses import dataclass
from math import prod

from mgn.passes.lower_kernels.product import Product
from mgn.passes.lower_kernels.template import Job, ceil_div

SUB_GROUP = 32
CHUNK_BYTES = 16
"""What a work-item copies at once, and the unit in which tiles lie in local memory."""

STEP_CHUNKS = 2
"""Chunks of the shared axis that one matrix instruction multiplies."""


@dataclass(frozen=True)
class TensorTiling:
    """A block is `chunks` chunks of the shared axis; `stages` of them are in local memory."""

    down: int
    across: int
    rows: int
    columns: int
    slices: int
    chunks: int
    stages: int
    element_bytes: int

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

    def turns(self, groups: int) -> float:
        """The time of so many groups on one compute unit, in the best time of one."""
        rounds, rest = divmod(groups, self.resident)
        last = max(1 / self.alone, rest / self.crowded) if rest else 0.0
        return rounds * max(1 / self.alone, self.resident / self.crowded) + last


SHAPES = (
    Shape(2, 2, 64, 64, 1, 4, 3, 2, 0.70, 1.00),
    Shape(2, 2, 64, 32, 1, 4, 4, 3, 0.60, 0.85),
    Shape(2, 2, 32, 32, 1, 4, 4, 4, 0.40, 0.70),
    Shape(1, 2, 32, 32, 2, 8, 3, 4, 0.35, 0.55),
    Shape(1, 1, 32, 32, 4, 8, 4, 4, 0.30, 0.45),
    Shape(1, 1, 16, 32, 4, 8, 4, 4, 0.20, 0.30),
)
"""From large to small: the larger do more work for each byte, the smaller fill all units."""


def tensor_tiling(job: Job, product: Product, element_bytes: int) -> TensorTiling:
    """The tiling that takes the least time, as far as work and idle compute units tell."""
    units, most = job.number("units", 1), job.number("largest_group", 256)
    room = job.number("local_memory", 1 << 15)
    best: tuple[float, TensorTiling] | None = None
    for shape in SHAPES:
        tiling = TensorTiling(
            down=job.number("tile_down", shape.down),
            across=job.number("tile_across", shape.across),
            rows=job.number("item_rows", shape.rows),
            columns=job.number("item_columns", shape.columns),
            slices=job.number("slices", shape.slices),
            chunks=job.number("chunks", shape.chunks),
            stages=job.number("stages", shape.stages),
            element_bytes=element_bytes,
        )
        if tiling.items > most or tiling.memory > room:
            continue
        down = ceil_div(product.rows, tiling.tile_rows)
        across = ceil_div(product.columns, tiling.tile_columns)
        share = ceil_div(down * across * prod(product.batch), units)
        time = tiling.tile_rows * tiling.tile_columns * shape.turns(share)
        if best is None or time < best[0]:
            best = time, tiling
    assert best is not None, "no tiling fits the device's local memory"
    return best[1]
