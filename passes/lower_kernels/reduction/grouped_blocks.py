"""Rows in blocks on a GPU: a work-group walks the rows of a block, a few side by side.

Neighbouring work-items have neighbouring vectors of a row, the same of each row, so that each keeps
the sums of its columns in registers. What is read of a row stays in registers until its results are
written. Rows side by side add up their own sums, which meet in local memory at the end.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from xdsl.ir import Attribute, SSAValue

from mgn.dialects import kernel
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.body import Indices, Node
from mgn.passes.kernels.index import ZERO, Index, constant, lanes, linear
from mgn.passes.kernels.rows import RowSpace, block_sums_of, stages_of
from mgn.passes.lower_kernels.core.long_sums import long_loop
from mgn.passes.lower_kernels.core.pure_code import memory_type
from mgn.passes.lower_kernels.core.scalar import combine
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.reduction.row_groups import reduce_across_items
from mgn.passes.lower_kernels.reduction.stage import Stage
from mgn.passes.schedules.reduction.row_blocks import AHEAD, TILES
from mgn.passes.schedules.reduction.row_groups import Grouping


def lower_grouped_blocks(job: Job, space: RowSpace) -> Launch:
    """Writes a kernel of rows in blocks for work-groups."""
    return _GroupedBlocks(job, space).write()


class _GroupedBlocks:
    def __init__(self, job: Job, space: RowSpace) -> None:
        self.job, self.space, self.code = job, space, job.code
        self.sizes, self.tiles = Grouping.of(job.schedule), job.entry(TILES)
        self.vectors = space.length // self.sizes.width
        self.stages = stages_of(job.body, space).reductions
        first = block_sums_of(job.body)[0]
        self.blocks, self.block_rows = first.shape[0], int(first.values["rows"])
        self.turns = ceil_div(self.block_rows, self.sizes.rows)
        self.ahead = bool(job.entry(AHEAD)) and self.turns > 1
        self.inputs = [
            node for node in job.body.inputs if node in job.body.nodes and space.is_full(node)
        ]
        self.meeting: dict[Attribute, SSAValue] = {}
        sums = block_sums_of(job.body)
        written = zip(job.body.written, job.outputs, strict=True)
        self.sums = [(node, buffer) for node, buffer in written if node in sums]

    def write(self) -> Launch:
        code, sizes = self.code, self.sizes
        groups = self.blocks * self.tiles
        group = code.counter(kernel.GroupIdOp, 0, groups)
        self.place = code.counter(kernel.LocalIdOp, 0, sizes.items)
        self.block, tile = group // self.tiles, group % self.tiles
        self.own_row, share = sizes.places(self.place)
        self.first = tile * (sizes.shares * sizes.kept) + share
        self.share = share
        nothing = [
            code.constant(0, memory_type(node.element), sizes.width)
            for _ in range(sizes.kept)
            for node, _ in self.sums
        ]
        added = [node.element.is_float for _ in range(sizes.kept) for node, _ in self.sums]
        first = self._read(constant(0)) if self.ahead else []
        held = long_loop(
            code, 0, self.turns, self._turn, [*nothing, *first], [*added, *(False for _ in first)]
        )
        self._write_sums(held[: len(nothing)])
        return Launch((groups * sizes.items,), (sizes.items,))

    def _turn(self, turn: Index, held: list[SSAValue]) -> list[SSAValue]:
        """Walks the next rows; gives the sums with theirs, and what was read of those behind."""
        code, sizes, space = self.code, self.sizes, self.space
        count = sizes.kept * len(self.sums)
        own, row = self._row_of(turn)
        inside = [
            code.is_below(own, self.block_rows, 1),
            code.is_below(row, space.rows, 1),
        ]
        self.row = code.bounded(row, space.rows)
        self.evaluator = self.job.evaluator(sizes.width)
        behind: list[SSAValue] = []
        if self.ahead:
            self._give(held[count:])
            behind = self._read((turn + 1).clamp(0, self.turns - 1))
        for reductions in self.stages:
            stage = Stage(code, reductions)
            parts = stage.start(sizes.width)
            for trip in range(sizes.kept):
                element, has = self._elements(trip)
                parts = stage.add(parts, self.evaluator, self._at(element), has)
            totals = reduce_across_items(
                self.job, sizes, self.place, reductions, stage.across_lanes(parts)
            )
            stage.give(self.evaluator, totals)
        result = list(held[:count])
        for trip in range(sizes.kept):
            self._trip(trip, inside, result)
        self._write_rows(inside)
        if len(self.stages) == 1 and sizes.shares > 1:
            code.barrier()
        return [*result, *behind]

    def _row_of(self, turn: Index) -> tuple[Index, Index]:
        """The row that a work-item sees in a turn: in its block, and in all."""
        own = turn * self.sizes.rows + self.own_row
        return own, self.block * self.block_rows + own

    def _read(self, turn: Index) -> list[SSAValue]:
        """What a work-item reads of its row in a turn."""
        row = self.code.bounded(self._row_of(turn)[1], self.space.rows)
        reader = self.job.evaluator(self.sizes.width)
        return [
            reader.lanes_at(node, self.space.index_in(node, row, self._elements(trip)[0]))
            for node in self.inputs
            for trip in range(self.sizes.kept)
        ]

    def _give(self, values: Sequence[SSAValue]) -> None:
        """Lets the evaluator have what was read of the row."""
        rest = iter(values)
        for node in self.inputs:
            known = {
                self.space.index_in(node, self.row, self._elements(trip)[0]): next(rest)
                for trip in range(self.sizes.kept)
            }
            self.evaluator.given[node] = partial(self._known, node, known)

    def _known(self, node: Node, known: Mapping[Indices, SSAValue], index: Indices) -> SSAValue:
        """An input at an index: what was read of the row, or else what is in memory."""
        value = known.get(index)
        if value is None:
            buffer = self.job.inputs[node.number]
            value = self.evaluator.load(buffer, linear(index, node.shape))
        return value

    def _elements(self, trip: int) -> tuple[Index, "SSAValue | bool"]:
        """The elements that a work-item sees in a trip, and whether the row has them."""
        code, sizes = self.code, self.sizes
        step = self.first + trip * sizes.shares
        has = code.is_below(step, self.vectors, 1)
        return code.bounded(step, self.vectors) * sizes.width + lanes(sizes.width), has

    def _at(self, element: Index) -> Callable[[Node], Indices]:
        """The index of a node's value for an element of the row."""
        return lambda node: self.space.index_in(node, self.row, element)

    def _trip(self, trip: int, inside: Sequence["SSAValue | bool"], result: list[SSAValue]) -> None:
        """Adds a trip's elements to the sums, and writes its results."""
        code, count = self.code, len(self.sums)
        element, has = self._elements(trip)
        at, tests = self._at(element), [*inside, has]
        for number, (node, _) in enumerate(self.sums, trip * count):
            source = node.operands[0]
            term = self.evaluator.lanes_at(source, at(source))
            for test in tests:
                nothing = code.constant(0, memory_type(node.element), self.sizes.width)
                term = code.select(test, term, nothing)
            result[number] = combine(code, "sum", node.element, result[number], term)
        if any(map(self.space.is_full, self.job.body.written)):
            self._where(tests, lambda: self.job.write_at(self.evaluator, at, self.space.is_full))

    def _write_rows(self, inside: Sequence["SSAValue | bool"]) -> None:
        """Writes what there is one of for each row."""
        if not any(map(self.space.is_of_row, self.job.body.written)):
            return
        narrow = self.evaluator.with_lanes(1)
        first = self.code.is_below(self.share, 1, 1)
        self._where(
            [*inside, first],
            lambda: self.job.write_at(narrow, self._at(ZERO), self.space.is_of_row),
        )

    def _where(self, tests: Sequence["SSAValue | bool"], body: Callable[[], None]) -> None:
        """Runs a body where all tests hold."""
        if not tests:
            body()
            return
        self.code.when(tests[0], lambda: self._where(tests[1:], body))

    def _write_sums(self, held: Sequence[SSAValue]) -> None:
        """Adds up the sums of rows side by side, and writes them."""
        code, count = self.code, len(self.sums)
        for number, value in enumerate(held):
            trip, (node, buffer) = number // count, self.sums[number % count]
            element, has = self._elements(trip)
            total = self._met(node, value)
            place = self.block * self.space.length + element.at_lane(0)
            first = code.is_below(self.own_row, 1, 1)
            self._where(
                [first, has],
                lambda total=total, place=place, buffer=buffer: code.store(
                    total, buffer, code.index(place), place.multiple
                ),
            )

    def _met(self, node: Node, value: SSAValue) -> SSAValue:
        """The sum over rows side by side, in the work-items of the first one."""
        code, sizes = self.code, self.sizes
        if sizes.rows == 1:
            return value
        type = memory_type(node.element)
        if type not in self.meeting:
            self.meeting[type] = code.local(type, sizes.items * sizes.width)
        buffer = self.meeting[type]
        half = sizes.rows // 2
        spot = self.place * sizes.width
        while half:
            code.store(value, buffer, code.index(spot), spot.multiple)
            code.barrier()
            other = (self.place + half * sizes.shares).clamp(0, sizes.items - 1) * sizes.width
            partner = code.load(buffer, code.index(other), sizes.width, other.multiple)
            value = combine(code, "sum", node.element, value, partner)
            code.barrier()
            half //= 2
        return value
