"""Sizes of the tiles in which a matrix unit's work-groups compute a product.

In: the sizes of a product, the bytes of an operand's element, a request. Out: the `TensorTiling`s
that fit, the quickest first. A sub-group of 32 work-items adds up a tile of `rows` x `columns`
results in its registers; a group has `slices` times `down` x `across` of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from mgn.dialects.types import ELEMENT_TYPES, ElementType
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.product import Product
from mgn.passes.schedules.core.figures import ENLARGED_MEMORY
from mgn.passes.schedules.core.schedule import Entries, Request
from mgn.passes.schedules.core.tilings import Fit, Numbers, Room, fitting_tilings, shapes_of
from mgn.passes.schedules.product.seconds import Extent

NAMES = (
    *("tile_down", "tile_across", "item_rows", "item_columns", "slices", "chunks", "stages"),
    "groups",
)
"""What a schedule calls the numbers of a tiling."""

KEPT = "kept_rows"
"""What a schedule calls that a tile's rows of the left operand lie whole in local memory."""

SUB_GROUP = 32
CHUNK_BYTES = 16
"""What a work-item copies at once, and the unit in which tiles lie in local memory."""

LINE_CHUNKS = 8
"""Chunks of the longest line in local memory: 128 bytes, once around the banks."""

GROUP_ROWS = 16
"""Rows of each of the four sub-groups that multiply together."""

STEP_CHUNKS = 2
"""Chunks of the shared axis that one matrix instruction multiplies."""

FEW_STAGES = 3
"""With so many stages, copies are further ahead if no product of groups is in flight while a stage
is filled.
"""

FIRST_BYTES, COPIED_BYTES, SHARED_BYTES = 0.75e-6, 1.1e11, 9.0e12
"""Seconds until a block that a compute unit asks for lies in its local memory; how many bytes it
copies there each second, and how many all units do. Measured on an NVIDIA H200: 16 × 11520 × 1280
in bf16 takes 37 µs with two blocks on their way, 17 with seven.
"""


@dataclass(frozen=True)
class TensorTiling:
    """A block is `chunks` chunks of the shared axis; `stages` of them are in local memory.

    With `groups`, four sub-groups together multiply from local memory (`kernel.group_mma`). With
    `kept`, the rows of the left operand are not among the stages: they are computed once, before
    the first block, and lie in local memory over the whole shared axis.
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
    kept: bool = False

    @staticmethod
    def of(entries: Entries, element_bytes: int) -> "TensorTiling":
        """The tiling that a schedule says for operands of so many bytes an element."""
        down, across, rows, columns, *rest = (int(entries[name]) for name in NAMES)
        slices, chunks, stages, groups = rest
        depth = (slices, chunks, stages)
        ways = (bool(groups), bool(int(entries.get(KEPT, 0))))
        return TensorTiling(down, across, rows, columns, *depth, element_bytes, *ways)

    @property
    def entries(self) -> dict[str, int]:
        """The entries of a schedule that say it."""
        sizes = (self.down, self.across, self.rows, self.columns)
        numbers = (*sizes, self.slices, self.chunks, self.stages, int(self.groups))
        return {**dict(zip(NAMES, numbers, strict=True)), KEPT: int(self.kept)}

    @property
    def is_possible(self) -> bool:
        """Whether groups, if there are any, find rows and lines of the sizes they multiply, and
        rows among the stages.
        """
        lines = self.chunks == LINE_CHUNKS and self.rows == GROUP_ROWS and not self.kept
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
        """Elements of a block of the operands that pass through stages."""
        return self.depth * (self.tile_columns + (0 if self.kept else self.tile_rows))

    def kept_elements(self, depth: int) -> int:
        """Elements of the rows that lie whole in local memory, for a shared axis of a length."""
        return ceil_div(depth, self.depth) * self.depth * self.tile_rows if self.kept else 0

    @property
    def ahead(self) -> int:
        """How many blocks are on their way while one is multiplied."""
        return self.stages - 1 - int(self.groups and self.stages > FEW_STAGES)

    @property
    def sums(self) -> int:
        """Numbers that the slices hand to each other at the end."""
        return self.slices * self.tile_rows * self.tile_columns if self.slices > 1 else 0

    def memory(self, depth: int) -> int:
        """Bytes of local memory, for a shared axis of a length."""
        elements = self.stages * self.stage + self.kept_elements(depth)
        return elements * self.element_bytes + 4 * self.sums


SHAPES = shapes_of(
    NAMES,
    (2, 4, 64, 64, 1, 8, 4, 0, 1, 1.15, 1.15),
    (2, 4, 64, 64, 1, 8, 3, 0, 1, 1.12, 1.12),
    (2, 4, 64, 64, 1, 4, 4, 0, 1, 1.12, 1.12),
    (2, 2, 64, 64, 1, 8, 3, 0, 2, 0.75, 1.07),
    (2, 2, 64, 64, 1, 4, 3, 0, 2, 0.70, 1.00),
    (2, 2, 64, 32, 1, 4, 4, 0, 3, 0.60, 0.85),
    (2, 2, 32, 32, 1, 4, 4, 0, 4, 0.40, 0.70),
    (1, 2, 32, 32, 2, 8, 3, 0, 4, 0.35, 0.55),
    (1, 1, 32, 32, 4, 8, 4, 0, 4, 0.30, 0.45),
    (1, 1, 16, 32, 4, 8, 4, 0, 4, 0.20, 0.30),
    (1, 1, 32, 32, 4, 16, 4, 0, 2, 0.46, 0.50),
    (1, 1, 32, 32, 4, 16, 3, 0, 3, 0.42, 0.48),
    (1, 1, 16, 32, 4, 16, 3, 0, 4, 0.28, 0.32),
)
"""From large to small: the larger do more work for each byte, the smaller fill all units."""


DEEP_SHAPES = shapes_of(
    NAMES,
    (1, 1, 32, 32, 4, 16, 8, 0, 1, 0.46, 0.46),
    (1, 1, 16, 32, 4, 16, 8, 0, 2, 0.28, 0.32),
)
"""The same for few tiles whose operands are copied past the registers: so many blocks are on their
way. Blocks that are computed would all be waited for before the first product.
"""

WIDE_SHAPES = shapes_of(
    NAMES,
    (2, 1, 32, 48, 4, 8, 8, 0, 1, 0.90, 0.90),
    (1, 2, 32, 48, 4, 8, 8, 0, 1, 0.80, 0.80),
)
"""The same for elements of two bytes. Blocks of larger elements have half as many products, and as
many barriers: 784 × 256 × 2304 in tf32 takes 29 µs by these and 19 by tiles of 32 × 32, measured on
an NVIDIA H200.
"""

DEEP_BYTES = 8 * 16 * CHUNK_BYTES
"""Bytes of the shared axis from which on all stages of these are filled."""

GROUP_SHAPES = shapes_of(
    NAMES,
    (8, 1, 16, 128, 1, 8, 3, 1, 2, 1.10, 1.64),
    (8, 1, 16, 256, 1, 8, 4, 1, 1, 1.80, 1.80),
    (4, 1, 16, 128, 1, 8, 4, 1, 2, 0.75, 1.24),
)
"""Tilings for products by groups of four sub-groups of 16 rows each."""

COPIED_SHAPES = shapes_of(
    NAMES,
    (16, 1, 16, 192, 1, 8, 3, 1, 1, 1.78, 1.78),
    (12, 1, 16, 192, 1, 8, 4, 1, 1, 1.66, 1.66),
    (12, 1, 16, 256, 1, 8, 3, 1, 1, 1.70, 1.70),
    (8, 1, 16, 192, 1, 8, 4, 1, 1, 1.60, 1.60),
    (8, 1, 16, 128, 1, 8, 6, 1, 1, 1.35, 1.35),
    (4, 1, 16, 128, 1, 8, 8, 1, 1, 1.30, 1.30),
    (8, 1, 16, 64, 1, 8, 8, 1, 1, 1.30, 1.30),
    (4, 1, 16, 64, 1, 8, 8, 1, 1, 1.10, 1.10),
)
"""The same where all of both operands is copied past the registers: these have room for the sums,
but not for operands besides.
"""

LINED_SHAPES = shapes_of(
    NAMES,
    (8, 1, 16, 240, 1, 8, 4, 1, 1, 1.78, 1.78),
    (8, 1, 16, 224, 1, 8, 4, 1, 1, 1.75, 1.75),
    (8, 1, 16, 144, 1, 8, 5, 1, 1, 1.46, 1.46),
)
"""The same where columns, too, are lines along the shared axis: lines across it hold 64 columns
each.
"""

KEPT_SHAPES = shapes_of(
    (*NAMES, KEPT),
    (1, 2, 32, 48, 4, 8, 9, 0, 1, 1, 0.60, 0.60),
    (1, 2, 32, 48, 4, 16, 3, 0, 1, 1, 0.60, 0.60),
    (1, 2, 32, 32, 4, 8, 6, 0, 1, 1, 0.50, 0.50),
    (1, 2, 32, 32, 4, 8, 4, 0, 1, 2, 0.50, 0.50),
    (1, 1, 32, 32, 4, 16, 5, 0, 1, 2, 0.48, 0.52),
    (1, 1, 32, 32, 4, 16, 3, 0, 1, 2, 0.46, 0.50),
    (1, 1, 16, 32, 4, 16, 5, 0, 1, 3, 0.30, 0.34),
)
"""The same where the left operand is computed on the way, once for all columns of a tile."""


IN_PIECES, DEEP, WIDE, BY_GROUPS = "in pieces", "deep", "deep and wide", "by groups"
COPIED, LINED = "copied", "lined"

TABLES = {
    IN_PIECES: SHAPES,
    DEEP: DEEP_SHAPES,
    WIDE: WIDE_SHAPES,
    BY_GROUPS: GROUP_SHAPES,
    COPIED: COPIED_SHAPES,
    LINED: LINED_SHAPES,
    KEPT: KEPT_SHAPES,
}
"""The tables by how operands come to the unit, and what multiplies them."""


def held_element(unit: str) -> ElementType:
    """What an operand takes in local memory."""
    return ELEMENT_TYPES["f32" if unit == "tf32" else unit]


def any_tiling(element_bytes: int) -> TensorTiling:
    """A tiling, to ask what does not depend on its sizes."""
    return TensorTiling.of(SHAPES[0].numbers, element_bytes)


UNIT_SHARE = {"wgmma": 0.72, "mma": 0.87}
"""The share of a device's rate for products on its unit that the tables take for 1."""


def matrix_tilings(
    request: Request, product: Product, unit: str, tables: tuple[str, ...]
) -> Sequence[tuple[float, TensorTiling, int]]:
    """The tilings that fit for what the unit multiplies, their seconds where nothing waits for
    operands, and how many groups a compute unit holds at once.
    """
    rate = request.device.matrix_rates[unit] * UNIT_SHARE[request.word("matrix_unit")]
    enlarged = request.word("matrix_unit") == "wgmma"
    memory = ENLARGED_MEMORY if enlarged else request.number("local_memory", 1 << 15)
    room = Room.of(request, (*NAMES, KEPT), rate, memory)
    return _tilings(Extent.of(request.body, product), held_element(unit).bytes, tables, room)


@lru_cache(maxsize=4096)
def _tilings(
    extent: Extent, element_bytes: int, tables: tuple[str, ...], room: Room
) -> Sequence[tuple[float, TensorTiling, int]]:
    kept = dict(room.fixed).get(KEPT)

    def fit(numbers: Numbers) -> Fit[TensorTiling] | None:
        tiling = TensorTiling.of(numbers, element_bytes)
        if kept is not None and kept != tiling.kept:
            return None
        memory = tiling.memory(extent.depth) + tiling.tile_rows * extent.row_bytes
        if tiling.items > room.items or memory > room.memory or not tiling.is_possible:
            return None
        tile = (tiling.tile_rows, tiling.tile_columns)
        return Fit(tiling, extent.groups(tile), extent.tile_seconds(tile, room))

    shapes = [shape for name in tables for shape in TABLES[name]]
    found = fitting_tilings(room, shapes, fit)
    return [(time, tiling, shape.resident) for time, tiling, shape in found]


def copying_seconds(
    request: Request, product: Product, tiling: TensorTiling, resident: int, staged: bool
) -> float:
    """The seconds in which compute units, which hold `resident` groups each at once, get the blocks
    of all groups; `staged` says that groups hold a block in registers before it is stored.
    """
    groups = ceil_div(product.rows, tiling.tile_rows) * prod(product.batch)
    groups *= ceil_div(product.columns, tiling.tile_columns)
    share = ceil_div(groups, request.number("units", 1))
    blocks = ceil_div(product.depth, tiling.depth)
    copied = blocks * tiling.stage * tiling.element_bytes
    waited = ceil_div(share, resident) * blocks * FIRST_BYTES
    waited /= 1 if staged and tiling.groups else tiling.ahead
    return max(share * copied / COPIED_BYTES, groups * copied / SHARED_BYTES, waited)
