"""Sizes of the tiles in which a matrix unit's work-groups compute attention.

In: the sizes of an attention whose operands are rounded to what the unit multiplies, a request.
Out: the `MatrixTiling`s that fit, the quickest first.
"""

from dataclasses import dataclass

from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.attention import AttentionSizes
from mgn.passes.schedules.attention.seconds import Scores, multiplies_once, score_seconds
from mgn.passes.schedules.core.figures import ENLARGED_MEMORY
from mgn.passes.schedules.core.schedule import Entries, Request
from mgn.passes.schedules.core.tilings import Fit, Numbers, Room, fitting_tilings, shapes_of
from mgn.passes.schedules.product.matrix_tiles import (
    CHUNK_BYTES,
    LINE_CHUNKS,
    STEP_CHUNKS,
    SUB_GROUP,
    TensorTiling,
    held_element,
)

NAMES = ("tile_down", "tile_keys", "groups")
"""What a schedule calls the numbers of a tiling."""

SHARES = "shares"
"""What a schedule calls the sub-groups that have the same rows."""

UNIT_ROWS, UNIT_COLUMNS = 16, 8
"""Rows and columns of an instruction's result."""

STAGES = 2
"""Tiles of keys and values in local memory: one is copied while the other is multiplied."""

KEYS_BYTES = 128
"""Keys of a tile, times the bytes of an element: so many scores of a row fit into registers."""


@dataclass(frozen=True)
class MatrixTiling:
    """A group has `warps` times 16 rows, and walks over tiles of `keys` keys. `shares` sub-groups
    have the same rows, and a share of each tile's keys.

    With `groups`, four sub-groups together multiply from local memory.
    """

    warps: int
    keys: int
    depth: int
    width: int
    element_bytes: int
    groups: bool = False
    shares: int = 1

    @staticmethod
    def of(entries: Entries, attention: AttentionSizes, name: str) -> "MatrixTiling":
        """The tiling that a schedule says for operands of a type of the unit."""
        warps, keys, groups = (int(entries[entry]) for entry in NAMES)
        sizes = (attention.depth, attention.width, held_element(name).bytes)
        return MatrixTiling(warps, keys, *sizes, bool(groups), int(entries.get(SHARES, 1)))

    @property
    def entries(self) -> dict[str, int]:
        """The entries of a schedule that say it."""
        numbers = dict(zip(NAMES, (self.warps, self.keys, int(self.groups)), strict=True))
        return {**numbers, SHARES: self.shares}

    @property
    def is_possible(self) -> bool:
        """Whether groups, if there are any, find whole lines of what they multiply."""
        lines = min(self.depth_line, self.width_line, self.keys) * self.element_bytes
        whole = lines >= LINE_CHUNKS * CHUNK_BYTES and self.warps % 4 == 0
        whole &= self.element_bytes == 2 and self.shares == 1
        return (not self.groups or whole) and self.own_keys % UNIT_ROWS == 0

    @property
    def items(self) -> int:
        return SUB_GROUP * self.warps * self.shares

    @property
    def own_keys(self) -> int:
        """Keys of a tile that a sub-group multiplies."""
        return self.keys // self.shares

    @property
    def rows(self) -> int:
        return UNIT_ROWS * self.warps

    @property
    def group(self) -> tuple[int, int]:
        """Rows of a group, and keys that it visits at a time."""
        return self.rows, self.keys

    @property
    def step(self) -> int:
        """Steps of the shared axis of one instruction."""
        return STEP_CHUNKS * CHUNK_BYTES // self.element_bytes

    def _line(self, length: int) -> int:
        """Elements of a line in local memory: a power of two of chunks, or whole lines."""
        chunks = ceil_div(length * self.element_bytes, CHUNK_BYTES)
        if chunks > LINE_CHUNKS:
            chunks = ceil_div(chunks, LINE_CHUNKS) * LINE_CHUNKS
        else:
            chunks = max(1 << (chunks - 1).bit_length(), STEP_CHUNKS)
        return chunks * CHUNK_BYTES // self.element_bytes

    @property
    def depth_line(self) -> int:
        return self._line(self.depth)

    @property
    def width_line(self) -> int:
        return self._line(self.width)

    @property
    def queries_size(self) -> int:
        return self.rows * self.depth_line

    @property
    def keys_size(self) -> int:
        return self.keys * self.depth_line

    @property
    def stage(self) -> int:
        """Elements of a tile of keys and values."""
        return self.keys_size + self.keys * self.width_line

    @property
    def queries(self) -> int:
        """Where the queries lie: where the second tile will, or behind all."""
        return STAGES * self.stage if self.groups else self.stage

    @property
    def memory(self) -> int:
        """Elements of local memory."""
        return max(STAGES * self.stage, self.queries + self.queries_size)

    @property
    def met(self) -> int:
        """Numbers that sub-groups of the same rows hand to each other at the end."""
        return self.shares * self.rows * self.width_line if self.shares > 1 else 0

    @property
    def memory_bytes(self) -> int:
        scales = 2 * self.rows * self.shares if self.shares > 1 else 0
        return self.memory * self.element_bytes + 4 * (self.met + scales)

    def panel(self, length: int) -> TensorTiling:
        """The sizes of a panel whose shared axis is so long in local memory."""
        chunks = length * self.element_bytes // CHUNK_BYTES
        return TensorTiling(
            self.warps, 1, UNIT_ROWS, self.keys, self.shares, chunks, STAGES, self.element_bytes
        )


_NUMBERS = ("tile_down", "groups")

SHAPES = shapes_of(
    _NUMBERS,
    (8, 1, 2, 0.75, 1.50),
    (4, 1, 4, 0.55, 1.55),
    (4, 0, 3, 0.40, 1.00),
    (2, 0, 6, 0.25, 0.95),
    (1, 0, 12, 0.13, 0.80),
)
WIDE_SHAPES = shapes_of(
    _NUMBERS, (4, 0, 4, 0.55, 1.00), (2, 0, 8, 0.34, 0.95), (1, 0, 16, 0.18, 0.80)
)
"""Measured on an NVIDIA H200 with heads of 64 and 128: of two bytes an element, and of four."""

FULL_SHAPES = shapes_of(
    _NUMBERS, (12, 1, 1, 1.72, 1.72), (8, 1, 1, 1.34, 1.34), (4, 1, 2, 0.90, 1.50)
)
"""In the place of the first two of `SHAPES`, where registers have room for 12 sub-groups and not
for 16. Measured on an NVIDIA H200 with heads of 128 whose weights are two numbers, of 1024 to 4096
queries.
"""

SHARED_SHAPES = shapes_of(
    ("tile_down", "groups", SHARES, "tile_keys"),
    (1, 0, 4, 128, 2, 0.30, 0.60),
    (1, 0, 4, 256, 1, 0.32, 0.32),
    (1, 0, 8, 128, 2, 0.34, 0.60),
    (1, 0, 8, 256, 1, 0.36, 0.36),
    (2, 0, 4, 128, 2, 0.40, 0.70),
)
"""Tilings for few rows, whose sub-groups share them: all of them copy keys and values."""


UNIT_REGISTERS = 1 << 16
"""Registers of a compute unit."""

HELD_NUMBERS = {False: 1.7, True: 1.3}
"""Registers of a work-item for each of its scores and sums, by whether weights are one number.
NVIDIA's compiler takes 162 and 127 where there are 96 of them.
"""


def _fill(attention: AttentionSizes, keys: int, name: str) -> bool:
    """Whether registers of a compute unit have room for 12 sub-groups and not for 16."""
    columns = keys + ceil_div(attention.width, UNIT_ROWS) * UNIT_ROWS
    held = columns / 2 * HELD_NUMBERS[multiplies_once(attention, name)]
    return 12 <= UNIT_REGISTERS / (SUB_GROUP * held) < 16


def least_room(depth: int, width: int, name: str) -> int:
    """Bytes of local memory that the smallest tiling takes for heads of those sizes."""
    element_bytes, warps = (
        held_element(name).bytes,
        min(shape.numbers["tile_down"] for shape in SHAPES),
    )
    keys = KEYS_BYTES // element_bytes
    return MatrixTiling(warps, keys, depth, width, element_bytes).memory_bytes


def matrix_attention_tilings(
    request: Request, attention: AttentionSizes, name: str
) -> list[tuple[float, MatrixTiling]]:
    """The tilings that fit and their seconds, the quickest first; none for too large heads."""
    enlarged = request.word("matrix_unit") == "wgmma"
    memory = ENLARGED_MEMORY if enlarged else request.number("local_memory", 1 << 15)
    rate = 1.0 / score_seconds(attention, request.device, name)
    room = Room.of(request, (*NAMES, SHARES), rate, memory)
    score = room.units / room.rate
    keys = request.number("tile_keys", KEYS_BYTES // held_element(name).bytes)
    shares = dict(room.fixed).get(SHARES)

    def fit(numbers: Numbers) -> Fit[MatrixTiling] | None:
        tiling = MatrixTiling.of({"tile_keys": keys, **numbers}, attention, name)
        if not tiling.is_possible or (tiling.groups and not enlarged):
            return None
        if tiling.items > room.items or (shares is not None and shares != tiling.shares):
            return None
        held = room.memory // tiling.memory_bytes
        if not held or (attention.in_parts and attention.part_keys % tiling.keys):
            return None
        scores = Scores.of(attention, *tiling.group)
        return Fit(tiling, scores.groups, scores.mean * score, held, scores.most * score)

    shapes = SHAPES if held_element(name).bytes == 2 else WIDE_SHAPES
    if shapes is SHAPES and _fill(attention, keys, name):
        shapes = (*FULL_SHAPES, *SHAPES[2:])
    found = fitting_tilings(room, (*shapes, *SHARED_SHAPES), fit)
    return sorted(((time, tiling) for time, tiling, _ in found), key=lambda item: item[0])
