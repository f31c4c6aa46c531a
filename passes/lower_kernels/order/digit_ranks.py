"""A row is put in the order of a digit by groups whose sub-groups count in order, on a GPU.

A group walks a part of a row, tile by tile. Each of its sub-groups has a stretch of the tile, and
counts of its own in local memory: an element takes the count of its digit, and leaves one more.
Counts of all sub-groups, added up, say where each element goes in the tile, which is put together
in local memory. So neighbours go to neighbouring places of the row (Merrill and Grimshaw 2011).
The longer a tile is, the longer are the runs of a digit that are written to the row.
"""

from collections.abc import Callable

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i8, i32, i64
from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.index import Index, constant
from mgn.passes.lower_kernels.core.pure_code import lane_of, memory_type
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.order.digits import DigitRows
from mgn.passes.schedules.order import COUNTING, moved_values

ADDED = 16
"""Numbers that a work-item adds up where it needs the sum of those before its own."""

LOADED = 4
"""Numbers that a work-item reads at a time."""

BATCH = 4
"""Elements that a work-item reads at a time."""


def lower_ranks(job: Job) -> Launch:
    """Writes the kernel of groups that put rows, counted before, in the order of a digit."""
    return _Ranks(job).write()


class _Ranks:
    def __init__(self, job: Job) -> None:
        self.job, self.code, self.rows = job, job.code, DigitRows(job)
        code, rows = self.code, self.rows
        self.runs, self.all_digits = rows.runs, rows.digits
        self.items, self.each = job.entry("items"), job.entry("each")
        self.tile = self.items * self.each
        self.sub_groups = self.items // COUNTING
        self.counts = code.local(i32, self.sub_groups * rows.digits)
        self.totals, self.offsets, self.shifts = (code.local(i32, rows.digits) for _ in range(3))
        self.added = min(ADDED, rows.digits)
        self.sums = code.local(i32, rows.digits // self.added)
        self.digits = code.local(i8, self.tile)
        nodes = moved_values(rows.nodes)
        self.moved = {node: code.local(memory_type(node.element), self.tile) for node in nodes}
        self.zero = code.constant(0, i32)

    def write(self) -> Launch:
        code, runs = self.code, self.runs
        group = code.counter(kernel.GroupIdOp, 0, runs.all)
        self.item = code.counter(kernel.LocalIdOp, 0, self.items)
        self.row, self.part = group // runs.count, group % runs.count
        self.start = self.part * runs.run
        self.end = (self.start + runs.run).clamp(0, runs.length)
        self.rows.unless_in_order(self.row, self._move, self._leave)
        return Launch((runs.all * self.items,), (self.items,))

    def _leave(self) -> None:
        self.rows.leave(self.row, self.start, self.end, self.item, self.items)

    def _move(self) -> None:
        """Finds where the elements of each digit go, and moves them tile by tile."""
        self._each_digit(self._take_total)
        self._clear()
        self.code.barrier()
        self._add_up()
        self._each_digit(self._first_offset)
        self.code.each(0, ceil_div(self.runs.run, self.tile), self._move_tile)

    # Sums over digits

    def _each_digit(self, body: Callable[[Index], None]) -> None:
        """Runs a body for each digit, which work-items share."""
        code = self.code
        for step in range(ceil_div(self.all_digits, self.items)):
            number = self.item + step * self.items
            own = code.bounded(number, self.all_digits)
            code.when(code.is_below(number, self.all_digits, 1), lambda own=own: body(own))

    def _take_total(self, digit: Index) -> None:
        """How often a digit occurs in the row."""
        total = self.rows.sums(self.row, digit, constant(self.runs.count - 1))
        self.code.store(total, self.totals, self.code.index(digit))

    def _first_offset(self, digit: Index) -> None:
        """Elements of lower digits come first, and those of parts before this one."""
        before = self.rows.before(self.row, digit, self.part)
        first = self.rows.add(self._before(digit), before)
        self.code.store(first, self.offsets, self.code.index(digit))

    def _add_up(self) -> None:
        """Adds up the totals of some neighbouring digits each; a barrier is before and after."""
        code = self.code
        blocks = self.all_digits // self.added
        for step in range(ceil_div(blocks, self.items)):
            number = self.item + step * self.items

            def one(number: Index = number) -> None:
                own = code.bounded(number, blocks)
                found = self._neighbours(self.totals, own * self.added, self.added)
                total = found[0]
                for value in found[1:]:
                    total = self.rows.add(total, value)
                code.store(total, self.sums, code.index(own))

            code.when(code.is_below(number, blocks, 1), one)
        code.barrier()

    def _before(self, digit: Index) -> SSAValue:
        """The sum of the totals of lower digits."""
        block, place = digit // self.added, digit % self.added
        blocks = self.all_digits // self.added
        found = self._first(self._neighbours(self.sums, constant(0), blocks), block)
        own = self._neighbours(self.totals, block * self.added, self.added)
        return self.rows.add(found, self._first(own, place))

    def _first(self, values: list[SSAValue], count: Index) -> SSAValue:
        """The sum of the first few of some values."""
        code, total = self.code, self.zero
        limit = code.convert("index_cast", code.index(count), i32)
        for number, value in enumerate(values):
            counts = code.compare_integers("slt", code.constant(number, i32), limit)
            total = self.rows.add(total, code.select(counts, value, self.zero))
        return total

    def _neighbours(self, memory: SSAValue, first: Index, count: int) -> list[SSAValue]:
        code, values = self.code, list[SSAValue]()
        width = LOADED if count % LOADED == 0 else 1
        for step in range(0, count, width):
            place = first + step
            vector = code.load(memory, code.index(place), width, place.multiple)
            values += [lane_of(code, vector, lane) for lane in range(width)]
        return values

    # Tiles

    def _clear(self) -> None:
        """Sets the counts of all sub-groups to nothing."""
        count = self.sub_groups * self.all_digits
        for step in range(ceil_div(count, self.items)):
            place = self.item + step * self.items
            own = self.code.index(place)
            self.code.when(
                self.code.is_below(place, count, 1),
                lambda own=own: self.code.store(self.zero, self.counts, own),
            )

    def _move_tile(self, number: Index) -> None:
        """Moves the elements of a tile to their places."""
        code = self.code
        ranks = [self._ranks(number, batch) for batch in self._batches]
        code.barrier()
        self._each_digit(self._sub_groups_before)
        code.barrier()
        self._add_up()
        self._each_digit(self._place_digit)
        for batch, own in zip(self._batches, ranks, strict=True):
            code.barrier()
            self._gather(number, batch, own)
        code.barrier()
        self._clear()
        code.each(0, self.each, lambda step: self._put(number, step), unroll=BATCH)
        code.barrier()

    @property
    def _batches(self) -> list[range]:
        """The steps of a work-item that are read together. Barriers keep more from being read
        early, which would take registers, and so work-items, away.
        """
        return [range(first, first + BATCH) for first in range(0, self.each, BATCH)]

    def _ranks(self, number: Index, batch: range) -> list[SSAValue]:
        """How many elements with its digit are before each of a batch, of its sub-group's."""
        with self.code.forgetting():
            cells = [self.code.index(self._cell(self._digit(number, step))) for step in batch]
            return [self._take(cell) for cell in cells]

    def _gather(self, number: Index, batch: range, ranks: list[SSAValue]) -> None:
        """Puts the elements of a batch in order in local memory."""
        code, rows = self.code, self.rows
        evaluator = self.job.evaluator()
        found: list[tuple[SSAValue, SSAValue, list[SSAValue]]] = []
        for step, rank in zip(batch, ranks, strict=True):
            digit = self._digit(number, step)
            place = rows.add(code.load(self.counts, code.index(self._cell(digit))), rank)
            index = rows.index(self.row, self._element(number, step))
            values = [evaluator.at(node, index) for node in self.moved]
            found.append((digit, code.index(rows.place(place, self.tile)), values))
        for digit, place, values in found:
            code.store(code.convert("trunci", digit, i8), self.digits, place)
            for value, memory in zip(values, self.moved.values(), strict=True):
                code.store(value, memory, place)

    def _place(self, step: int) -> Index:
        """The place of a work-item's element in its sub-group's stretch of the tile."""
        stretch = COUNTING * self.each
        return self.item // COUNTING * stretch + self.item % COUNTING + step * COUNTING

    def _element(self, number: Index, step: int) -> Index:
        element = self.start + number * self.tile + self._place(step)
        return self.code.known(element.clamp(0, self.runs.length - 1), self.runs.length)

    def _digit(self, number: Index, step: int) -> SSAValue:
        """The digit of an element. What the row lacks has the last one, behind all others."""
        code, last = self.code, self.code.constant(self.all_digits - 1, i32)
        digit = self.rows.digit(self.row, self._element(number, step))
        return code.select(self._inside(number, self._place(step)), digit, last)

    def _inside(self, number: Index, place: Index) -> SSAValue | bool:
        """Whether the part has an element at a place of a tile."""
        code, runs = self.code, self.runs
        if runs.run % self.tile == 0 and runs.length % runs.run == 0:
            return True
        element = self.start + number * self.tile + place
        return code.compare_integers("slt", code.index(element), code.index(self.end))

    def _cell(self, digit: SSAValue) -> Index:
        """Where the sub-group counts a digit."""
        own = self.rows.place(digit, self.all_digits)
        return self.item // COUNTING * self.all_digits + own

    def _take(self, cell: SSAValue) -> SSAValue:
        """The number in a cell, to which each that names it adds 1 in turn."""
        bits = IntegerAttr(self.rows.node.values["bits"], i64)
        op = self.code.effect(
            kernel.CountInOrderOp,
            [self.counts, cell],
            result_types=[i32],
            properties={"bits": bits},
        )
        return op.results[0]

    def _sub_groups_before(self, digit: Index) -> None:
        """Turns what each sub-group has of a digit into what those before it have."""
        code, total = self.code, self.zero
        for number in range(self.sub_groups):
            place = code.index(digit + number * self.all_digits)
            count = code.load(self.counts, place)
            code.store(total, self.counts, place)
            total = self.rows.add(total, count)
        code.store(total, self.totals, code.index(digit))

    def _place_digit(self, digit: Index) -> None:
        """Puts the elements of a digit behind those of lower ones, in the tile and in the row."""
        code, rows = self.code, self.rows
        start, own = self._before(digit), code.index(digit)
        for number in range(self.sub_groups):
            place = code.index(digit + number * self.all_digits)
            code.store(rows.add(code.load(self.counts, place), start), self.counts, place)
        offset = code.load(self.offsets, own)
        code.store(code.binary(arith.SubiOp, offset, start), self.shifts, own)
        code.store(rows.add(offset, code.load(self.totals, own)), self.offsets, own)

    def _put(self, number: Index, step: Index) -> None:
        """Writes what is at a place of the sorted tile where it goes in the row."""
        code, rows, place = self.code, self.rows, step * self.items + self.item

        def write() -> None:
            own = code.index(place)
            digit = code.convert("extui", code.load(self.digits, own), i32)
            shift = code.load(self.shifts, code.index(rows.place(digit, self.all_digits)))
            target = rows.add(shift, code.convert("index_cast", own, i32))
            values = {node: code.load(memory, own) for node, memory in self.moved.items()}
            payloads = [values[node.operands[1]] for node in rows.nodes]
            rows.put(self.row, rows.place(target, self.runs.length), payloads)

        code.when(self._inside(number, place), write)
