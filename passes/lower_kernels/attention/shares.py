"""Sub-groups that attend with the same rows, each to its share of the keys, meet at the end.

In: what each sub-group found of its keys: the largest score of each row, the total of the weights,
and the sums of weighted values as fragments. Out: the same of all keys, in the first two of the
sub-groups that have the same rows. Each of them writes one of a work-item's two rows.
"""

from dataclasses import dataclass
from functools import partial, reduce

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from mgn.passes.kernels.index import Index, constant
from mgn.passes.lower_kernels.attention.mask import of_both_rows
from mgn.passes.lower_kernels.attention.node import Attention
from mgn.passes.lower_kernels.attention.products import QUAD
from mgn.passes.lower_kernels.attention.weights import HELD
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.core.product import multiply_add
from mgn.passes.lower_kernels.core.pure_code import lane_of
from mgn.passes.schedules.attention.matrix import UNIT_COLUMNS, UNIT_ROWS, MatrixTiling
from mgn.passes.schedules.product.matrix_tiles import SUB_GROUP

Vectors = list[SSAValue]

OWN_ROWS = 2
"""Rows of a result that a work-item holds; the second is 8 further."""

SCALE = 2
"""Numbers of a row that say what its sums are relative to: the largest score, the total."""


@dataclass(frozen=True)
class Shares:
    """The meeting of the sub-groups of a group; `share` says which of them the work-item is in."""

    code: Code
    attention: Attention
    sizes: MatrixTiling
    share: Index
    place: Index

    def writes(self, which: int) -> SSAValue | bool:
        """Whether the sub-group writes the first or the second row."""
        if self.sizes.shares == 1:
            return True
        return self.code.compare_integers("eq", self.code.index(self.share), self.code.index(which))

    def combined(self, largest: Vectors, totals: Vectors, sums: Vectors) -> list[Vectors]:
        """The rows' largest scores, totals and sums over all shares."""
        if self.sizes.shares == 1:
            return [largest, totals, sums]
        code, attention = self.code, self.attention
        scales = self._scales(largest, totals)
        found = [self._whole(row) for row in scales]
        new, whole = [row[0] for row in found], [row[1] for row in found]
        shifts = [attention.shift(code, value) for value in new]
        factors = [
            attention.power(code, old, shift) for old, shift in zip(largest, shifts, strict=True)
        ]
        factor = of_both_rows(code, factors)
        sums = [code.binary(arith.MulfOp, value, factor) for value in sums]
        count = len(sums)
        handed = code.local(f32, self.sizes.met)

        for number, value in enumerate(sums):
            code.store(value, handed, self._spot(self.share, number, count), HELD)
        code.barrier()

        def added() -> Vectors:
            result: Vectors = []
            for number in range(count):
                spots = [self._spot(constant(n), number, count) for n in range(self.sizes.shares)]
                parts = [code.load(handed, spot, HELD, HELD) for spot in spots]
                result.append(reduce(partial(code.binary, arith.AddfOp), parts))
            return result

        is_first = code.is_below(self.share, OWN_ROWS, 1)
        return [new, whole, code.branch(is_first, added, lambda: sums)]

    def _scales(self, largest: Vectors, totals: Vectors) -> list[list[tuple[SSAValue, SSAValue]]]:
        """Of each of the work-item's rows, the largest score and the total in each share."""
        code, sizes = self.code, self.sizes
        met = code.local(f32, SCALE * sizes.rows * sizes.shares)
        lane, outer = self.place % SUB_GROUP, self.place // SUB_GROUP // sizes.shares
        rows = [
            outer * UNIT_ROWS + lane // QUAD + which * UNIT_COLUMNS for which in range(OWN_ROWS)
        ]

        def spot(share: Index, row: Index) -> Index:
            return (row * sizes.shares + share) * SCALE

        for row, *pair in zip(rows, largest, totals, strict=True):
            place = code.index(spot(self.share, row))
            code.store(code.joined(pair), met, place, SCALE)
        code.barrier()
        result: list[list[tuple[SSAValue, SSAValue]]] = []
        for row in rows:
            places = [code.index(spot(constant(n), row)) for n in range(sizes.shares)]
            pairs = [code.load(met, place, SCALE, SCALE) for place in places]
            result.append([(lane_of(code, pair, 0), lane_of(code, pair, 1)) for pair in pairs])
        return result

    def _whole(self, parts: list[tuple[SSAValue, SSAValue]]) -> tuple[SSAValue, SSAValue]:
        """The largest score of a row and its total over all shares."""
        code, attention = self.code, self.attention
        largest, _ = parts[0]
        for other, _ in parts[1:]:
            largest = code.binary(arith.MaxnumfOp, largest, other)
        shift = attention.shift(code, largest)
        whole = code.constant(0, f32)
        for own, total in parts:
            factor = attention.power(code, own, shift)
            whole = multiply_add(code, attention.element, total, factor, whole)
        return largest, whole

    def _spot(self, share: Index, number: int, count: int) -> SSAValue:
        """Where a sum of the work-item with the same rows in a share lies."""
        sizes = self.sizes
        square = SUB_GROUP * sizes.warps
        inner = self.place // SUB_GROUP // sizes.shares * SUB_GROUP + self.place % SUB_GROUP
        return self.code.index(((share * count + number) * square + inner) * HELD)
