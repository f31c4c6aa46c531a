"""The main loop of products on matrix units: sub-groups multiply fragments, step by step.

In: the panels of both operands and how many blocks of the shared axis there are. Out: a
work-item's part of the sums of its sub-group's tile.

Three things go on at once. Later blocks are copied. The fragments of the next step are loaded; at
the end of a block, those of the next block's first step. The fragments loaded before are
multiplied. The last blocks have nothing left to copy: they are a second loop, so that the first one
need not test for it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.passes.kernels.index import Index, constant
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.core.long_sums import MOST_UNIT, UNIT_BLOCK, long_loop
from mgn.passes.lower_kernels.core.pure_code import lane_of
from mgn.passes.lower_kernels.product.shuffled_results import NEIGHBOURS, Shuffle
from mgn.passes.lower_kernels.staging.tensor_panels import EIGHT, PAIR, Panel
from mgn.passes.schedules.product.matrix_tiles import STEP_CHUNKS, SUB_GROUP, TensorTiling

INSTRUCTIONS = {"bf16": "m16n8k16_bf16", "f16": "m16n8k16_f16", "tf32": "m16n8k8_tf32"}
"""What operands are rounded to → the instruction that multiplies them."""

ROWS, COLUMNS = 16, 8
"""Rows and columns of an instruction's result."""


@dataclass(frozen=True)
class SubGroupProduct:
    """The product of one sub-group: where its tile begins, and its slice of each block.

    `place` is the work-item's number in its group.
    """

    code: Code
    sizes: TensorTiling
    name: str
    panels: tuple[Panel, Panel]
    place: Index
    row: Index
    column: Index
    slice: Index

    @property
    def steps(self) -> int:
        """Instructions along the shared axis of a block."""
        return self.sizes.chunks // STEP_CHUNKS // self.sizes.slices

    @property
    def transposed(self) -> bool:
        """Whether the right operand is the instruction's first one. The instruction then computes
        the transposed product.

        Where a line of local memory is one step of the shared axis, 32-bit numbers make whole
        fragments of the first operand only.
        """
        left, right = self.panels
        return right.spread and not left.spread

    @property
    def tiles(self) -> tuple[int, int]:
        """How many fragments of the instruction's first and second operand make the tile."""
        sizes = (self.sizes.rows, self.sizes.columns)
        first, second = reversed(sizes) if self.transposed else sizes
        return first // ROWS, second // COLUMNS

    @property
    def _ahead(self) -> int:
        """How many blocks copies are ahead of the product."""
        return self.sizes.stages - 1

    def begin(self, blocks: int) -> None:
        """Starts the copies of the first blocks. Those of the right operand, which may be weights,
        are under way while stages before this one end.
        """
        left, right = self.panels
        for number in range(min(self._ahead, blocks)):
            self._start(right, constant(number))
        self.code.await_stages()
        for number in range(self._ahead):
            if number < blocks:
                self._start(left, constant(number))
            self.code.effect(kernel.CommitCopiesOp, [])

    def sums(self, blocks: int) -> list[SSAValue]:
        """Multiplies all blocks, the first of which are on their way."""
        count = self.tiles[0] * self.tiles[1]
        ahead = self._ahead
        for number in range(min(ahead, blocks)):
            self._finish(constant(number), self._read(constant(number)))
        self._arrive()
        zero = self.code.constant(0, f32, 4)
        held = [zero] * count + self._fragments(constant(0), 0)
        last = max(blocks - ahead, 0)
        held = long_loop(
            self.code,
            0,
            last,
            lambda n, held: self._block(n, held, n + ahead),
            held,
            [n < count for n in range(len(held))],
            block=max(UNIT_BLOCK // self.steps, 1),
            most=MOST_UNIT // self.steps,
        )
        held = self.code.loop(last, blocks, lambda n, held: self._block(n, held, None), held)
        return held[:count]

    def _block(self, number: Index, held: list[SSAValue], later: Index | None) -> list[SSAValue]:
        """Multiplies one block; `held` are its sums so far and its first fragments."""
        count = self.tiles[0] * self.tiles[1]
        totals, ready = held[:count], held[count:]
        values = [] if later is None else self._read(later)
        parts = max(self.steps - 1, 1)
        for step in range(self.steps):
            last = step + 1 == self.steps
            following = [] if last else self._fragments(number, step + 1)
            if later is not None and step < parts:
                for panel in self.panels:
                    self._start(panel, later, step, parts)
            if step + 1 == parts:
                self.code.effect(kernel.CommitCopiesOp, [])
            if last:
                if later is not None:
                    self._finish(later, values)
                self._arrive()
                following = self._fragments(number + 1, 0)
            totals = self._multiply(totals, ready)
            ready = following
        return [*totals, *ready]

    def _arrive(self) -> None:
        """Waits until the next block is in local memory, for all work-items."""
        self.code.block.add_op(kernel.WaitCopiesOp(self.sizes.stages - 2))
        self.code.barrier()

    def _read(self, block: Index) -> list[list[SSAValue]]:
        return [[] if panel.kept else panel.read(block) for panel in self.panels]

    def _start(self, panel: Panel, block: Index, part: int = 0, parts: int = 1) -> None:
        """Starts a part of the copies of an operand that lies in memory as the unit takes it."""
        if panel.asynchronous:
            count = panel.pieces.turns
            turns = range(count * part // parts, count * (part + 1) // parts)
            panel.copy(block, panel.stage(block), [], turns)

    def _finish(self, block: Index, values: Sequence[list[SSAValue]]) -> None:
        """Stores the operands that were computed."""
        for panel, own in zip(self.panels, values, strict=True):
            if not panel.asynchronous and not panel.kept:
                panel.copy(block, panel.stage(block), own)

    def _fragments(self, block: Index, step: int) -> list[SSAValue]:
        """The fragments of one step, of the instruction's first operand and then of its second."""
        place = self.slice * self.steps + step
        left, right = self.panels
        own = [(left, self.row, self.sizes.rows), (right, self.column, self.sizes.columns)]
        return [
            fragment
            for sixteen, (panel, start, count) in zip(
                (True, False), reversed(own) if self.transposed else own, strict=True
            )
            for fragment in panel.fragments(panel.stage(block), start, count, place, sixteen)
        ]

    def _multiply(self, totals: Sequence[SSAValue], ready: Sequence[SSAValue]) -> list[SSAValue]:
        count, across = self.tiles
        first, second = reversed(self.panels) if self.transposed else self.panels
        rows = [first.rounded(value) for value in ready[:count]]
        columns = [second.rounded(value) for value in ready[count:]]
        result = list(totals)
        for i, a in enumerate(rows):
            for j, b in enumerate(columns):
                place = i * across + j
                op = kernel.MmaOp(INSTRUCTIONS[self.name], a, b, result[place])
                self.code.block.add_op(op)
                result[place] = op.result
        return result

    def results(
        self, totals: Iterable[tuple[Index, SSAValue]]
    ) -> Iterator[tuple[Index, Index, SSAValue]]:
        """Rows and columns in the group's tile of some of the work-item's sums, by their numbers,
        two columns at a time.
        """
        for number, total in totals:
            for half, (row, column) in enumerate(self.places(number)):
                lanes_of = (half, 2 + half) if self.transposed else (2 * half, 2 * half + 1)
                pair = self.code.joined([lane_of(self.code, total, n) for n in lanes_of])
                yield row, column, pair

    def places(self, number: Index) -> list[tuple[Index, Index]]:
        """The row, and the first of two columns, of either half of a sum of that number.

        Each quarter of a sub-group holds two neighbouring columns of two rows of eight.
        """
        left, right = self.panels
        lane, across = self.place % SUB_GROUP, self.tiles[1]
        first, second = number // across, number % across
        found: list[tuple[Index, Index]] = []
        for half in range(2):
            if self.transposed:
                row = left.own_place(second, lane % 4 * 2 + half, False)
                column = right.own_place(first * 2, lane // 4, True)
            else:
                row = left.own_place(first * 2 + half, lane // 4, True)
                column = right.own_place(second, lane % 4 * 2, False)
            found.append((self.row + row, self.column + column))
        return found

    def dealt_results(
        self, totals: Sequence[SSAValue], tiles: int
    ) -> Iterator[tuple[Index, Index, SSAValue]]:
        """The same in longer pieces, where columns are dealt over so many tiles of a row."""
        code, lane, across = self.code, self.place % SUB_GROUP, self.tiles[1]
        for number in range(0, len(totals), tiles):
            first, second = number // across, number % across
            column = lane % NEIGHBOURS * (PAIR * tiles) + second * EIGHT
            for half in range(2):
                row = lane // NEIGHBOURS + (2 * first + half) * EIGHT
                held = totals[number : number + tiles]
                piece = [lane_of(code, total, PAIR * half + n) for total in held for n in range(2)]
                yield self.row + row, self.column + column, code.joined(piece)

    def shuffled_results(
        self, totals: Sequence[SSAValue], tiles: int
    ) -> Iterator[tuple[Index, Index, SSAValue]]:
        """The same in longer pieces, by shuffles over so many tiles of a row."""
        code, lane, across = self.code, self.place % SUB_GROUP, self.tiles[1]
        exchange = Shuffle(code, lane, tiles)
        for number in range(0, len(totals), tiles):
            first, second = number // across, number % across
            for half in range(2):
                pairs = [
                    code.joined([lane_of(code, total, 2 * half + n) for n in range(2)])
                    for total in totals[number : number + tiles]
                ]
                row = lane // NEIGHBOURS + (2 * first + half) * EIGHT
                column = exchange.column + second * EIGHT
                yield self.row + row, self.column + column, exchange(pairs)
