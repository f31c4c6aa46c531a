"""Sizes of the groups in which a GPU reduces rows.

In: the rows of a body, a request. Out: a `Grouping`: how many rows a group walks with how many
work-items each, and what of a row waits in registers and local memory between its stages.
"""

from dataclasses import dataclass

from mgn.dialects.kernel.matrix_units import CHUNK_BYTES
from mgn.dialects.mgn.operation import Kind
from mgn.passes.kernels.accumulation import bytes_combined
from mgn.passes.kernels.arithmetic import ceil_div, dividing_lanes, power_above, power_below
from mgn.passes.kernels.body import Body, Node
from mgn.passes.kernels.index import Index
from mgn.passes.kernels.rows import (
    RowSpace,
    columns_side_by_side,
    elements_in_line,
    stages_of,
)
from mgn.passes.kernels.sought import first_places
from mgn.passes.schedules.core.schedule import Entries, Request

NAMES = ("rows", "shares", "by_row", "width", "kept", "stashed")
"""What a schedule calls the numbers of a grouping."""

KEPT_ELEMENTS = 32
"""Up to how many elements of a row a work-item keeps in registers."""

ELEMENTS_AT_ONCE = 8
"""How many elements a work-item should read before it needs the first."""

READ_AT_ONCE, READ_KEPT = 32, 16
"""The same two for many long rows of which nothing is written but their totals: fewer work-items
for each row, with more loads in flight, meet sooner. `READ_ROWS` a compute unit are many.
"""

READ_ROWS = 16

USUAL_ITEMS = 512
"""Larger groups leave units idle at barriers; they are for rows that need so many registers."""

SHORT_ITEMS = 64
"""Work-items of a group whose columns are so short that each work-item keeps a vector of whole
columns. It waits for memory once, and for no other work-item.
"""

WIDE_VECTORS, WIDE_ITEMS = 32, 256
"""Vectors of columns side by side, and work-items, of a group where there are many columns."""

MET_BYTES = 32 * 1024
"""Local memory in which the shares of columns meet."""


@dataclass
class Grouping:
    """A group has `rows` rows, or vectors of rows, and `shares` work-items for each.

    `by_row` says that neighbouring work-items share a row. `width` elements are read at once: of
    one row, or one of each of so many rows.
    """

    rows: int
    shares: int
    by_row: bool
    width: int
    kept: int = 0
    stashed: int = 0

    @staticmethod
    def of(entries: Entries) -> "Grouping":
        """The grouping that a schedule says."""
        rows, shares, by_row, width, kept, stashed = (int(entries[name]) for name in NAMES)
        return Grouping(rows, shares, bool(by_row), width, kept, stashed)

    @property
    def entries(self) -> dict[str, int]:
        """The entries of a schedule that say it."""
        groups = (self.rows, self.shares, int(self.by_row), self.width)
        return dict(zip(NAMES, (*groups, self.kept, self.stashed), strict=True))

    @property
    def items(self) -> int:
        return self.rows * self.shares

    @property
    def row_width(self) -> int:
        """How many rows a work-item sees at once."""
        return 1 if self.by_row else self.width

    @property
    def row_step(self) -> int:
        """How many elements of a row a work-item sees at once."""
        return self.width if self.by_row else 1

    def places(self, place: Index) -> tuple[Index, Index]:
        """A work-item's row, or vector of rows, and which share of it it has."""
        if self.by_row:
            return place // self.shares, place % self.shares
        return place % self.rows, place // self.rows


def grouping(request: Request, space: RowSpace) -> Grouping:
    """The grouping of a body's rows, and what of a row is kept."""
    sizes = _grouping(request, space)
    trips = ceil_div(space.length // sizes.row_step, sizes.shares)
    sizes.kept = trips
    most = READ_KEPT if _only_reads(request, space) else KEPT_ELEMENTS
    if trips * sizes.width > most:
        stages = stages_of(request.body, space).reductions
        again = len(stages) > 1 + len(first_places(stages, space))
        again |= any(space.is_full(node) for node in request.body.written)
        sizes.kept = most // sizes.width if again and sizes.by_row else 0
    sizes.stashed = _stashed(request, space, sizes, trips - sizes.kept)
    return sizes


def _stashed(request: Request, space: RowSpace, sizes: Grouping, trips: int) -> int:
    """How many of the next trips of a row there is local memory for.

    Groups that are to share a compute unit would take it from each other.
    """
    alone = sizes.kept and sizes.rows == 1 and not _only_reads(request, space)
    room = request.number("stash_memory", 0) if alone and sizes.by_row else 0
    nodes = stashable(request.body, space, sizes.width)
    a_trip = sizes.items * sizes.width * sum(node.element.bytes for node in nodes)
    return min(trips, room // a_trip if a_trip else 0)


def _grouping(request: Request, space: RowSpace) -> Grouping:
    """A group of few rows fills a sub-group, where they have so many vectors. A part of one takes
    as long, and cannot be part of a resident group.
    """
    local = request.number("local", 256)
    if space.innermost_is_kept:
        return _across(request, space, local)
    width = dividing_lanes(elements_in_line(request.body, space), request.number("lanes", 4))
    vectors = max(space.length // width, 1)
    most = local if space.length > USUAL_ITEMS * KEPT_ELEMENTS else min(local, USUAL_ITEMS)
    at_once = READ_AT_ONCE if _only_reads(request, space) else ELEMENTS_AT_ONCE
    shares = min(most, power_below(vectors), power_above(vectors * width // at_once))
    rows = 1
    if shares < 128:
        rows = min(max(256 // shares, 1), local // shares, power_above(space.rows))
    whole = request.number("sub_group", 1) // rows
    shares = max(shares, min(whole, most, power_below(vectors)))
    return Grouping(rows, shares, True, width)


def _only_reads(request: Request, space: RowSpace) -> bool:
    """Whether a kernel only reads its rows, which are many and long."""
    long = space.length >= READ_AT_ONCE * 128
    many = space.rows >= READ_ROWS * request.number("units", 1)
    return long and many and not any(space.is_full(node) for node in request.body.written)


def _across(request: Request, space: RowSpace, local: int) -> Grouping:
    """Few columns make groups as narrow as a segment of memory, with many work-items for each. A
    short column has one work-item.
    """
    inner = next(size for size in reversed(space.kept_shape) if size != 1)
    width, units = dividing_lanes(inner, request.number("lanes", 4)), request.number("units", 1)
    vectors = space.rows // width
    if space.length * width <= KEPT_ELEMENTS:
        return Grouping(min(SHORT_ITEMS, local, power_above(vectors)), 1, False, width)
    side_by_side, most = WIDE_VECTORS, min(local, WIDE_ITEMS)
    if vectors < 2 * WIDE_VECTORS * units:
        inputs = [(node.count, node.element.bytes) for node in request.body.inputs]
        side_by_side = max(columns_side_by_side(space, inputs) // width, 1)
        most = min(local, MET_BYTES // (width * _bytes_met(request)))
    rows = min(side_by_side, power_above(vectors))
    shares = min(power_below(most // rows), power_below(space.length))
    while shares > 1 and vectors // rows >= 8 * units:
        shares //= 2
    return Grouping(rows, shares, False, width)


def _bytes_met(request: Request) -> int:
    """What a work-item hands to the others of each column that it sees."""
    reductions = request.body.of_kind(Kind.REDUCTION)
    return sum(map(bytes_combined, reductions))


def stashable(body: Body, space: RowSpace, width: int) -> list[Node]:
    """The inputs with an element for each of a row, if all can be copied vector by vector."""
    nodes = [node for node in body.inputs if node in body.nodes and space.is_full(node)]
    copied = all(width * node.element.bytes in CHUNK_BYTES for node in nodes)
    aligned = all(size % width == 0 for node in nodes for size in node.shape[-1:])
    return nodes if copied and aligned else []
