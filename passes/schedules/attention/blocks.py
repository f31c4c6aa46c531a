"""Sizes of the blocks in which a CPU's work-items compute attention.

In: the sizes of an attention, a request. Out: a `Blocking` that fits into local
memory, with as many rows a work-item as leave work for every compute unit.
"""

from dataclasses import dataclass
from math import prod

from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.attention import AttentionSizes, heads_too_large
from mgn.passes.kernels.long_chains import MOST_KEYS
from mgn.passes.schedules.attention.seconds import Scores, score_seconds
from mgn.passes.schedules.core.schedule import Entries, Request
from mgn.passes.schedules.core.tilings import Shape, group_seconds

LEAST_ITEMS = 4
"""Work-items that each compute unit should have, so that long and short ones level out."""


NAMES = (
    *("lanes", "tile_rows", "tiles_down", "key_panels", "key_vectors"),
    "column_vectors",
)
"""What a schedule calls the numbers of a blocking."""


@dataclass(frozen=True)
class Blocking:
    """`down` tiles of `rows` rows a work-item; keys in blocks of `panels` panels of `key_vectors`
    vectors of `lanes`; a row's result has `columns` panels of `column_vectors` vectors. A row's
    sums are kept in so many `sets`.
    """

    lanes: int
    rows: int
    down: int
    panels: int
    key_vectors: int
    columns: int
    column_vectors: int
    depth: int
    sets: int = 1

    @staticmethod
    def of(entries: Entries, attention: AttentionSizes) -> "Blocking":
        """The blocking that a schedule says for an attention."""
        width, rows, down, panels, key_vectors, column_vectors = (
            int(entries[name]) for name in NAMES
        )
        columns = ceil_div(attention.width, column_vectors * width)
        sets = 1 if attention.keys <= MOST_KEYS else 2
        tiles = (width, rows, down, panels, key_vectors, columns, column_vectors)
        return Blocking(*tiles, attention.depth, sets)

    @property
    def entries(self) -> dict[str, int]:
        """The entries of a schedule that say it."""
        tiles = (self.lanes, self.rows, self.down, self.panels)
        return dict(zip(NAMES, (*tiles, self.key_vectors, self.column_vectors), strict=True))

    @property
    def group(self) -> tuple[int, int]:
        """Rows of a group, and keys that it visits at a time."""
        return self.down * self.rows, self.key_panel

    @property
    def key_panel(self) -> int:
        return self.key_vectors * self.lanes

    @property
    def keys(self) -> int:
        return self.panels * self.key_panel

    @property
    def column_panel(self) -> int:
        return self.column_vectors * self.lanes

    @property
    def width(self) -> int:
        return self.columns * self.column_panel

    @property
    def memory(self) -> int:
        """Elements of local memory."""
        a_row = self.depth + self.sets * (self.width + 2)
        return self.keys * (self.depth + self.width + self.rows) + self.down * self.rows * a_row


def attention_blocking(request: Request, attention: AttentionSizes) -> Blocking:
    """The sizes for one attention: as many rows as leave work for all units, as memory allows.

    VerifyException where heads are too large for the smallest.
    """
    width = request.number("lanes", 16)
    vectors = request.number("tile_vectors", 2)
    key_vectors = min(vectors, ceil_div(attention.keys, width))
    column_vectors = min(vectors, ceil_div(attention.width, width))
    panels = min(
        max(request.number("block_keys", 128) // (key_vectors * width), 1),
        ceil_div(attention.keys, key_vectors * width),
    )
    rows = min(request.number("tile_rows", 8), attention.rows)
    tiles = ceil_div(attention.rows, rows)
    down = max(min(request.number("block_rows", 64) // rows, tiles), 1)
    outer = prod(attention.batch) * attention.kv_heads
    while down > 1 and ceil_div(tiles, down) * outer < LEAST_ITEMS * request.number("units", 2):
        down = ceil_div(down, 2)
    room = request.number("local_memory", 256 * 1024) // attention.element.bytes
    while True:
        numbers = (width, rows, down, panels, key_vectors, column_vectors)
        sizes = Blocking.of(dict(zip(NAMES, numbers, strict=True)), attention)
        if sizes.memory <= room:
            return sizes
        if panels > 1:
            panels = ceil_div(panels, 2)
        elif down > 1:
            down = ceil_div(down, 2)
        elif key_vectors > 1:
            key_vectors = ceil_div(key_vectors, 2)
        elif rows > 1:
            rows = ceil_div(rows, 2)
        else:
            raise heads_too_large(attention)


ROWS_LOST = 3.6
"""How many rows more a block would compute in the time that it takes besides."""


def block_seconds(request: Request, attention: AttentionSizes, sizes: Blocking) -> float:
    """What the blocks of an attention take, where units have uneven shares of them."""
    units, scores = request.number("units", 2), Scores.of(attention, *sizes.group)
    rows = scores.rows
    reached = rows / (rows + ROWS_LOST)
    shape = Shape({}, 1, reached, reached)
    score = score_seconds(attention, request.device) * units
    share = ceil_div(scores.groups, units)
    return group_seconds(share, 1, shape, scores.mean * score, scores.most * score)
