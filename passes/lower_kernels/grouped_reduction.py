"""The reduction template for GPUs: a work-group walks a few rows together.

Along rows, neighbouring work-items read neighbouring vectors, and short rows share a group. Across
rows, neighbouring work-items have neighbouring vectors of rows. Each work-item combines its own
share; the shares meet (row_groups.py). What fits of a row is kept from one stage to the next, in
registers and, of long rows, in local memory (row_stash.py); the rest is read again.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager

from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.dialects.mgn.operation import Kind
from mgn.passes.lower_kernels.body import Indices, Node
from mgn.passes.lower_kernels.index import ZERO, Index, lanes
from mgn.passes.lower_kernels.long_sums import are_sums, long_loop
from mgn.passes.lower_kernels.row_groups import Grouping, meet
from mgn.passes.lower_kernels.row_stash import RowStash, stashable
from mgn.passes.lower_kernels.rows import (
    RowSpace,
    columns_side_by_side,
    elements_in_line,
    row_space,
    stages_of,
)
from mgn.passes.lower_kernels.scalar import (
    across_lanes,
    bytes_combined,
    combine,
    start_of,
    term,
    total_of,
)
from mgn.passes.lower_kernels.template import Job, Launch, ceil_div, dividing_lanes

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

WIDE_VECTORS, WIDE_ITEMS = 32, 256
"""Vectors of columns side by side, and work-items, of a group where there are many columns."""

MET_BYTES = 32 * 1024
"""Local memory in which the shares of columns meet."""

UNROLL = 4
"""How many steps of a loop over a row the device's compiler is asked to do at a time."""


def lower_grouped(job: Job) -> Launch:
    """Writes a reduction kernel of work-groups."""
    return _Grouped(job, row_space(job.body)).write()


def _power_below(count: int) -> int:
    return 1 << (max(count, 1).bit_length() - 1)


def _power_above(count: int) -> int:
    return 1 << max(count - 1, 0).bit_length()


def _grouping(job: Job, space: RowSpace) -> Grouping:
    local = job.number("local", 256)
    if space.innermost_is_kept:
        return _across(job, space, local)
    width = dividing_lanes(elements_in_line(job.body, space), job.number("lanes", 4))
    vectors = max(space.length // width, 1)
    most = local if space.length > USUAL_ITEMS * KEPT_ELEMENTS else min(local, USUAL_ITEMS)
    at_once = READ_AT_ONCE if _only_reads(job, space) else ELEMENTS_AT_ONCE
    shares = min(most, _power_below(vectors), _power_above(vectors * width // at_once))
    rows = 1
    if shares < 128:
        rows = min(max(256 // shares, 1), local // shares, _power_above(space.rows))
    return Grouping(rows, shares, True, width)


def _only_reads(job: Job, space: RowSpace) -> bool:
    """Whether a kernel only reads its rows, which are many and long."""
    long = space.length >= READ_AT_ONCE * 128
    many = space.rows >= READ_ROWS * job.number("units", 1)
    return long and many and not any(space.is_full(node) for node in job.body.written)


def _across(job: Job, space: RowSpace, local: int) -> Grouping:
    """Few columns make groups as narrow as a segment of memory, with many work-items for each."""
    inner = next(size for size in reversed(space.kept_shape) if size != 1)
    width, units = dividing_lanes(inner, job.number("lanes", 4)), job.number("units", 1)
    vectors = space.rows // width
    side_by_side, most = WIDE_VECTORS, min(local, WIDE_ITEMS)
    if vectors < 2 * WIDE_VECTORS * units:
        inputs = [(node.count, node.element.bytes) for node in job.body.inputs]
        side_by_side = max(columns_side_by_side(space, inputs) // width, 1)
        most = min(local, MET_BYTES // (width * _bytes_met(job)))
    rows = min(side_by_side, _power_above(vectors))
    shares = min(_power_below(most // rows), _power_below(space.length))
    while shares > 1 and vectors // rows >= 8 * units:
        shares //= 2
    return Grouping(rows, shares, False, width)


def _bytes_met(job: Job) -> int:
    """What a work-item hands to the others of each column that it sees."""
    reductions = job.body.of_kind(Kind.REDUCTION)
    return sum(map(bytes_combined, reductions))


class _Grouped:
    def __init__(self, job: Job, space: RowSpace) -> None:
        self.job, self.space, self.code = job, space, job.code
        self.sizes = _grouping(job, space)
        self.evaluator = job.evaluator(self.sizes.width)
        self.vectors = space.length // self.sizes.row_step
        trips = ceil_div(self.vectors, self.sizes.shares)
        self.trips = trips
        self.kept_trips = trips
        most = READ_KEPT if _only_reads(job, space) else KEPT_ELEMENTS
        if trips * self.sizes.width > most:
            again = len(stages_of(job.body, space).reductions) > 1
            again |= any(space.is_full(node) for node in job.body.written)
            kept = most // self.sizes.width
            self.kept_trips = kept if again and self.sizes.by_row else 0
        self.stash = self._stashed(trips - self.kept_trips)
        self.held_trips = self.kept_trips + (self.stash.trips if self.stash else 0)

    def _stashed(self, trips: int) -> RowStash | None:
        """Where the next trips of a row wait; None where there are none, or no memory for them.

        Groups that are to share a compute unit would take it from each other.
        """
        job, sizes = self.job, self.sizes
        alone = self.kept_trips and sizes.rows == 1 and not _only_reads(job, self.space)
        room = job.number("stash_memory", 0) if alone else 0
        nodes = stashable(job, self.space, sizes.width)
        a_trip = sizes.items * sizes.width * sum(node.element.bytes for node in nodes)
        trips = min(trips, room // a_trip if a_trip else 0)
        if not trips or not sizes.by_row:
            return None
        return RowStash(job, nodes, sizes.items, sizes.width, self.kept_trips, trips)

    def write(self) -> Launch:
        sizes, space, code = self.sizes, self.space, self.code
        groups = ceil_div(space.rows // sizes.row_width, sizes.rows)
        group = code.counter(kernel.GroupIdOp, 0, groups)
        place = code.counter(kernel.LocalIdOp, 0, sizes.items)
        self.own_row, self.share = sizes.places(place)
        self.place = place
        row = group * sizes.rows + self.own_row
        count = space.rows // sizes.row_width
        self.row_is_inside = code.is_below(row, count, 1)
        self.row = code.bounded(row, count) * sizes.row_width + lanes(sizes.row_width)
        if self.stash is not None:
            for trip in range(self.kept_trips, self.held_trips):
                self.stash.start(trip, self.place, self._indices(trip))
            code.effect(kernel.CommitCopiesOp, [])
        for stage, reductions in enumerate(stages_of(self.job.body, space).reductions):
            self.waits = self.stash is not None and stage == 0
            totals = meet(self.job, sizes, place, reductions, self._walk(reductions))
            for node, value in zip(reductions, totals, strict=True):
                total = total_of(code, node, value)
                self.evaluator.given[node] = lambda _, total=total: total
        self._results()
        return Launch((groups * sizes.items,), (sizes.items,))

    def _indices(self, trip: int) -> dict[Node, Indices]:
        """Where a trip's vectors of the inputs begin."""
        assert self.stash is not None
        element, _ = self._elements(trip)
        return {node: self.space.index_in(node, self.row, element) for node in self.stash.nodes}

    def _from_stash(self, trip: int) -> AbstractContextManager[None]:
        """Inside, inputs come from local memory."""
        assert self.stash is not None
        return self.stash.given(self.evaluator, trip, self.place, self._indices(trip))

    def _elements(self, trip: Index | int) -> tuple[Index, "SSAValue | bool"]:
        """The element a work-item sees in a trip, and whether the row has it."""
        code, sizes = self.code, self.sizes
        step = self.share + trip * sizes.shares
        inside = code.is_below(step, self.vectors, 1)
        return code.bounded(step, self.vectors) * sizes.row_step + lanes(sizes.row_step), inside

    def _walk(self, reductions: Sequence[Node]) -> list[SSAValue]:
        """A work-item's share of each reduction, all lanes combined."""
        code, sizes = self.code, self.sizes
        held = [start_of(code, node, sizes.width) for node in reductions]
        start = list(held)

        def trip(number: Index | int, held: Sequence[SSAValue]) -> list[SSAValue]:
            element, inside = self._elements(number)
            result: list[SSAValue] = []
            for node, value, nothing in zip(reductions, held, start, strict=True):
                operand = node.operands[0]
                index = self.space.index_in(operand, self.row, element)
                part = term(code, node, self.evaluator.lanes_at(operand, index))
                part = code.select(inside, part, nothing)
                result.append(combine(code, node.name, node.element, value, part))
            return result

        for number in range(self.kept_trips):
            held = trip(number, held)
        if self.waits and self.stash is not None:
            self.stash.finish()
        for number in range(self.kept_trips, self.held_trips):
            with self._from_stash(number):
                held = trip(number, held)
        trips = (self.held_trips, self.trips)
        held = long_loop(code, *trips, trip, held, are_sums(reductions), UNROLL)
        if not sizes.by_row:
            return list(held)
        return [
            across_lanes(code, node.name, node.element, value)
            for node, value in zip(reductions, held, strict=True)
        ]

    def _results(self) -> None:
        code, sizes, space = self.code, self.sizes, self.space
        written = list(enumerate(self.job.body.written))
        full = [(n, node) for n, node in written if space.is_full(node)]
        rest = [(n, node) for n, node in written if not space.is_full(node)]

        def trip(number: Index | int) -> None:
            element, inside = self._elements(number)

            def one() -> None:
                self.job.write(
                    self.evaluator,
                    [(n, node, space.index_in(node, self.row, element)) for n, node in full],
                )

            code.when(self.row_is_inside, lambda: code.when(inside, one))

        if full:
            for number in range(self.kept_trips):
                trip(number)
            for number in range(self.kept_trips, self.held_trips):
                with self._from_stash(number):
                    trip(number)
            code.each(self.held_trips, self.trips, trip, unroll=UNROLL)

        def row_results() -> None:
            self.job.write(
                self.evaluator.with_lanes(sizes.row_width),
                [(n, node, space.index_in(node, self.row, ZERO)) for n, node in rest],
            )

        if rest:
            first = code.is_below(self.share, 1, 1)
            code.when(self.row_is_inside, lambda: code.when(first, row_results))
