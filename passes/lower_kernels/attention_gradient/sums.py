"""The gradients of queries, or of keys and values, as sums over what is walked.

For each panel of a tile a work-item computes a square of products: scores, and what g and values
give. Weights and the gradients of scores go to local memory, rows along vectors. Then it multiplies
them by the tile's lines, and adds to the sums of its rows: in registers, or, where a work-item is a
group by itself, in local memory, a panel of columns at a time. Sums are added up in one order.
"""

from functools import partial

from xdsl.ir import SSAValue

from mgn.passes.kernels.arithmetic import dividing_lanes
from mgn.passes.kernels.index import Index, constant
from mgn.passes.lower_kernels.attention_gradient.local_tiles import FIRST, SECOND
from mgn.passes.lower_kernels.attention_gradient.node import LSE, OWN
from mgn.passes.lower_kernels.attention_gradient.walk import (
    BLOCK,
    MOST_TILES,
    UNROLL,
    Vectors,
    Walking,
)
from mgn.passes.lower_kernels.core.long_sums import long_loop
from mgn.passes.lower_kernels.core.pure_code import lane_of


class Sums(Walking):
    """The kernel of one of the two gradients."""

    def write_results(self) -> None:
        attention, code = self.attention, self.code
        self.held = self._held_rows()
        start: Vectors = []
        if self.sizes.in_registers:
            columns = sum(map(self.sizes.columns, attention.sums))
            start = [self.zero] * (len(self.parts) * columns)
        else:
            self.tiles.clear_sums(self.zero)
        begin, end = self.tiles_seen()
        sums = long_loop(
            code,
            begin,
            end,
            lambda number, held: self._tile(number * self.sizes.tile_keys, held),
            start,
            [True] * len(start),
            block=BLOCK,
            most=MOST_TILES,
        )
        self._write_rows(sums)

    def _held_rows(self) -> list[tuple[SSAValue, SSAValue]]:
        """The log-sum-exp of the work-item's rows of queries, and their own sums."""
        if self.attention.of_keys:
            return []
        count = self.sizes.lanes
        return [
            (self.operands.of_row(LSE, row, count), self.operands.of_row(OWN, row, count))
            for row in self.rows
        ]

    def _tile(self, first: Index, sums: Vectors) -> Vectors:
        """Adds what a tile of lines contributes to the sums."""
        code, sizes = self.code, self.sizes
        self.copy_tile(first)
        code.each(0, sizes.panels, lambda panel: self._panel(first, panel * sizes.panel_keys))
        self.tiles.wait()
        if self.attention.hides and not self.attention.of_keys:
            self._make_finite(first)
        result: Vectors = []
        for which, size in enumerate(self.attention.sums):
            count = len(self.parts) * sizes.columns(size)
            start = len(result)
            result += self._add(which, sums[start : start + count])
        return result

    def _make_finite(self, first: Index) -> None:
        """Puts zeros in the place of what is not finite in a tile of keys that some row of the
        group does not see all of.
        """
        sizes = self.sizes
        tile = (first, sizes.tile_keys, self.first_row, sizes.tile_rows)

        def clean() -> None:
            self.tiles.make_finite(FIRST)
            self.tiles.wait()

        self.code.each(0, self.attention.hidden_in(self.code, *tile), lambda _: clean())

    def _panel(self, first: Index, panel: Index) -> None:
        """Weights of a panel of a tile, and the gradients of its scores, to local memory."""
        attention, code, sizes = self.attention, self.code, self.sizes
        scored = self.products(FIRST, panel)
        seen = self.products(SECOND, panel)
        for c in range(sizes.keys):
            line = panel + self.tiles.across(c)
            for part in self.parts:
                n = part * sizes.keys + c
                score, free, bias = self.score(scored[n], part, first + line)
                total, own = self._of_query(part, line)
                weight = attention.weight(code, score, total)
                change = attention.change(code, weight, seen[n], own, free)
                change = attention.unless_biased_away(code, change, bias)
                change = self.masked(change, part, first + line, 0.0)
                self.tiles.store_weight(0, line, part, change)
                if attention.of_keys:
                    self.tiles.store_weight(1, line, part, weight)

    def _of_query(self, part: int, line: Index) -> tuple[SSAValue, SSAValue]:
        """What the queries of scores have one of: the group's rows, or the one of a line."""
        if self.held:
            return self.held[part]
        return self.tiles.of_line(line)

    def _add(self, which: int, sums: Vectors) -> Vectors:
        """Adds weights times lines over a tile, to one of the sums: in registers, or in memory."""
        sizes, code, tiles = self.sizes, self.code, self.tiles
        size = self.attention.sums[which]
        columns = sizes.columns(size)
        if sizes.in_registers:
            return self._added(which, constant(0), sums)

        def panel(number: Index) -> None:
            found = self._added(which, number * columns, [self.zero] * (len(self.parts) * columns))
            for n, value in enumerate(found):
                part, column = divmod(n, columns)
                tiles.add_to_sum(which, number * columns + column, part, value)

        code.each(0, sizes.line(size) // columns if columns else 0, panel)
        return []

    def _added(self, which: int, first: Index, sums: Vectors) -> Vectors:
        """Sums of the work-item's columns from one on, with those of a tile added."""
        sizes, code, tiles = self.sizes, self.code, self.tiles
        columns = sizes.columns(self.attention.sums[which])
        if not columns:
            return sums

        def step(line: Index, held: Vectors) -> Vectors:
            weights = [tiles.load_weight(which, line, part) for part in self.parts]
            numbers_of: Vectors = []
            for start in range(0, columns, sizes.vector):
                vector = tiles.of_line_at(which, line, first + tiles.column(start))
                numbers_of += [lane_of(code, vector, lane) for lane in range(sizes.vector)]
            return [
                self.multiply_add_to(total, weights[n // columns], numbers_of[n % columns])
                for n, total in enumerate(held)
            ]

        return code.loop(0, sizes.tile_keys, step, sums, unroll=UNROLL)

    def _write_rows(self, sums: Vectors) -> None:
        """Writes the sums of the work-item's rows."""
        rest = sums
        for which, size in enumerate(self.attention.sums):
            count = len(self.parts) * self.sizes.columns(size)
            if not self.sizes.in_registers:
                self._write_from_memory(which)
            elif size:
                self._write_from_registers(which, rest[:count])
            rest = rest[count:]

    def _write_from_registers(self, which: int, sums: Vectors) -> None:
        """Writes one of the sums of the work-item's rows, a vector of columns at a time."""
        attention, sizes, code = self.attention, self.sizes, self.code
        size = attention.sums[which]
        columns, width = sizes.columns(size), dividing_lanes(size, sizes.vector)

        def put(row: Index, values: Vectors) -> None:
            for start in range(0, columns, width):
                rest = start % sizes.vector
                column = self.tiles.column(start - rest) + rest
                value = code.joined(values[start : start + width])
                self._write_inside(row, which, column, value, width)

        for part in self.parts:
            own = sums[part * columns : (part + 1) * columns]
            for lane in range(sizes.lanes):
                row = self.first_row + self.tiles.row(part) + lane
                values = [lane_of(code, value, lane) for value in own]
                inside = code.is_below(row, attention.own, 1)
                code.when(inside, partial(put, row, values))

    def _write_inside(
        self, row: Index, which: int, column: Index, value: SSAValue, width: int
    ) -> None:
        """Stores columns of a row where the head has them."""
        attention, code = self.attention, self.code
        count = attention.sums[which] // width
        own = code.bounded(row, attention.own)
        scaled = attention.times(code, value, attention.scale) if which == 0 else value
        code.when(
            code.is_below(column // width, count, 1),
            lambda: self.operands.write(
                own, which, code.bounded(column // width, count) * width, scaled
            ),
        )

    def _write_from_memory(self, which: int) -> None:
        attention, sizes, code = self.attention, self.sizes, self.code
        size = attention.sums[which]
        width = dividing_lanes(size, sizes.lanes)

        def one_row(number: Index) -> None:
            row = self.first_row + number

            def one(part: Index) -> None:
                column = part * width
                values = [self.tiles.sum_at(which, column + lane, number) for lane in range(width)]
                self._write_inside(row, which, column, code.joined(values), width)

            inside = code.is_below(row, attention.own, 1)
            code.when(inside, lambda: code.each(0, size // width, one))

        code.each(0, sizes.tile_rows, one_row)
