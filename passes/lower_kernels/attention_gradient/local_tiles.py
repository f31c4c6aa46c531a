"""Local memory of a group that computes a part of attention's gradient: its rows, the lines that it
walks, weights, and sums where they do not stay in registers.

In: an operation, sizes, the operands of a key head, a work-item's number in its group. Out: copies,
and places in local memory. Rows lie side by side, so that a vector holds a number of each; lines
lie one after the other, swizzled, so that work-items that read different ones meet no bank twice.
"""

from xdsl.dialects import arith, math
from xdsl.ir import SSAValue

from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.index import Counter, Index, of
from mgn.passes.lower_kernels.attention_gradient.node import (
    LSE,
    OWN,
    AttentionGradient,
    G,
    HeadOperands,
    K,
    Q,
    V,
)
from mgn.passes.lower_kernels.core.pure_code import INDEX, lane_count, lane_of, memory_type
from mgn.passes.lower_kernels.core.scalar import unary
from mgn.passes.lower_kernels.core.template import Job
from mgn.passes.lower_kernels.staging.pieces import Pieces
from mgn.passes.lower_kernels.staging.tile_copies import Lines
from mgn.passes.schedules.attention.gradient import Walk
from mgn.passes.schedules.attention.tiles import BANK_GROUPS

AT_ONCE = 4
"""Vectors of an operand that a work-item reads before it stores the first."""

FIRST, SECOND = 0, 1
"""The two products of a score: of queries and keys, and of g and values."""


class LocalTiles:
    """The local memory of a group, as the work-item `item` of it sees it."""

    def __init__(
        self,
        job: Job,
        attention: AttentionGradient,
        sizes: Walk,
        operands: HeadOperands,
        item: Index,
    ) -> None:
        self.attention, self.sizes, self.code = attention, sizes, job.code
        self.operands, self.item = operands, item
        self.down, self.number_across = item // sizes.across, item % sizes.across
        self.lengths = (attention.depth, attention.width)
        code, type = job.code, memory_type(attention.element)
        self.own = [code.local(type, self._room(n, sizes.tile_rows)) for n in self.lengths]
        self.lines = [code.local(type, self._room(n, sizes.tile_keys)) for n in self.lengths]
        weights = sizes.tile_keys * sizes.tile_rows
        self.weights = [code.local(type, weights) for _ in attention.sums]
        self.one_of: list[SSAValue] = []
        if attention.of_keys:
            self.one_of = [code.local(type, sizes.tile_keys) for _ in (LSE, OWN)]
        self.sums: list[SSAValue] = []
        if not sizes.in_registers:
            self.sums = [
                code.local(type, max(sizes.line(n), 1) * sizes.tile_rows) for n in attention.sums
            ]
        self.met: list[SSAValue] = []
        if attention.of_totals and sizes.across > 1:
            self.met = [code.local(type, sizes.across * sizes.tile_rows) for _ in range(2)]

    def _room(self, length: int, count: int) -> int:
        return max(self.sizes.line(length), self.sizes.vector) * count if length else 1

    def wait(self) -> None:
        """Until all work-items of the group have read, and written."""
        if self.sizes.items > 1:
            self.code.barrier()

    # The work-item's part of a tile

    def row(self, part: int) -> Index:
        """The first row, in the tile, of a vector of the work-item's rows."""
        sizes = self.sizes
        return self.down * sizes.lanes + part * sizes.down * sizes.lanes

    def across(self, c: int) -> Index:
        """One of the work-item's lines in a panel."""
        return self.number_across + c * self.sizes.across

    def column(self, start: int) -> Index:
        """The first of a vector of the work-item's columns."""
        sizes = self.sizes
        return self.number_across * sizes.vector + start * sizes.across

    # Copies

    def copy_rows(self, first_row: Index) -> None:
        """Copies the rows of a tile from one on."""
        code, sizes, attention = self.code, self.sizes, self.attention
        for which, number in enumerate((K, V) if attention.of_keys else (Q, G)):
            length = self.lengths[which]
            if not length:
                continue

            def read(line: Index, k: Index, width: int, number: int = number) -> SSAValue:
                row = code.bounded(first_row + line, attention.own)
                return self.operands.along(number, row, k, width)

            def store(line: Index, k: Index, value: SSAValue, which: int = which) -> None:
                for lane in range(lane_count(value)):
                    place = (k + lane) * sizes.tile_rows + line
                    code.store(lane_of(code, value, lane), self.own[which], code.index(place))

            size = ceil_div(length, sizes.vector) * sizes.vector
            vector = self._copied_at_once
            rows = Lines(code, sizes.tile_rows, length, size, vector, self.own[which], _nowhere)
            copy = rows.copied_by(sizes.items, self.item)
            copy.copy(rows.padded(read), store, AT_ONCE)

    def copy_lines(self, first: Index) -> None:
        """Copies the lines of a tile that is walked, from one on."""
        code, sizes, attention = self.code, self.sizes, self.attention
        for which, number in enumerate((Q, G) if attention.of_keys else (K, V)):
            length = self.lengths[which]
            if not length:
                continue

            def read(line: Index, k: Index, width: int, number: int = number) -> SSAValue:
                own = code.bounded(first + line, attention.walked)
                return self.operands.along(number, own, k, width)

            def place(line: Index, k: Index, which: int = which) -> Index:
                return self._line_place(which, line, k)

            size, vector = sizes.line(length), self._copied_at_once
            lines = Lines(code, sizes.tile_keys, length, size, vector, self.lines[which], place)
            copy = lines.copied_by(sizes.items, self.item)
            copy.copy(lines.padded(read), lines.store, AT_ONCE)
        if attention.of_keys:
            self._copy_one_of(first)

    def _copy_one_of(self, first: Index) -> None:
        """What the queries of a tile have one of; those past the last one see no key."""
        code, attention = self.code, self.attention
        pieces = Pieces(code, self.sizes.tile_keys, self.sizes.items, self.item)

        def one(turn: Index) -> None:
            line = code.bounded(pieces.number(turn), pieces.count)
            row = first + line
            own = code.bounded(row, attention.walked)
            total, sent = (self.operands.of_row(number, own, 1) for number in (LSE, OWN))
            none = code.constant(float("inf"), total.type)
            total = code.select(code.is_below(row, attention.walked, 1), total, none)
            for value, memory in zip((total, sent), self.one_of, strict=True):
                code.store(value, memory, code.index(line))

        code.each(0, pieces.turns, lambda turn: pieces.inside(turn, lambda: one(turn)))

    def make_finite(self, which: int) -> None:
        """Puts zeros in the place of what is not finite in the lines of a tile."""
        code, sizes, memory = self.code, self.sizes, self.lines[which]
        width = self._copied_at_once
        count = self._room(self.lengths[which], sizes.tile_keys)
        width = width if count % width == 0 else 1
        pieces = Pieces(code, count // width, sizes.items, self.item)
        type = memory_type(self.attention.element)
        infinity, zero = (code.constant(number, type, width) for number in (float("inf"), 0))

        def one(turn: Index) -> None:
            place = pieces.number(turn) * width
            value = self._load(memory, place, width)
            finite = code.compare_floats("olt", unary(code, math.AbsFOp, value), infinity)
            code.store(code.select(finite, value, zero), memory, code.index(place))

        code.each(0, pieces.turns, lambda turn: pieces.inside(turn, lambda: one(turn)))

    @property
    def _copied_at_once(self) -> int:
        """The most numbers of a line that are copied at once: a vector, or all lanes."""
        return self.sizes.vector if self.sizes.items > 1 else self.sizes.lanes

    # Products

    def of_rows(self, which: int, k: Index, part: int) -> SSAValue:
        """A number of each row of a vector of rows."""
        place = k * self.sizes.tile_rows + self.row(part)
        return self._load(self.own[which], place, self.sizes.lanes)

    def of_line_at(self, which: int, line: Index, k: Index) -> SSAValue:
        """A vector of a line."""
        return self._load(self.lines[which], self._line_place(which, line, k), self.sizes.vector)

    def of_line(self, line: Index) -> tuple[SSAValue, SSAValue]:
        """What the query of a line has one of."""
        total, own = (self._load(memory, line, 1) for memory in self.one_of)
        return total, own

    def _line_place(self, which: int, line: Index, k: Index) -> Index:
        sizes = self.sizes
        size = sizes.line(self.lengths[which])
        part = self._swizzled(k // sizes.vector, line, size // sizes.vector)
        return line * size + part * sizes.vector + k % sizes.vector

    # Weights

    def store_weight(self, which: int, line: Index, part: int, value: SSAValue) -> None:
        """Stores the weights of a line for a vector of rows, or what their scores change by."""
        place = self._weight_place(line, part)
        self.code.store(value, self.weights[which], self.code.index(place), place.multiple)

    def load_weight(self, which: int, line: Index, part: int) -> SSAValue:
        """The same as it was stored."""
        return self._load(self.weights[which], self._weight_place(line, part), self.sizes.lanes)

    def _weight_place(self, line: Index, part: int) -> Index:
        sizes = self.sizes
        parts = sizes.tile_rows // sizes.lanes
        own = self._swizzled(self.row(part) // sizes.lanes, line, parts)
        return line * sizes.tile_rows + own * sizes.lanes

    # Sums in local memory

    def clear_sums(self, zero: SSAValue) -> None:
        """Before the first tile."""
        code, sizes = self.code, self.sizes
        for memory, size in zip(self.sums, self.attention.sums, strict=True):
            count = sizes.line(size) * sizes.tile_rows // sizes.lanes

            def clear(number: Index, memory: SSAValue = memory) -> None:
                code.store(zero, memory, code.index(number * sizes.lanes))

            code.each(0, count, clear)

    def add_to_sum(self, which: int, column: Index, part: int, value: SSAValue) -> None:
        """Adds to a column of the sums of a vector of rows."""
        code, place = self.code, column * self.sizes.tile_rows + self.row(part)
        old = self._load(self.sums[which], place, self.sizes.lanes)
        code.store(code.binary(arith.AddfOp, old, value), self.sums[which], code.index(place))

    def sum_at(self, which: int, column: Index, row: Index) -> SSAValue:
        """One number of the sums."""
        return self._load(self.sums[which], column * self.sizes.tile_rows + row, 1)

    # Shares that meet

    def store_shares(self, held: list[SSAValue]) -> None:
        """Stores what the work-item found of its rows, two numbers of each."""
        count = len(held) // 2
        for n, value in enumerate(held):
            memory, part = self.met[n // count], n % count
            place = self.number_across * self.sizes.tile_rows + self.row(part)
            self.code.store(value, memory, self.code.index(place), place.multiple)

    def shares(self, number: int) -> list[SSAValue]:
        """What one of the work-items that share the rows found."""
        sizes = self.sizes
        parts = range(sizes.rows // sizes.lanes)
        return [
            self._load(memory, self.row(part) + number * sizes.tile_rows, sizes.lanes)
            for memory in self.met
            for part in parts
        ]

    def _load(self, memory: SSAValue, place: Index, width: int) -> SSAValue:
        return self.code.load(memory, self.code.index(place), width, place.multiple)

    def _swizzled(self, part: Index, line: Index, parts: int) -> Index:
        """The swizzled place of a vector in a line of so many; a single work-item needs none."""
        code = self.code
        among = min(parts & -parts, BANK_GROUPS)
        if among <= 1 or self.sizes.items == 1:
            return part
        mask = code.constant(among - 1, INDEX)
        low = code.pure(arith.AndIOp, [code.index(line), mask], INDEX)
        value = code.pure(arith.XOrIOp, [code.index(part), low], INDEX)
        return of(Counter(value, 0, parts - 1))


def _nowhere(line: Index, k: Index) -> Index:
    """The place of what is stored number by number."""
    raise AssertionError((line, k))
