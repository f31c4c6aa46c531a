"""The log-sum-exp of the scores of queries.

Each work-item has the largest score of its rows, and a total relative to it, of the keys that it
walks; both meet at the end.
"""

import math as numbers
from functools import partial

from xdsl.dialects import arith, math
from xdsl.ir import SSAValue

from mgn.passes.kernels.index import Index
from mgn.passes.lower_kernels.attention_gradient.local_tiles import FIRST
from mgn.passes.lower_kernels.attention_gradient.walk import BLOCK, MOST_TILES, Vectors, Walking
from mgn.passes.lower_kernels.core.long_sums import loop_of_blocks
from mgn.passes.lower_kernels.core.pure_code import lane_of
from mgn.passes.lower_kernels.core.scalar import unary


class Totals(Walking):
    """The kernel of the log-sum-exp."""

    def write_results(self) -> None:
        code, sizes = self.code, self.sizes
        nothing = code.constant(-numbers.inf, self.type, sizes.lanes)
        start = [*[nothing] * len(self.parts), *[self.zero] * len(self.parts)]
        begin, end = self.tiles_seen()
        held = loop_of_blocks(
            code,
            begin,
            end,
            lambda number, held: self._score_tile(number * sizes.tile_keys, held),
            start,
            lambda _: start,
            self._joined,
            block=BLOCK,
            most=MOST_TILES,
        )
        self.tiles.wait()
        self._write_met(self._met(held))

    def _joined(self, held: Vectors, other: Vectors) -> Vectors:
        """Largest scores and totals of two parts of the rows' keys, as one."""
        code, count = self.code, len(self.parts)
        largest: Vectors = []
        totals: Vectors = []
        for part in range(count):
            new = code.binary(arith.MaxnumfOp, held[part], other[part])
            shift = self.attention.shift(code, new)
            total = self.zero
            for side in (held, other):
                factor = self.attention.weight(code, side[part], shift)
                total = self.multiply_add_to(total, side[count + part], factor)
            largest.append(new)
            totals.append(total)
        return [*largest, *totals]

    def _score_tile(self, first: Index, held: Vectors) -> Vectors:
        code, sizes = self.code, self.sizes
        self.copy_tile(first)
        return code.loop(
            0,
            sizes.panels,
            lambda panel, held: self._score_panel(first, panel * sizes.panel_keys, held),
            held,
        )

    def _score_panel(self, first: Index, panel: Index, held: Vectors) -> Vectors:
        """The same with the scores of a panel."""
        attention, sizes, code = self.attention, self.sizes, self.code
        products = self.products(FIRST, panel)
        largest: Vectors = []
        totals: Vectors = []
        for part in self.parts:
            scores = [
                self.score(
                    products[part * sizes.keys + c], part, first + panel + self.tiles.across(c)
                )[0]
                for c in range(sizes.keys)
            ]
            most = scores[0]
            for score in scores[1:]:
                most = code.binary(arith.MaxnumfOp, most, score)
            shift = attention.shift(code, most)
            total = self.zero
            for score in scores:
                total = code.binary(arith.AddfOp, total, attention.weight(code, score, shift))
            largest.append(most)
            totals.append(total)
        return self._joined(held, [*largest, *totals])

    def _met(self, held: Vectors) -> Vectors:
        """What all work-items of a row found, in the first one of them."""
        if self.sizes.across == 1:
            return held
        self.tiles.store_shares(held)
        self.tiles.wait()
        found = self.tiles.shares(0)
        for number in range(1, self.sizes.across):
            found = self._joined(found, self.tiles.shares(number))
        return found

    def _write_met(self, held: Vectors) -> None:
        attention, code, count = self.attention, self.code, len(self.parts)

        def one(row: Index, value: SSAValue) -> None:
            self.operands.write_total(code.bounded(row, attention.own), value)

        def put() -> None:
            for part in self.parts:
                most, total = held[part], held[count + part]
                value = unary(code, math.LogOp, total)
                value = code.binary(arith.AddfOp, value, most)
                for lane in range(self.sizes.lanes):
                    row = self.first_row + self.tiles.row(part) + lane

                    inside = code.is_below(row, attention.own, 1)
                    code.when(inside, partial(one, row, lane_of(code, value, lane)))

        code.when(code.is_below(self.tiles.number_across, 1, 1), put)
