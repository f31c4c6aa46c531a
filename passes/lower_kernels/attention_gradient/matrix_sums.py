"""The gradients of queries, or of keys and values, on a matrix unit.

A tile is read in two ways: its lines are columns of scores, and later steps of the sums. Weights
and the gradients of scores stay in the registers: the unit takes each as the sum of two numbers
(attention/weights.py).
"""

import math as numbers
from collections.abc import Callable

from xdsl.dialects import math
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.index import Index, constant
from mgn.passes.lower_kernels.attention.mask import of_both_rows
from mgn.passes.lower_kernels.attention.products import QUAD
from mgn.passes.lower_kernels.attention.weights import HELD, Weights
from mgn.passes.lower_kernels.attention_gradient.head_products import HeadProduct
from mgn.passes.lower_kernels.attention_gradient.matrix import (
    BLOCK,
    MOST_TILES,
    OWN_ROWS,
    MatrixWalking,
)
from mgn.passes.lower_kernels.attention_gradient.node import (
    LSE,
    OWN,
)
from mgn.passes.lower_kernels.core.long_sums import long_loop
from mgn.passes.lower_kernels.core.pure_code import lane_of, memory_type
from mgn.passes.lower_kernels.core.scalar import unary, widened
from mgn.passes.lower_kernels.staging.pieces import Pieces
from mgn.passes.lower_kernels.staging.tensor_panels import Panel, pair_of
from mgn.passes.schedules.attention.matrix import STAGES, UNIT_COLUMNS, UNIT_ROWS
from mgn.passes.schedules.product.matrix_tiles import CHUNK_BYTES
from mgn.passes.schedules.product.operand_copies import held_element

Vectors = list[SSAValue]


class MatrixSums(MatrixWalking):
    """The kernel of one of the two gradients."""

    def write_results(self) -> None:
        attention, code = self.attention, self.code
        self.weights = Weights(code, attention.element, self.name)
        totals, sent = self._of_own_rows()
        start = [code.constant(0, f32, HELD)] * sum(map(self._fragments_of, attention.sums))
        sums = long_loop(
            code,
            0,
            self.count,
            lambda turn, sums: self._tile(turn, totals, sent, sums),
            start,
            [True] * len(start),
            block=BLOCK,
            most=MOST_TILES,
        )
        self._write_rows(sums)

    def _fragments_of(self, size: int) -> int:
        """How many results of the unit make a row's columns: by pairs."""
        return ceil_div(size, UNIT_ROWS) * UNIT_ROWS // UNIT_COLUMNS

    def _of_own_rows(self) -> tuple[SSAValue | None, SSAValue | None]:
        """What own rows that are queries have one of."""
        if self.attention.of_keys:
            return None, None
        found = [
            of_both_rows(self.code, [self.operands.of_row(number, row, 1) for row in self.rows])
            for number in (LSE, OWN)
        ]
        return found[0], found[1]

    def _steps(self, which: int) -> Panel:
        """The same tile as steps of a sum."""
        sizes, attention = self.sizes.tile, self.attention
        numbers_of = (self.walked[which], self.walked[which])
        product = HeadProduct.of(attention, self.head, numbers_of, False)
        tile = (self.name, 1, self.line(which), self.length(which))
        own = (self.batch, self.place, self.job, constant(0), self.base(which), self.memory)
        return Panel(product, sizes.panel(sizes.keys), *tile, *own, as_columns=True)

    def _tile(
        self,
        turn: Index,
        totals: SSAValue | None,
        sent: SSAValue | None,
        sums: Vectors,
    ) -> Vectors:
        """Adds what a tile contributes to the rows' sums."""
        attention, code, first = self.attention, self.code, self.arrive(turn)
        free = [attention.score(code, value, None) for value in self.products(0, turn)]
        scores = self.mask.apply(first, free)
        seen = self.products(1, turn)
        weights: Vectors = []
        changes: Vectors = []
        for n, score in enumerate(scores):
            total, own = totals, sent
            if total is None or own is None:
                total, own = self._of_columns(turn, n)
            weight = attention.weight(code, score, total)
            weights.append(weight)
            changes.append(attention.change(code, weight, seen[n], own, free[n]))
        changes = self.mask.apply(first, changes, 0.0)
        if attention.hides and not attention.of_keys:
            self._make_finite(turn, first)
        count = self._fragments_of(attention.depth)
        result = self._add(0, turn, changes, sums[:count])
        return [*result, *(self._add(1, turn, weights, sums[count:]) if sums[count:] else [])]

    def _make_finite(self, turn: Index, first: Index) -> None:
        """Puts zeros in the place of what is not finite in a tile of keys that some row of the
        group does not see all of, once all have their scores of it.
        """
        code, sizes = self.code, self.sizes.tile
        width = CHUNK_BYTES // sizes.element_bytes
        pieces = Pieces(code, sizes.keys_size // width, sizes.items, self.place)
        element = held_element(self.name)

        def one(piece: Index) -> None:
            place = code.index(self.stage(turn) + piece * width)
            value = code.load(self.memory, place, width)
            wide = widened(code, value, element)
            infinity = code.constant(numbers.inf, f32, width)
            finite = code.compare_floats("olt", unary(code, math.AbsFOp, wide), infinity)
            zero = code.constant(0, memory_type(element), width)
            code.store(code.select(finite, value, zero), self.memory, place)

        def clean() -> None:
            code.barrier()
            code.each(0, pieces.turns, lambda n: pieces.inside(n, lambda: one(pieces.number(n))))
            code.barrier()

        hidden = self.attention.hidden_in(code, first, sizes.keys, self.first_row, sizes.rows)
        code.each(0, hidden, lambda _: clean())

    def _of_columns(self, turn: Index, n: int) -> tuple[SSAValue, SSAValue]:
        """What the queries of the work-item's columns of a result have one of."""
        code, keys = self.code, self.sizes.tile.keys
        place = turn % STAGES * keys + self.lane % QUAD * 2 + n * UNIT_COLUMNS
        found: Vectors = []
        for memory in self.one_of:
            pair = [code.load(memory, code.index(place + lane)) for lane in range(2)]
            found.append(code.joined([*pair, *pair]))
        return found[0], found[1]

    def _add(self, which: int, turn: Index, weights: Vectors, sums: Vectors) -> Vectors:
        """Adds weights times lines over a tile."""
        panel, count = self._steps(which), len(sums) * UNIT_COLUMNS
        for step, terms in enumerate(self.weights.terms(weights)):
            fragments = panel.operands(self.stage(turn), constant(0), count, constant(step))
            for term in terms:
                sums = [
                    self.multiply(term, fragment, total)
                    for fragment, total in zip(fragments, sums, strict=True)
                ]
        return sums

    def _write_rows(self, sums: Vectors) -> None:
        attention, code = self.attention, self.code

        def write(which: int) -> None:
            rest = sums
            for number, size in enumerate(attention.sums):
                count = self._fragments_of(size)
                self._write_row(which, number, rest[:count])
                rest = rest[count:]

        for which in range(OWN_ROWS):
            inside = code.is_below(self.own_rows[which], attention.own, 1)
            code.when(inside, self._of(write, which))

    @staticmethod
    def _of(write: Callable[[int], None], which: int) -> Callable[[], None]:
        return lambda: write(which)

    def _write_row(self, which: int, number: int, sums: Vectors) -> None:
        """Writes one of the sums of a row, two columns at a time."""
        attention, code = self.attention, self.code
        size = attention.sums[number]
        width = 2 if size % 2 == 0 else 1
        for n, value in enumerate(sums):
            pair = pair_of(code, value, 2 * which)
            if number == 0:
                pair = attention.times(code, pair, attention.scale)
            for lane in range(0, 2, width):
                column = self.lane % QUAD * 2 + (n * UNIT_COLUMNS + lane)
                own = pair if width == 2 else lane_of(code, pair, lane)
                inside = code.is_below(column // width, size // width, 1)
                known = code.bounded(column // width, size // width) * width

                def put(known: Index = known, own: SSAValue = own) -> None:
                    self.operands.write(self.rows[which], number, known, own)

                code.when(inside, put)
