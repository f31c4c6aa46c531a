"""Sizes of the tiles in which a GPU's work-groups compute attention.

In: the sizes of an attention, a request. Out: the `Tiling`s whose tiles fit into local memory and
registers, the quickest first.
"""

from dataclasses import dataclass

from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.attention import AttentionSizes
from mgn.passes.schedules.attention.seconds import Scores, score_seconds
from mgn.passes.schedules.core.schedule import Entries, Request
from mgn.passes.schedules.core.tilings import Fit, Numbers, Room, fitting_tilings, shapes_of

NAMES = ("tile_down", "tile_across", "item_rows", "item_keys")
"""What a schedule calls the numbers of a tiling."""

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

    @staticmethod
    def of(entries: Entries, attention: AttentionSizes) -> "Tiling":
        """The tiling that a schedule says for an attention."""
        down, across, rows, keys = (int(entries[name]) for name in NAMES)
        vector = max(VECTOR_BYTES // attention.element.bytes, 1)
        columns = ceil_div(attention.width, across)
        column_vector = min(vector, 1 << (columns - 1).bit_length())
        columns = ceil_div(columns, column_vector) * column_vector
        return Tiling(down, across, rows, keys, columns, attention.depth, vector)

    @property
    def entries(self) -> dict[str, int]:
        """The entries of a schedule that say it."""
        return dict(zip(NAMES, (self.down, self.across, self.rows, self.keys), strict=True))

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
    def group(self) -> tuple[int, int]:
        """Rows of a group, and keys that it visits at a time."""
        return self.tile_rows, self.tile_keys

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


SHARED = 4
"""Groups that are on one compute unit at once."""

SHAPES = shapes_of(
    NAMES,
    (16, 8, 4, 8, SHARED, 0.70, 1.00),
    (8, 8, 8, 8, SHARED, 0.38, 1.00),
    (8, 16, 8, 4, SHARED, 0.60, 0.91),
    (8, 8, 8, 4, SHARED, 0.35, 0.97),
    (16, 16, 4, 4, SHARED, 0.62, 0.85),
    (8, 16, 4, 2, SHARED, 0.45, 0.85),
    (8, 8, 4, 4, SHARED, 0.29, 0.76),
    (8, 16, 2, 4, SHARED, 0.26, 0.68),
    (4, 16, 4, 4, SHARED, 0.20, 0.55),
    (4, 32, 2, 2, SHARED, 0.15, 0.50),
    (4, 16, 2, 2, SHARED, 0.10, 0.35),
    (4, 16, 4, 1, SHARED, 0.10, 0.30),
    (4, 32, 1, 2, SHARED, 0.14, 0.25),
    (2, 32, 2, 2, SHARED, 0.12, 0.20),
    (1, 32, 1, 2, SHARED, 0.03, 0.10),
    (4, 8, 1, 1, SHARED, 0.03, 0.10),
)
"""Measured on an NVIDIA H200 with heads of 64 and 128; some are for few rows, some for heads that
leave little room."""


def attention_tilings(request: Request, attention: AttentionSizes) -> list[tuple[float, Tiling]]:
    """The tilings that fit and their seconds, the quickest first."""
    element, memory = attention.element, request.number("local_memory", 1 << 15)
    room = Room.of(request, NAMES, 1.0 / score_seconds(attention, request.device), memory)
    score = room.units / room.rate

    def fit(numbers: Numbers) -> Fit[Tiling] | None:
        tiling = Tiling.of(numbers, attention)
        fits = tiling.memory * element.bytes <= room.memory and tiling.items <= room.items
        fits = fits and not (attention.in_parts and attention.part_keys % tiling.tile_keys)
        if not fits or tiling.registers * element.bytes > 4 * MOST_REGISTERS:
            return None
        scores = Scores.of(attention, *tiling.group)
        work, longest = scores.mean * score, scores.most * score
        return Fit(tiling, scores.groups, work, longest=longest)

    found = fitting_tilings(room, SHAPES, fit)
    return sorted(((time, tiling) for time, tiling, _ in found), key=lambda item: item[0])
