"""Attention on a CPU: a work-item takes a block of rows of a key head, a few rows at a time.

For each block of keys it packs the keys, transposed so that vectors run along them, and the values.
For each tile of rows it then multiplies queries and keys in registers, takes powers, and adds
weighted values to the rows' sums. The sums stay in local memory between blocks.
"""

import math as numbers
from collections.abc import Callable, Sequence
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.passes.kernels.arithmetic import ceil_div, dividing_lanes
from mgn.passes.kernels.index import Index, constant, delinearised, lanes
from mgn.passes.kernels.long_chains import MOST_KEYS
from mgn.passes.lower_kernels.attention.blocks import BLOCK, FarSums
from mgn.passes.lower_kernels.attention.node import Attention, has_totals
from mgn.passes.lower_kernels.attention.packing import Packing
from mgn.passes.lower_kernels.attention.products import Operands
from mgn.passes.lower_kernels.attention.repair import Repair, is_spoilt, nothing_of
from mgn.passes.lower_kernels.core.product import add_products, multiply_add, tile_start
from mgn.passes.lower_kernels.core.pure_code import lane_of, memory_type
from mgn.passes.lower_kernels.core.scalar import across_lanes, of_all_lanes
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.schedules.attention.blocks import Blocking


def lower_rows(job: Job, attention: Attention) -> Launch:
    """Writes an attention kernel of work-items on their own."""
    return _Rows(job, attention).write()


class _Rows:
    def __init__(self, job: Job, attention: Attention) -> None:
        self.job, self.attention, self.code = job, attention, job.code
        self.sizes = Blocking.of(job.schedule, attention)
        self.type = memory_type(attention.element)
        sizes, code = self.sizes, job.code
        count = sizes.down * sizes.rows
        self.queries = code.local(self.type, count * max(sizes.depth, 1))
        self.keys = code.local(self.type, sizes.keys * max(sizes.depth, 1))
        self.values = code.local(self.type, sizes.keys * sizes.width)
        self.weights = code.local(self.type, sizes.keys * sizes.rows)
        self.sums = code.local(self.type, count * sizes.width)
        self.largest = code.local(self.type, count)
        self.totals = code.local(self.type, count)
        self.far = self._far_sums()
        self.tiles = ceil_div(attention.rows, sizes.rows)

    def write(self) -> Launch:
        attention, sizes, code = self.attention, self.sizes, self.code
        blocks = ceil_div(self.tiles, sizes.down)
        items = blocks * attention.kv_heads * prod(attention.batch)
        item = code.counter(kernel.GlobalIdOp, 0, items)
        block, other = item % blocks, item // blocks
        if attention.causal:
            block = block * -1 + (blocks - 1)
        self.head = other % attention.kv_heads
        self.batch = delinearised(other // attention.kv_heads, attention.batch)
        memory = (self.queries, self.keys, self.values)
        operands = Operands.of(self.job, attention, self.batch, self.head)
        self.packing = Packing(self.job, attention, sizes, operands, *memory)
        self.first_tile = block * sizes.down
        self.count: Index | int = sizes.down
        if self.tiles % sizes.down:
            self.count = (self.first_tile * -1 + self.tiles).clamp(1, sizes.down)
        code.each(0, self.count, self._begin)
        first_row = self._row(constant(0))
        last_tile = self.count - 1 if isinstance(self.count, Index) else constant(self.count - 1)
        last_row = code.bounded(self._row(last_tile) + (sizes.rows - 1), attention.rows)
        begin, end = attention.first(first_row), attention.limit(last_row)
        if self.far is not None:
            self.far.clear()
        code.each(
            begin // sizes.keys,
            (end + (sizes.keys - 1)) // sizes.keys,
            self._block,
        )
        if self.far is not None:
            self.far.finish()
        code.each(0, self.count, self._finish)
        return Launch((items,))

    def _row(self, tile: Index) -> Index:
        """The first row of a tile of this work-item."""
        number = self.code.bounded(self.first_tile + tile, self.tiles)
        return tile_start(self.code, number, self.sizes.rows, self.attention.rows)

    def _begin(self, tile: Index) -> None:
        """Copies a tile's queries; nothing is summed up yet."""
        attention, sizes, code = self.attention, self.sizes, self.code
        start = self._row(tile)

        def one_row(i: Index) -> None:
            row = code.bounded(start + i, attention.rows)
            number = tile * sizes.rows + i
            self.packing.copy_query(row, number)
            zero = code.constant(0, self.type, sizes.lanes)

            def clear(part: Index) -> None:
                place = number * sizes.width + part * sizes.lanes
                code.store(zero, self.sums, code.index(place))

            code.each(0, sizes.width // sizes.lanes, clear)
            nothing = code.constant(-numbers.inf, self.type)
            code.store(nothing, self.largest, code.index(number))
            code.store(code.constant(0, self.type), self.totals, code.index(number))

        code.each(0, sizes.rows, one_row)

    def _block(self, number: Index) -> None:
        """Adds what a block of keys contributes to all rows."""
        code, first = self.code, number * self.sizes.keys

        def add() -> None:
            self.packing.pack(first)
            code.each(0, self.count, lambda tile: self._tile(tile, first))

        code.when(self._is_seen(first), add)
        if self.far is not None:
            code.when(code.is_below((number + 1) % BLOCK, 1, 1), self.far.carry)

    def _is_seen(self, first: Index) -> SSAValue | bool:
        """Whether the bias shows a key of a block to a row: of a cache, none shows the places that
        are not written yet.
        """
        attention, sizes, code = self.attention, self.sizes, self.code
        if attention.bias is None:
            return True
        nothing = code.constant(-numbers.inf, self.type, sizes.lanes)
        yes, no = (code.constant(number, i32, sizes.lanes) for number in (1, 0))

        def look(row: Index, found: list[SSAValue]) -> list[SSAValue]:
            own = code.bounded(self._row(constant(0)) + row, attention.rows)

            def vector(number: Index, found: list[SSAValue]) -> list[SSAValue]:
                bias = self._bias(own, first + number * sizes.lanes)
                shown = code.compare_floats("une", bias, nothing)
                return [code.binary(arith.OrIOp, found[0], code.select(shown, yes, no))]

            return code.loop(0, sizes.keys // sizes.lanes, vector, found)

        rows = 1 if attention.same_bias else self.count * sizes.rows
        (found,) = code.loop(0, rows, look, [no])
        shown = of_all_lanes(code, "or", found)
        return code.compare_integers("ne", shown, code.constant(0, i32))

    def _far_sums(self) -> FarSums | None:
        """What waits where keys are very many."""
        attention, sizes, code = self.attention, self.sizes, self.code
        if attention.keys <= MOST_KEYS:
            return None
        return FarSums(
            code,
            attention,
            self.type,
            sizes.down * sizes.rows,
            sizes.width,
            sizes.lanes,
            (self.sums, self.totals, self.largest),
        )

    def _tile(self, tile: Index, first: Index) -> None:
        """Scores, powers and weighted values of a tile of rows and a block of keys."""
        attention, sizes, code = self.attention, self.sizes, self.code
        start = self._row(tile)
        rows = [code.bounded(start + i, attention.rows) for i in range(sizes.rows)]
        limits = [attention.limit(row) for row in rows]
        starts = [attention.first(row) for row in rows]
        seen = (first * -1 + limits[-1]).clamp(0, sizes.keys)
        nothing = code.constant(-numbers.inf, self.type, sizes.lanes)

        def panel(number: Index, largest: list[SSAValue]) -> list[SSAValue]:
            products = self._products(tile, number)
            result = list(largest)
            for i in range(sizes.rows):
                for j in range(sizes.key_vectors):
                    own = number * sizes.key_panel + j * sizes.lanes
                    score = self._score(
                        products[i * sizes.key_vectors + j],
                        rows[i],
                        first + own,
                        limits[i],
                        starts[i],
                    )
                    place = own + i * sizes.keys
                    code.store(score, self.weights, code.index(place))
                    larger = code.compare_floats("ogt", score, result[i])
                    result[i] = code.select(larger, score, result[i])
            return result

        panels = (seen + (sizes.key_panel - 1)) // sizes.key_panel
        found = code.loop(0, panels, panel, [nothing] * sizes.rows)
        factors, shifts = self._rescale(tile, found)
        self._powers(tile, seen, shifts, factors)
        self._add_values(tile, seen, factors)

    def _products(self, tile: Index, panel: Index) -> list[SSAValue]:
        """Queries of a tile times keys of a panel."""
        sizes, code = self.sizes, self.code
        base = panel * (sizes.depth * sizes.key_panel)
        own = tile * (sizes.rows * sizes.depth)

        def left(i: int, k: Index) -> SSAValue:
            return code.load(self.queries, code.index(own + i * sizes.depth + k))

        zero = code.constant(0, self.type, sizes.lanes)
        held = [zero] * (sizes.rows * sizes.key_vectors)
        return self._multiply(left, self.keys, base, sizes.key_vectors, sizes.depth, held)

    def _multiply(
        self,
        left: Callable[[int, Index], SSAValue],
        right: SSAValue,
        base: Index,
        vectors: int,
        steps: Index | int,
        held: Sequence[SSAValue],
    ) -> list[SSAValue]:
        """Adds up products of a tile's elements and a panel's vectors."""
        sizes, code = self.sizes, self.code

        def step(k: Index, held: list[SSAValue]) -> list[SSAValue]:
            parts = [
                code.load(
                    right,
                    code.index(base + k * (vectors * sizes.lanes) + j * sizes.lanes),
                    sizes.lanes,
                )
                for j in range(vectors)
            ]
            rows = (left(i, k) for i in range(sizes.rows))
            return add_products(code, self.attention.element, rows, parts, held)

        return code.loop(0, steps, step, held)

    def _score(
        self,
        product: SSAValue,
        row: Index,
        key: Index,
        limit: Index | int,
        start: Index | int,
    ) -> SSAValue:
        attention, sizes, code = self.attention, self.sizes, self.code
        bias = None if attention.bias is None else self._bias(row, key)
        score = attention.score(code, product, bias)
        numbered = key + lanes(sizes.lanes)
        return attention.masked(code, score, numbered, limit, start)

    def _bias(self, row: Index, key: Index) -> SSAValue:
        """A vector along keys; past the last one, any number."""
        attention, sizes, code = self.attention, self.sizes, self.code
        evaluator = self.job.evaluator(sizes.lanes)
        vectors, rest = divmod(attention.keys, sizes.lanes)

        def at(key: Index) -> SSAValue:
            return attention.bias_values(evaluator, self.batch, self.head, row, key)

        def whole() -> SSAValue:
            number = code.bounded(key // sizes.lanes, vectors)
            return at(number * sizes.lanes + lanes(sizes.lanes))

        def single() -> SSAValue:
            return at((key + lanes(sizes.lanes)).clamp(0, attention.keys - 1))

        if not rest or not vectors:
            return single() if rest else whole()
        inside = code.is_below(key // sizes.lanes, vectors, 1)
        return code.branch(inside, lambda: [whole()], lambda: [single()])[0]

    def _rescale(
        self, tile: Index, found: Sequence[SSAValue]
    ) -> tuple[list[SSAValue], list[SSAValue]]:
        """Each row's factor for what was summed before, and the shift of its scores."""
        attention, sizes, code = self.attention, self.sizes, self.code
        count = 1 << (sizes.rows - 1).bit_length()
        element = attention.element
        base = tile * sizes.rows
        before, largest = [], []
        for i in range(sizes.rows):
            old = code.load(self.largest, code.index(base + i))
            own = across_lanes(code, "max_reduce", element, found[i])
            larger = code.compare_floats("ogt", own, old)
            new = code.select(larger, own, old)
            code.store(new, self.largest, code.index(base + i))
            before.append(old)
            largest.append(new)
        rest = count - sizes.rows
        shift = attention.shift(code, code.joined([*largest, *largest[-1:] * rest]))
        factor = attention.power(code, code.joined([*before, *before[-1:] * rest]), shift)
        return (
            [lane_of(code, factor, i) for i in range(sizes.rows)],
            [lane_of(code, shift, i) for i in range(sizes.rows)],
        )

    def _powers(
        self,
        tile: Index,
        seen: Index,
        shifts: Sequence[SSAValue],
        factors: Sequence[SSAValue],
    ) -> None:
        """Scores become weights, whose sums join the rows' totals."""
        attention, sizes, code = self.attention, self.sizes, self.code

        def vector(number: Index, held: list[SSAValue]) -> list[SSAValue]:
            result: list[SSAValue] = []
            for i in range(sizes.rows):
                place = code.index(number * sizes.lanes + i * sizes.keys)
                score = code.load(self.weights, place, sizes.lanes)
                weight = attention.power(code, score, shifts[i], attention.lowered)
                code.store(attention.multiplied(code, weight), self.weights, place)
                result.append(code.binary(arith.AddfOp, held[i], weight))
            return result

        zero = code.constant(0, self.type, sizes.lanes)
        vectors = (seen + (sizes.lanes - 1)) // sizes.lanes
        sums = code.loop(0, vectors, vector, [zero] * sizes.rows)
        for i in range(sizes.rows):
            place = code.index(tile * sizes.rows + i)
            own = across_lanes(code, "sum", self.attention.element, sums[i])
            old = code.load(self.totals, place)
            code.store(
                multiply_add(code, self.attention.element, old, factors[i], own),
                self.totals,
                place,
            )

    def _add_values(self, tile: Index, seen: Index, factors: Sequence[SSAValue]) -> None:
        sizes, code = self.sizes, self.code

        def left(i: int, j: Index) -> SSAValue:
            return code.load(self.weights, code.index(j + i * sizes.keys))

        def panel(number: Index) -> None:
            base = number * (sizes.keys * sizes.column_panel)
            places = [
                code.index(
                    tile * (sizes.rows * sizes.width)
                    + i * sizes.width
                    + number * sizes.column_panel
                    + j * sizes.lanes
                )
                for i in range(sizes.rows)
                for j in range(sizes.column_vectors)
            ]
            zeros = [code.constant(0, self.type, sizes.lanes)] * len(places)
            sums = self._multiply(left, self.values, base, sizes.column_vectors, seen, zeros)
            for n, (place, value) in enumerate(zip(places, sums, strict=True)):
                old = code.load(self.sums, place, sizes.lanes)
                factor = code.spread(factors[n // sizes.column_vectors], sizes.lanes)
                value = multiply_add(code, self.attention.element, old, factor, value)
                code.store(value, self.sums, place)

        code.each(0, sizes.columns, panel)

    def _finish(self, tile: Index) -> None:
        attention, sizes, code = self.attention, self.sizes, self.code
        start = self._row(tile)

        def one_row(i: Index) -> None:
            row = code.bounded(start + i, attention.rows)
            number = tile * sizes.rows + i
            total = code.load(self.totals, code.index(number))
            if attention.hides:
                code.when(self._is_spoilt(number, total), lambda: self._repair(number, row))
            factor = attention.reciprocal(code, total)

            def put(column: Index, width: int) -> None:
                place = number * sizes.width + column
                value = code.load(self.sums, code.index(place), width)
                value = code.binary(arith.MulfOp, value, factor)
                attention.write(
                    self.job,
                    self.batch,
                    self.head,
                    row,
                    column + lanes(width),
                    value,
                )

            self.packing.along_columns(put)
            if has_totals(self.job):
                largest = code.load(self.largest, code.index(number))
                own = (self.batch, self.head, row, largest, total, attention.lowered)
                attention.write_totals(self.job, *own)

        code.each(0, sizes.rows, one_row)

    def _is_spoilt(self, number: Index, total: SSAValue) -> SSAValue:
        """Whether a row's sums are not finite though its total is."""
        sizes, code = self.sizes, self.code

        width = dividing_lanes(self.attention.width, sizes.lanes)

        def vector(part: Index, held: list[SSAValue]) -> list[SSAValue]:
            place = code.index(number * sizes.width + part * width)
            return [nothing_of(code, code.load(self.sums, place, width), held[0])]

        zero = code.constant(0, self.type, width)
        (found,) = code.loop(0, self.attention.width // width, vector, [zero])
        return is_spoilt(code, across_lanes(code, "sum", self.attention.element, found), total)

    def _repair(self, number: Index, row: Index) -> None:
        """Sums up a row's values anew, of the keys that it sees alone."""
        attention, sizes, code = self.attention, self.sizes, self.code
        repair = Repair(self.job, attention, self.batch, self.head)
        largest = code.load(self.largest, code.index(number))
        shift = attention.shift(code, largest)

        def place(column: Index) -> SSAValue:
            return code.index(number * sizes.width + column)

        def clear(column: Index, width: int) -> None:
            code.store(code.constant(0, self.type, width), self.sums, place(column))

        def one_key(key: Index) -> None:
            score = repair.score(row, key)
            weight = attention.power(code, score, shift, attention.lowered)

            def add(column: Index, width: int) -> None:
                old = code.load(self.sums, place(column), width)
                term = repair.term(score, weight, repair.value(key, column + lanes(width), width))
                code.store(code.binary(arith.AddfOp, old, term), self.sums, place(column))

            self.packing.along_columns(add)

        self.packing.along_columns(clear)
        first, limit = attention.first(row), attention.limit(row)
        code.each(first, limit, lambda key: one_key(code.bounded(key, attention.keys)))
