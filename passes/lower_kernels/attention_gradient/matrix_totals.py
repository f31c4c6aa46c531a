"""The log-sum-exp of the scores of queries on a matrix unit.

Each work-item has the largest score of its two rows among its columns, and a total relative to it;
the four that share rows meet at the end.
"""

import math as numbers

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue

from mgn.passes.kernels.index import Index
from mgn.passes.lower_kernels.attention.mask import of_both_rows
from mgn.passes.lower_kernels.attention.products import QUAD
from mgn.passes.lower_kernels.attention.weights import HELD
from mgn.passes.lower_kernels.attention_gradient.matrix import (
    BLOCK,
    MOST_TILES,
    OWN_ROWS,
    MatrixWalking,
    Vectors,
)
from mgn.passes.lower_kernels.core.long_sums import loop_of_blocks
from mgn.passes.lower_kernels.core.product import multiply_add
from mgn.passes.lower_kernels.core.pure_code import lane_of
from mgn.passes.lower_kernels.core.scalar import unary
from mgn.passes.lower_kernels.core.sub_groups import reduce_neighbours


class MatrixTotals(MatrixWalking):
    """The kernel of the log-sum-exp."""

    def write_results(self) -> None:
        code = self.code
        nothing, zero = code.constant(-numbers.inf, f32), code.constant(0, f32)
        start = [*[nothing] * OWN_ROWS, *[zero] * OWN_ROWS]
        held = loop_of_blocks(
            code,
            0,
            self.count,
            self._tile,
            start,
            lambda _: start,
            self._joined,
            block=BLOCK,
            most=MOST_TILES,
        )
        most = self._met(arith.MaxnumfOp, held[:OWN_ROWS])
        shares = [
            self._scaled(*item) for item in zip(held[:OWN_ROWS], most, held[OWN_ROWS:], strict=True)
        ]
        totals = self._met(arith.AddfOp, shares)
        for which in range(OWN_ROWS):
            value = code.binary(arith.AddfOp, unary(code, math.LogOp, totals[which]), most[which])
            first = code.is_below(self.lane % QUAD, 1, 1)
            inside = code.is_below(self.own_rows[which], self.attention.own, 1)

            def put(row: Index = self.rows[which], value: SSAValue = value) -> None:
                self.operands.write_total(row, value)

            code.when(code.all_of([first, inside]), put)

    def _met(self, cls: type[Operation], values: Vectors) -> Vectors:
        """What the work-items of a row have, as one, in all of them."""
        code = self.code
        return reduce_neighbours(
            code, self.lane, QUAD, values, lambda _, own, other: code.binary(cls, own, other)
        )

    def _scaled(self, largest: SSAValue, new: SSAValue, total: SSAValue) -> SSAValue:
        """A total relative to a larger score."""
        shift = self.attention.shift(self.code, new)
        factor = self.attention.weight(self.code, largest, shift)
        return self.code.binary(arith.MulfOp, total, factor)

    def _joined(self, held: Vectors, other: Vectors) -> Vectors:
        """Largest scores and totals of two parts of the rows' keys, as one."""
        code = self.code
        pairs = zip(held[:OWN_ROWS], other[:OWN_ROWS], strict=True)
        new = [code.binary(arith.MaxnumfOp, *pair) for pair in pairs]
        totals = [
            code.binary(
                arith.AddfOp,
                self._scaled(held[row], new[row], held[OWN_ROWS + row]),
                self._scaled(other[row], new[row], other[OWN_ROWS + row]),
            )
            for row in range(OWN_ROWS)
        ]
        return [*new, *totals]

    def _tile(self, turn: Index, held: Vectors) -> Vectors:
        """The same with a tile of keys."""
        attention, code, first = self.attention, self.code, self.arrive(turn)
        scores = [attention.score(code, value, None) for value in self.products(0, turn)]
        scores = self.mask.apply(first, scores)
        largest = scores[0]
        for score in scores[1:]:
            largest = code.binary(arith.MaxnumfOp, largest, score)
        pairs = zip(held[:OWN_ROWS], self._by_row(arith.MaxnumfOp, largest), strict=True)
        new = [code.binary(arith.MaxnumfOp, *pair) for pair in pairs]
        shift = of_both_rows(code, [attention.shift(code, value) for value in new])
        total = code.constant(0, f32, HELD)
        for score in scores:
            total = code.binary(arith.AddfOp, total, attention.weight(code, score, shift))
        totals = [
            multiply_add(
                code,
                attention.element,
                held[OWN_ROWS + row],
                attention.weight(code, held[row], attention.shift(code, new[row])),
                own,
            )
            for row, own in enumerate(self._by_row(arith.AddfOp, total))
        ]
        return [*new, *totals]

    def _by_row(self, cls: type[Operation], value: SSAValue) -> Vectors:
        """The work-item's values of each row, reduced to one."""
        code = self.code
        parts = [lane_of(code, value, lane) for lane in range(HELD)]
        return [code.binary(cls, parts[2 * row], parts[2 * row + 1]) for row in range(OWN_ROWS)]
