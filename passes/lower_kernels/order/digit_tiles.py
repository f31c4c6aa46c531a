"""A row is put in the order of a digit by groups that walk its parts, tile by tile, on a GPU.

A group sorts a tile in local memory by the four lower bits of the digit, then by the others. In
each step a work-item counts its own neighbouring elements; counts in the order of bits and
work-items, added up, say where each element goes (Satish, Harris and Garland 2009). Neighbours in
the sorted tile go to neighbouring places of the row.
"""

from collections.abc import Callable
from math import ceil

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.body import INPUT, Node
from mgn.passes.kernels.index import Index, constant
from mgn.passes.lower_kernels.core.pure_code import lane_of, memory_type
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.order.digits import DigitRows

SPLIT = 4
"""Bits that a tile is sorted by in a step."""

PLACE_BITS = 16
"""Bits of a record that hold the place of its element in the tile; the digit is above them."""

STAGED_BYTES = 16 * 1024
"""The most local memory for what is moved, which else is read again."""

LOADED = 4
"""Records that a work-item reads at a time."""


def lower_tiles(job: Job) -> Launch:
    """Writes the kernel of groups that put rows in the order of a digit."""
    return _Tiles(job).write()


class _Tiles:
    def __init__(self, job: Job) -> None:
        self.job, self.code, self.rows = job, job.code, DigitRows(job)
        code, rows = self.code, self.rows
        self.runs = rows.runs
        self.items, self.each = job.entry("items"), job.entry("each")
        self.tile = self.items * self.each
        self.records = code.local(i32, self.tile)
        self.counts = code.local(i32, (1 << SPLIT) * self.items)
        self.shares = [code.local(i32, self.items) for _ in range(2)]
        self.starts = code.local(i32, rows.digits)
        self.offsets = code.local(i32, ceil_div(rows.digits, self.items) * self.items)
        self.staged = self._staged()
        self.zero = code.constant(0, i32)

    def _staged(self) -> dict[Node, SSAValue]:
        """Local memory for what is moved and lies in memory."""
        nodes = list(dict.fromkeys(node.operands[1] for node in self.rows.nodes))
        nodes = [node for node in nodes if _reads(node)]
        if sum(node.element.bytes for node in nodes) * self.tile > STAGED_BYTES:
            return {}
        return {node: self.code.local(memory_type(node.element), self.tile) for node in nodes}

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
        code, runs = self.code, self.runs
        tiles = ceil_div(runs.run, self.tile)
        self._each(self._padded, lambda digit: code.store(self.zero, self.offsets, digit))
        code.barrier()
        if self.rows.counted:
            self._each(self.rows.digits, self._take_total)
        else:
            code.each(0, tiles, self._count_tile)
        code.barrier()
        self._add_up(self.offsets, self._padded)
        code.barrier()
        if self.rows.counted and runs.count > 1:
            self._each(self.rows.digits, self._skip_parts)
            code.barrier()
        code.each(0, tiles, self._move_tile)

    @property
    def _padded(self) -> int:
        return ceil_div(self.rows.digits, self.items) * self.items

    def _each(self, count: int, body: Callable[[SSAValue], None]) -> None:
        """Runs a body for each of some numbers, which work-items share."""
        code = self.code
        for step in range(ceil_div(count, self.items)):
            number = self.item + step * self.items
            own = code.index(number)
            code.when(code.is_below(number, count, 1), lambda own=own: body(own))

    def _take_total(self, digit: SSAValue) -> None:
        """How often a digit occurs in the row."""
        total = self.rows.sums(self.row, self._digit(digit), constant(self.runs.count - 1))
        self.code.store(total, self.offsets, digit)

    def _skip_parts(self, digit: SSAValue) -> None:
        """Elements of parts before this one come first."""
        before = self.rows.before(self.row, self._digit(digit), self.part)
        found = self.code.load(self.offsets, digit)
        self.code.store(self.rows.add(found, before), self.offsets, digit)

    def _digit(self, digit: SSAValue) -> Index:
        return self.rows.place(self.code.convert("index_cast", digit, i32), self.rows.digits)

    def _count_tile(self, number: Index) -> None:
        """Adds what a tile has of each digit to the offsets."""
        self._sort(number, staged=False)
        self._find_starts()
        self._advance()

    def _move_tile(self, number: Index) -> None:
        """Moves the elements of a tile to their places."""
        self._sort(number, staged=True)
        self._find_starts()
        code, rows = self.code, self.rows
        for step in range(self.each):
            place = self._place(step)
            record = code.load(self.records, code.index(place))

            def put(place: Index = place, record: SSAValue = record) -> None:
                digit, source = self._parts_of(record)
                target = code.load(self.offsets, digit)
                target = rows.add(target, code.convert("index_cast", code.index(place), i32))
                start = code.load(self.starts, digit)
                target = code.binary(arith.SubiOp, target, start)
                payloads = self._payloads(number, source)
                rows.put(self.row, rows.place(target, self.runs.length), payloads)

            code.when(self._inside(number, place), put)
        code.barrier()
        if self.runs.run > self.tile:
            self._advance()

    def _payloads(self, number: Index, source: SSAValue) -> list[SSAValue]:
        """What is moved from a place of a tile."""
        code, rows = self.code, self.rows
        place = rows.place(source, self.tile)
        element = code.known(self.start + number * self.tile + place, self.runs.length)
        found: list[SSAValue] = []
        for node in rows.nodes:
            value, memory = node.operands[1], self.staged.get(node.operands[1])
            if memory is None:
                found.append(rows.evaluator.at(value, rows.index(self.row, element)))
            else:
                found.append(code.load(memory, code.index(place)))
        return found

    def _place(self, step: int) -> Index:
        """A place of the tile, next to that of the work-item's neighbour."""
        return self.item + step * self.items

    def _inside(self, number: Index, place: Index) -> SSAValue | bool:
        """Whether the part has an element at a place of a tile."""
        code, runs = self.code, self.runs
        if runs.run % self.tile == 0 and runs.length % runs.run == 0:
            return True
        element = self.start + number * self.tile + place
        return code.compare_integers("slt", code.index(element), code.index(self.end))

    def _parts_of(self, record: SSAValue) -> tuple[SSAValue, SSAValue]:
        """The digit of a record, as an index, and the place of its element."""
        code = self.code
        place = code.binary(arith.AndIOp, record, code.constant((1 << PLACE_BITS) - 1, i32))
        digit = code.binary(arith.ShRUIOp, record, code.constant(PLACE_BITS, i32))
        return code.index(self.rows.place(digit, self.rows.digits)), place

    def _sort(self, number: Index, staged: bool) -> None:
        """Puts the records of a tile in the order of their digits; what is missing is last."""
        code, rows = self.code, self.rows
        for step in range(self.each):
            place = self._place(step)
            element = self.start + number * self.tile + place
            element = code.known(element.clamp(0, self.runs.length - 1), self.runs.length)
            digit = rows.digit(self.row, element)
            last = code.constant(rows.digits - 1, i32)
            digit = code.select(self._inside(number, place), digit, last)
            high = code.binary(arith.ShLIOp, digit, code.constant(PLACE_BITS, i32))
            record = rows.add(high, code.convert("index_cast", code.index(place), i32))
            code.store(record, self.records, code.index(place))
            for node, memory in self.staged.items() if staged else ():
                value = rows.evaluator.at(node, rows.index(self.row, element))
                code.store(value, memory, code.index(place))
        code.barrier()
        for step in range(ceil(rows.node.values["bits"] / SPLIT)):
            self._split(PLACE_BITS + step * SPLIT)

    def _split(self, shift: int) -> None:
        """Puts the records in the stable order of some bits."""
        code, rows, bins = self.code, self.rows, 1 << SPLIT
        for number in range(bins):
            code.store(self.zero, self.counts, code.index(self.item + number * self.items))
        records = self._own_records()
        cells: list[SSAValue] = []
        ranks: list[SSAValue] = []
        for record in records:
            bits = code.binary(arith.ShRUIOp, record, code.constant(shift, i32))
            bits = code.binary(arith.AndIOp, bits, code.constant(bins - 1, i32))
            cell = code.index(rows.place(bits, bins) * self.items + self.item)
            rank = code.load(self.counts, cell)
            code.store(rows.add(rank, 1), self.counts, cell)
            cells.append(cell)
            ranks.append(rank)
        code.barrier()
        self._add_up(self.counts, bins * self.items)
        code.barrier()
        for record, cell, rank in zip(records, cells, ranks, strict=True):
            place = rows.place(rows.add(code.load(self.counts, cell), rank), self.tile)
            code.store(record, self.records, code.index(place))
        code.barrier()

    def _own_records(self) -> list[SSAValue]:
        """The records of a work-item: neighbours."""
        code = self.code
        width = LOADED if self.each % LOADED == 0 else 1
        records: list[SSAValue] = []
        for step in range(0, self.each, width):
            place = self.item * self.each + step
            vector = code.load(self.records, code.index(place), width, place.multiple)
            records += [lane_of(code, vector, lane) for lane in range(width)]
        return records

    def _add_up(self, memory: SSAValue, count: int) -> None:
        """Turns numbers in local memory into the sums of those before each."""
        code, rows, own = self.code, self.rows, count // self.items
        width = LOADED if own % LOADED == 0 else 1
        first = self.item * own
        values: list[SSAValue] = []
        for step in range(0, own, width):
            place = first + step
            vector = code.load(memory, code.index(place), width, place.multiple)
            values += [lane_of(code, vector, lane) for lane in range(width)]
        total = values[0]
        for value in values[1:]:
            total = rows.add(total, value)
        before = code.binary(arith.SubiOp, self._sum_up_to(total), total)
        sums: list[SSAValue] = []
        for value in values:
            sums.append(before)
            before = rows.add(before, value)
        for step in range(0, own, width):
            place = first + step
            vector = code.joined(sums[step : step + width])
            code.store(vector, memory, code.index(place), place.multiple)

    def _sum_up_to(self, value: SSAValue) -> SSAValue:
        """The sum of what the work-items have up to this one."""
        code = self.code
        source, target = self.shares
        own = code.index(self.item)
        code.store(value, source, own)
        code.barrier()
        reach = 1
        while reach < self.items:
            left = code.load(source, code.index(self.item.clamp(reach, self.items - 1) - reach))
            left = code.select(code.is_below(self.item, reach, 1), self.zero, left)
            value = self.rows.add(value, left)
            code.store(value, target, own)
            code.barrier()
            source, target = target, source
            reach *= 2
        return value

    def _find_starts(self) -> None:
        """Where the records of each digit begin in the sorted tile."""
        code = self.code
        for step in range(self.each):
            place = self._place(step)
            own = code.index(place)
            digit, _ = self._parts_of(code.load(self.records, own))
            left, _ = self._parts_of(
                code.load(self.records, code.index(place.clamp(1, self.tile - 1) - 1))
            )
            differs = code.compare_integers("ne", digit, left)
            first = code.is_below(place, 1, 1)
            assert first is not True, "a tile has several elements"
            begins = differs if first is False else code.binary(arith.OrIOp, differs, first)

            def note(own: SSAValue = own, digit: SSAValue = digit) -> None:
                code.store(code.convert("index_cast", own, i32), self.starts, digit)

            code.when(begins, note)
        code.barrier()

    def _advance(self) -> None:
        """Later elements of a digit go behind those of this tile."""
        code, rows = self.code, self.rows
        for step in range(self.each):
            place = self._place(step)
            digit, _ = self._parts_of(code.load(self.records, code.index(place)))
            right, _ = self._parts_of(
                code.load(self.records, code.index((place + 1).clamp(0, self.tile - 1)))
            )
            differs = code.compare_integers("ne", digit, right)
            inner = code.is_below(place, self.tile - 1, 1)
            assert inner is not False, "a tile has several elements"
            ends = differs
            if inner is not True:
                last = code.binary(arith.XOrIOp, inner, code.constant(1, inner.type))
                ends = code.binary(arith.OrIOp, differs, last)

            def note(place: Index = place, digit: SSAValue = digit) -> None:
                after = code.convert("index_cast", code.index(place + 1), i32)
                count = code.binary(arith.SubiOp, after, code.load(self.starts, digit))
                found = code.load(self.offsets, digit)
                code.store(rows.add(found, count), self.offsets, digit)

            code.when(ends, note)
        code.barrier()


def _reads(node: Node) -> bool:
    """Whether a value is made of what lies in memory."""
    return node.name == INPUT or any(map(_reads, node.operands))
