"""Sizes of the tiles in which a GPU's work-groups compute attention.

In: the sizes of an attention and the schedule's entries. Out: a `Tiling`: the one that takes the
least time, as far as work and idle compute units tell, among those whose tiles fit into local
memory and registers.
"""

from dataclasses import dataclass

from mgn.passes.lower_kernels.attention_node import Attention, heads_too_large
from mgn.passes.lower_kernels.template import Job, ceil_div, turns

VECTOR_BYTES = 16
MOST_REGISTERS = 160
"""Sums and scores of a work-item that stay in registers."""

BANK_GROUPS = 8
"""Vectors of 16 bytes that the banks of local memory hold side by side."""


@dataclass(frozen=True)
class Tiling:
    """A group has `down` x `across` work-items: `across` share rows. A work-item has the scores of
    `rows` x `keys`, and `rows` x `columns` sums; local memory holds vectors of `vector` elements.
    """

    down: int
    across: int
    rows: int
    keys: int
    columns: int
    depth: int
    vector: int

    @property
    def items(self) -> int:
        return self.down * self.across

    @property
    def tile_rows(self) -> int:
        return self.down * self.rows

    @property
    def tile_keys(self) -> int:
        return self.across * self.keys

    @property
    def width(self) -> int:
        """Columns of a tile of values."""
        return self.across * self.columns

    @property
    def row_vector(self) -> int:
        return min(self.vector, self.rows)

    @property
    def column_vector(self) -> int:
        return min(self.vector, self.columns)

    @property
    def parts(self) -> int:
        """Vectors of a query or a key."""
        return ceil_div(self.depth, self.vector)

    @property
    def queries_size(self) -> int:
        return self.tile_rows * self.parts * self.vector

    @property
    def keys_size(self) -> int:
        """Elements for a tile of keys, or later its weights, or shares that meet."""
        keys = self.tile_keys * self.parts * self.vector
        return max(keys, self.tile_keys * self.tile_rows, self.across * self.tile_rows)

    @property
    def memory(self) -> int:
        """Elements of local memory."""
        return self.queries_size + self.keys_size + self.tile_keys * self.width

    @property
    def registers(self) -> int:
        return self.rows * (self.columns + self.keys)


@dataclass(frozen=True)
class Shape:
    """A tiling, and the share of a compute unit's best rate that it reaches: with one group there,
    and with as many as it holds.
    """

    down: int
    across: int
    rows: int
    keys: int
    alone: float
    crowded: float


SHAPES = (
    Shape(16, 8, 4, 8, 0.70, 1.00),
    Shape(8, 8, 8, 8, 0.38, 1.00),
    Shape(8, 16, 8, 4, 0.60, 0.91),
    Shape(8, 8, 8, 4, 0.35, 0.97),
    Shape(16, 16, 4, 4, 0.62, 0.85),
    Shape(8, 16, 4, 2, 0.45, 0.85),
    Shape(8, 8, 4, 4, 0.29, 0.76),
    Shape(8, 16, 2, 4, 0.26, 0.68),
    Shape(4, 16, 4, 4, 0.20, 0.55),
    Shape(4, 32, 2, 2, 0.15, 0.50),
    Shape(4, 16, 2, 2, 0.10, 0.35),
    Shape(4, 16, 4, 1, 0.10, 0.30),
    Shape(4, 32, 1, 2, 0.14, 0.25),
    Shape(2, 32, 2, 2, 0.12, 0.20),
    Shape(1, 32, 1, 2, 0.03, 0.10),
    Shape(4, 8, 1, 1, 0.03, 0.10),
)
"""Measured on an NVIDIA H200 with heads of 64 and 128; some are for few rows, some for heads that
leave little room."""

SHARED = 4
"""Groups that are on one compute unit at once."""


def tilings(job: Job, attention: Attention) -> list[tuple[float, Tiling]]:
    """The tilings that fit, with the time that each takes."""
    element = attention.element
    vector = max(VECTOR_BYTES // element.bytes, 1)
    units, most = job.number("units", 1), job.number("largest_group", 256)
    room = job.number("local_memory", 1 << 15)
    found: list[tuple[float, Tiling]] = []
    for shape in SHAPES:
        across = job.number("tile_across", shape.across)
        columns = ceil_div(attention.width, across)
        column_vector = min(vector, 1 << (columns - 1).bit_length())
        tiling = Tiling(
            down=job.number("tile_down", shape.down),
            across=across,
            rows=job.number("item_rows", shape.rows),
            keys=job.number("item_keys", shape.keys),
            columns=ceil_div(columns, column_vector) * column_vector,
            depth=attention.depth,
            vector=vector,
        )
        fits = tiling.memory * element.bytes <= room and tiling.items <= most
        fits = fits and not (attention.in_parts and attention.part_keys % tiling.tile_keys)
        if not fits or tiling.registers * element.bytes > 4 * MOST_REGISTERS:
            continue
        share = ceil_div(ceil_div(attention.rows, tiling.tile_rows) * attention.groups, units)
        found.append((tiling.tile_rows * turns(share, SHARED, shape.alone, shape.crowded), tiling))
    return found


def tiling_of(job: Job, attention: Attention) -> Tiling:
    """The tiling that takes the least time. VerifyException where heads are too large for all."""
    found = tilings(job, attention)
    if not found:
        raise heads_too_large(attention)
    return min(found, key=lambda item: item[0])[1]
