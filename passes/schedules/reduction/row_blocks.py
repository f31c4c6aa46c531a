"""The schedules of rows in blocks: what a group or a work-item does with each row, and adds up.

In: a request whose body has sums of blocks of rows. Out: the one schedule. A CPU's work-item walks
the rows of a block one after another. A GPU's group walks them a few side by side. Its work-items
keep the sums of their columns in registers, so that rows have to fit in a group's registers; where
no row is reduced, a group takes a tile of columns.
"""

from enum import StrEnum

from xdsl.utils.exceptions import VerifyException

from mgn.dialects.mgn.operation import Kind
from mgn.passes.kernels.arithmetic import ceil_div, dividing_lanes, power_above, power_below
from mgn.passes.kernels.body import Node
from mgn.passes.kernels.rows import (
    RowSpace,
    block_space,
    block_sums_of,
    elements_in_line,
    lanes_along,
    stages_of,
)
from mgn.passes.schedules.core.schedule import Request, Schedule, Schedules
from mgn.passes.schedules.reduction.row_groups import Grouping

TILES, AHEAD = "tiles", "read_ahead"
"""How many tiles of columns there are, and whether rows are read while others are computed."""

GROUP_ITEMS, MOST_ITEMS = 256, 512
"""Work-items of a group of several rows side by side, and the most of one."""

TILE_SHARES = 64
"""Work-items of a tile's row: their vectors are a few segments of memory."""

LEAST_SHARES = 16
"""Work-items of a row at least, whose vectors are a segment of memory."""

HELD_WORDS = 64
"""Registers in which a work-item holds elements of rows and the sums of its columns."""

MOST_ROWS = 1024
"""Rows of a block on a CPU, which are added up one after another."""

RESIDENT_ITEMS = 1024
"""Work-items of such groups that run on a compute unit at once."""

ROW_TURN, TILE_TURN = 2.0e-6, 0.7e-6
"""Seconds that a group takes from one row to the next at least: where it reduces rows, and where
loads of rows are independent.
"""


class RowBlocksVariant(StrEnum):
    """A variant of the template of rows in blocks."""

    GROUPS = "groups"
    ALONG = "along rows"


def row_block_schedules(request: Request) -> Schedules:
    """The schedules of rows in blocks; there is one."""
    space, facts = block_space(request.body), request.facts("form", "lanes", "sub_group", "ahead")
    if not request.is_gpu:
        return [Schedule(RowBlocksVariant.ALONG, _along_rows(request, space), facts)]
    reduces = bool(request.body.of_kind(Kind.REDUCTION))
    sizes, tiles = _rows_in_group(request, space) if reduces else _tiles(request, space)
    numbers = {**sizes.entries, TILES: tiles, AHEAD: request.number(AHEAD, int(reduces))}
    return [Schedule(RowBlocksVariant.GROUPS, numbers, facts, _seconds(request, sizes, tiles))]


def _along_rows(request: Request, space: RowSpace) -> dict[str, int]:
    rows = block_sums_of(request.body)[0].values["rows"]
    if rows > MOST_ROWS:
        raise VerifyException(f"fusion.kernel: blocks of {rows} rows are too long a chain of sums")
    in_line = elements_in_line(request.body, space)
    width = lanes_along(space, in_line, request.number("lanes", 16))
    return {"width": width, "stored": int(space.length <= request.number("stash", 8192))}


def _rows_in_group(request: Request, space: RowSpace) -> tuple[Grouping, int]:
    """The grouping of rows that a group has whole."""
    width = dividing_lanes(elements_in_line(request.body, space), request.number("lanes", 4))
    vectors = max(space.length // width, 1)
    words = sum(node.element.bytes for node in _held(request, space)) / 4
    most = min(request.number("local", MOST_ITEMS), MOST_ITEMS)
    found = row_shares(vectors, width, words, most)
    if found is None:
        raise VerifyException(f"fusion.kernel: rows of {space.length} elements are too long")
    return _side_by_side(request, Grouping(1, found, True, width, ceil_div(vectors, found))), 1


def row_shares(vectors: int, width: int, words: float, most: int) -> int | None:
    """How many work-items share a row of so many vectors, of which registers hold `words` for each
    element: those that leave the fewest idle, and of these the fewest, since they then have less to
    tell each other; None where it does not fit.
    """
    found: list[tuple[int, int]] = []
    shares = min(LEAST_SHARES, power_above(vectors))
    while shares <= min(most, power_above(vectors)):
        trips = ceil_div(vectors, shares)
        if trips * width * words <= HELD_WORDS:
            found.append((trips * shares, shares))
        shares *= 2
    return min(found)[1] if found else None


def _held(request: Request, space: RowSpace) -> list[Node]:
    """What a work-item holds an element of for each element of a row: inputs, what is written, and
    sums.
    """
    inputs = [node for node in request.body.inputs if space.is_full(node)]
    return [*inputs, *block_sums_of(request.body)]


def _tiles(request: Request, space: RowSpace) -> tuple[Grouping, int]:
    """The grouping of tiles of columns."""
    width = dividing_lanes(elements_in_line(request.body, space), request.number("lanes", 4))
    vectors = max(space.length // width, 1)
    shares = min(TILE_SHARES, power_above(vectors))
    sizes = _side_by_side(request, Grouping(1, shares, True, width, 1))
    return sizes, ceil_div(vectors, shares)


def _side_by_side(request: Request, sizes: Grouping) -> Grouping:
    """The grouping with as many rows side by side as make a group."""
    items = min(GROUP_ITEMS, request.number("local", GROUP_ITEMS))
    rows = block_sums_of(request.body)[0].values["rows"]
    sizes.rows = max(1, min(items // sizes.shares, power_below(rows)))
    return sizes


def _seconds(request: Request, sizes: Grouping, tiles: int) -> float:
    """What it takes to walk the rows of the blocks, however little is read."""
    sums = block_sums_of(request.body)[0]
    turns = ceil_div(sums.values["rows"], sizes.rows)
    resident = max(RESIDENT_ITEMS // sizes.items, 1) * request.number("units", 1)
    waves = ceil_div(sums.shape[0] * tiles, resident)
    stages = len(stages_of(request.body, block_space(request.body)).reductions)
    return waves * turns * (ROW_TURN if stages else TILE_TURN)
