"""The reduction template for GPUs: a work-group walks a few rows together.

Along rows, neighbouring work-items read neighbouring vectors, and short rows share a group. Across
rows, neighbouring work-items have neighbouring vectors of rows. Each work-item reduces its own part
of a row; a cross-item reduction follows (row_groups.py). As much of a row as fits is kept from one
stage to the next: in registers, and for long rows in local memory (row_stash.py). The rest is read
again.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.body import Indices, Node
from mgn.passes.kernels.index import ZERO, Index, lanes
from mgn.passes.kernels.rows import (
    RowSpace,
    row_space,
    stages_of,
)
from mgn.passes.kernels.sought import first_places, sought_by
from mgn.passes.lower_kernels.core.long_sums import long_loop
from mgn.passes.lower_kernels.core.pure_code import memory_type
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.reduction.row_groups import reduce_across_items
from mgn.passes.lower_kernels.reduction.stage import Stage
from mgn.passes.lower_kernels.staging.row_stash import RowStash
from mgn.passes.schedules.reduction.row_groups import Grouping, stashable

UNROLL = 8
"""How many steps of a loop over a row the device's compiler is asked to do at a time."""


def lower_grouped(job: Job) -> Launch:
    """Writes a reduction kernel of work-groups."""
    return _Grouped(job, row_space(job.body)).write()


class _Grouped:
    def __init__(self, job: Job, space: RowSpace) -> None:
        self.job, self.space, self.code = job, space, job.code
        self.sizes = Grouping.of(job.schedule)
        self.evaluator = job.evaluator(self.sizes.width)
        self.vectors = space.length // self.sizes.row_step
        self.trips = ceil_div(self.vectors, self.sizes.shares)
        self.kept_trips = self.sizes.kept
        self.stash = self._stash() if self.sizes.stashed else None
        self.held_trips = self.kept_trips + self.sizes.stashed
        self.noted = dict[Node, tuple[SSAValue, SSAValue]]()

    def _stash(self) -> RowStash:
        """The place in local memory for the trips of a row that registers do not keep."""
        sizes = self.sizes
        nodes = stashable(self.job.body, self.space, sizes.width)
        trips = (sizes.kept, sizes.stashed)
        return RowStash(self.job, nodes, sizes.items, sizes.width, *trips)

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
        met = dict[Node, tuple[SSAValue, SSAValue]]()
        stages = stages_of(self.job.body, space).reductions
        self.first_places = first_places(stages, space) if sizes.by_row else {}
        for number, reductions in enumerate(stages):
            self.waits = self.stash is not None and number == 0
            stage = Stage(code, reductions)
            parts = self._look(stage, met)
            totals = reduce_across_items(self.job, sizes, place, reductions, parts)
            met.update(zip(reductions, zip(parts, totals, strict=True), strict=True))
            stage.give(self.evaluator, totals)
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

    def _look(self, stage: Stage, met: Mapping[Node, tuple[SSAValue, SSAValue]]) -> list[SSAValue]:
        """A work-item's part of each reduction. One that seeks an extreme walks the row again only
        where its part before came to that, and not where its first place was noted; `met` holds
        parts and totals of stages before.
        """
        code, (node, *others) = self.code, stage.nodes
        if node in self.first_places:
            extreme = self.first_places[node]
            return self._place(stage, extreme, met[extreme][1])
        extreme = sought_by(node)
        if others or extreme is None or extreme not in met or not self.sizes.by_row:
            return self._walk(stage)
        part, total = met[extreme]
        if extreme.element.is_float:
            has_met = code.compare_floats("ueq", part, total)
        else:
            has_met = code.compare_integers("eq", part, total)
        return code.branch(has_met, lambda: self._walk(stage), lambda: stage.start(1))

    def _place(self, stage: Stage, extreme: Node, total: SSAValue) -> list[SSAValue]:
        """The first place of a work-item's elements that are the row's extreme."""
        code, sizes, (node,) = self.code, self.sizes, stage.nodes
        part, trip = self.noted[extreme]
        if extreme.element.is_float:
            is_nan = code.compare_floats("uno", part, part)
            same = code.binary(arith.OrIOp, code.compare_floats("oeq", part, total), is_nan)
        else:
            same = code.compare_integers("eq", part, total)
        type, step = memory_type(node.element), sizes.shares * sizes.width
        first = self.share * sizes.width + lanes(sizes.width)
        trip = trip if type == i32 else code.convert("extsi", trip, type)
        place = code.binary(arith.MuliOp, trip, code.constant(step, type, sizes.width))
        place = code.binary(arith.AddiOp, place, code.lanes_index(first, sizes.width, type))
        (start,) = stage.start(sizes.width)
        return stage.across_lanes([code.select(same, place, start)])

    def _walk(self, stage: Stage) -> list[SSAValue]:
        """A work-item's part of each reduction, all lanes combined. Of an extreme whose place is
        sought it notes the trip in which it came first, for each lane.
        """
        code, sizes = self.code, self.sizes
        held = stage.start(sizes.width)
        notes, count = stage.nodes[0] in self.first_places.values(), len(held)
        if notes:
            held.append(code.constant(0, i32, sizes.width))

        def trip(number: Index | int, held: Sequence[SSAValue]) -> list[SSAValue]:
            element, inside = self._elements(number)
            found = stage.add(held[:count], self.evaluator, self._at(element), inside)
            if notes:
                found.append(self._later(stage.nodes[0], held, found[0], number))
            return found

        for number in range(self.kept_trips):
            held = trip(number, held)
        if self.waits and self.stash is not None:
            self.stash.finish()
        for number in range(self.kept_trips, self.held_trips):
            with self._from_stash(number):
                held = trip(number, held)
        trips = (self.held_trips, self.trips)
        sums = stage.sums + [False] * notes
        held = long_loop(code, *trips, trip, held, sums, UNROLL)
        if notes:
            self.noted[stage.nodes[0]] = (held[0], held.pop())
        return stage.across_lanes(held) if sizes.by_row else held

    def _later(
        self, node: Node, held: Sequence[SSAValue], found: SSAValue, trip: Index | int
    ) -> SSAValue:
        """The trip in which an extreme came first, after one more; the first NaN is the last."""
        code, (before, noted) = self.code, held
        if node.element.is_float:
            changed = code.compare_floats("une", before, found)
            known = code.compare_floats("ord", before, before)
            changed = code.binary(arith.AndIOp, changed, known)
        else:
            changed = code.compare_integers("ne", before, found)
        return code.select(changed, code.convert("index_cast", code.index(trip), i32), noted)

    def _at(self, element: Index) -> Callable[[Node], Indices]:
        """The index of a node's value for an element of the row."""
        return lambda node: self.space.index_in(node, self.row, element)

    def _results(self) -> None:
        code, sizes, space = self.code, self.sizes, self.space
        full = [space.is_full(node) for node in self.job.body.written]

        def trip(number: Index | int) -> None:
            element, inside = self._elements(number)

            def one() -> None:
                self.job.write_at(self.evaluator, self._at(element), space.is_full)

            code.when(self.row_is_inside, lambda: code.when(inside, one))

        if any(full):
            for number in range(self.kept_trips):
                trip(number)
            for number in range(self.kept_trips, self.held_trips):
                with self._from_stash(number):
                    trip(number)
            code.each(self.held_trips, self.trips, trip, unroll=UNROLL)

        def row_results() -> None:
            narrow = self.evaluator.with_lanes(sizes.row_width)
            self.job.write_at(narrow, self._at(ZERO), space.is_of_row)

        if not all(full):
            first = code.is_below(self.share, 1, 1)
            code.when(self.row_is_inside, lambda: code.when(first, row_results))
