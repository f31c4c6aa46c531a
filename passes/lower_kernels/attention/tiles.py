"""Attention on a GPU: a work-group takes a tile of rows of a key head.

The tile's queries stay in local memory. For each tile of keys

- the group copies keys and values to local memory;
- each work-item computes a small square of scores in registers;
- neighbours reduce the largest score of each row;
- the weights are stored, transposed, over the keys, and multiplied by the values.

Where a part has one tile of keys, there is no loop.
"""

import math as numbers
from collections.abc import Callable
from functools import partial

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from mgn.passes.kernels.arithmetic import dividing_lanes
from mgn.passes.kernels.index import Index, constant, lanes
from mgn.passes.lower_kernels.attention.blocks import loop_over_keys
from mgn.passes.lower_kernels.attention.group_walk import GroupWalk
from mgn.passes.lower_kernels.attention.node import Attention, has_totals
from mgn.passes.lower_kernels.attention.places import Places
from mgn.passes.lower_kernels.attention.products import Operands
from mgn.passes.lower_kernels.attention.repair import Repair, is_spoilt, nothing_of
from mgn.passes.lower_kernels.attention.staging import Staging
from mgn.passes.lower_kernels.core.product import multiply_add
from mgn.passes.lower_kernels.core.pure_code import lane_count, lane_of, memory_type, shaped
from mgn.passes.lower_kernels.core.sub_groups import SUB_GROUP, can_shuffle, reduce_neighbours
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.schedules.attention.tiles import Tiling

UNROLL = 8
"""Steps of the loops over products that the device's compiler is asked to do at a time."""

Vectors = list[SSAValue]


def lower_attention_tiles(job: Job, attention: Attention) -> Launch:
    """Writes an attention kernel of work-groups."""
    return _Tiles(job, attention).write()


class _Tiles(GroupWalk):
    def __init__(self, job: Job, attention: Attention) -> None:
        self.sizes = Tiling.of(job.schedule, attention)
        super().__init__(job, attention, self.sizes)
        self.type = memory_type(attention.element)
        sizes, code = self.sizes, job.code
        self.queries = code.local(self.type, sizes.queries_size)
        self.keys = code.local(self.type, sizes.keys_size)
        self.values = code.local(self.type, sizes.tile_keys * sizes.width)
        self.row_parts = range(sizes.rows // sizes.row_vector)

    def write(self) -> Launch:
        attention, sizes, code = self.attention, self.sizes, self.code
        items = self.begin()
        self.own = Places(code, sizes, self.place)
        self.own_rows = [self._clamped(self.own.row(part)) for part in self.row_parts]
        self.limits = [attention.limit(row) for row in self.own_rows]
        self.starts = [attention.first(row) for row in self.own_rows]
        memory = (self.queries, self.keys, self.values)
        operands = Operands.of(self.job, attention, self.batch, self.head)
        self.staging = Staging(self.job, attention, self.own, operands, *memory)
        self.visited = begin, end = self.seen()
        begin = begin // sizes.tile_keys
        end = (end + (sizes.tile_keys - 1)) // sizes.tile_keys
        nothing = code.constant(-numbers.inf, self.type, sizes.row_vector)
        zero = code.constant(0, self.type, sizes.row_vector)
        count = len(self.row_parts)
        self.first_sum = 2 * count
        self.first_staged = self.first_sum + count * sizes.columns
        held = [*[nothing] * count, *[zero] * (self.first_staged - count)]
        single = self.staging.is_single
        first = self.part * attention.part_keys if single else begin * sizes.tile_keys
        staged = self.staging.read(first)
        self.staging.copy_queries(self.first_row)
        if single:
            held = self._tile(first, [*held, *staged])
        else:
            held = loop_over_keys(
                code,
                attention,
                begin,
                end,
                lambda number, held: self._tile_and_next(number * sizes.tile_keys, held),
                [*held, *staged],
                count,
                lambda factors: [*factors] * (1 + sizes.columns),
            )
        sums = held[self.first_sum : self.first_staged]
        largest, totals = held[:count], self._met_totals(held[count : self.first_sum])
        if attention.hides:
            sums = self._repaired(largest, totals, sums)
        if attention.in_parts:
            self._finish_part(largest, totals, sums)
        else:
            self._finish(largest, totals, sums)
        return Launch((items,), (sizes.items,))

    def _clamped(self, row: Index) -> Index:
        """A vector of rows; a row past the last one becomes the last."""
        sizes, attention = self.sizes, self.attention
        row = self.first_row + row + lanes(sizes.row_vector)
        return row.clamp(0, attention.rows - 1)

    # A tile of keys

    def _tile(
        self, first: Index, held: Vectors, read: Callable[[], Vectors] = lambda: []
    ) -> Vectors:
        """Adds what a tile of keys contributes to the rows' largest scores, totals and sums. What
        `read` reads meanwhile is returned behind them.
        """
        attention, code = self.attention, self.code
        count = len(self.row_parts)
        largest, totals = held[:count], held[count : self.first_sum]
        sums = held[self.first_sum : self.first_staged]
        code.barrier()
        self.staging.fill(first, held[self.first_staged :])
        code.barrier()
        scores = self._scores(first)
        own = [self.over(arith.MaxnumfOp, scores[part]) for part in self.row_parts]
        code.barrier()
        found = self._reduce_across_items(arith.MaxnumfOp, own)
        new, shifts, factors = self.raised(largest, found)
        weights = [
            [attention.power(code, score, shift, attention.lowered) for score in column]
            for column, shift in zip(scores, shifts, strict=True)
        ]
        for part in self.row_parts:
            for c, weight in enumerate(weights[part]):
                place = self.own.of_weights(self.own.key(c), self.own.row(part))
                stored = attention.multiplied(code, weight)
                code.store(stored, self.keys, code.index(place), place.multiple)
        totals = [
            multiply_add(code, attention.element, total, factor, self.over(arith.AddfOp, column))
            for total, factor, column in zip(totals, factors, weights, strict=True)
        ]
        code.barrier()
        staged = read()
        scaled = [
            code.binary(arith.MulfOp, value, factors[n % count]) for n, value in enumerate(sums)
        ]
        return [*new, *totals, *self._add_values(scaled), *staged]

    def _tile_and_next(self, first: Index, held: Vectors) -> Vectors:
        """Adds a tile, and reads the keys and values of the next one meanwhile."""
        return self._tile(first, held, lambda: self.staging.read(first + self.sizes.tile_keys))

    def _scores(self, first: Index) -> list[Vectors]:
        """The work-item's scores: for each vector of rows, one for each of its keys."""
        attention, sizes, code = self.attention, self.sizes, self.code
        size = sizes.parts * sizes.vector

        def step(part: Index, held: Vectors) -> Vectors:
            columns: list[Vectors] = []
            for own in self.row_parts:
                rows: Vectors = []
                for i in range(sizes.row_vector):
                    place = (self.own.row(own) + i) * size + part * sizes.vector
                    rows.append(self._load(self.queries, place, sizes.vector))
                columns.append([self._lane_of_rows(rows, lane) for lane in range(sizes.vector)])
            keys = [
                self._load(self.keys, self.own.of_key(self.own.key(c), part), sizes.vector)
                for c in range(sizes.keys)
            ]
            totals = list(held)
            for lane in range(sizes.vector):
                for n in range(len(totals)):
                    own, c = divmod(n, sizes.keys)
                    totals[n] = multiply_add(
                        code,
                        attention.element,
                        columns[own][lane],
                        lane_of(code, keys[c], lane),
                        totals[n],
                    )
            return totals

        zero = code.constant(0, self.type, sizes.row_vector)
        count = len(self.row_parts) * sizes.keys
        products = code.loop(0, sizes.parts, step, [zero] * count, unroll=UNROLL)
        return [
            [
                self._score(products[part * sizes.keys + c], part, first + self.own.key(c))
                for c in range(sizes.keys)
            ]
            for part in self.row_parts
        ]

    def _load(self, memory: SSAValue, place: Index, width: int) -> SSAValue:
        return self.code.load(memory, self.code.index(place), width, place.multiple)

    def _lane_of_rows(self, rows: Vectors, lane: int) -> SSAValue:
        """One lane of each row."""
        return self.code.joined(self._lanes(rows, lane))

    def _score(self, product: SSAValue, part: int, key: Index) -> SSAValue:
        attention, sizes, code = self.attention, self.sizes, self.code
        bias = None
        if attention.bias is not None:
            evaluator = self.job.evaluator(sizes.row_vector)
            own = code.bounded(key, attention.keys)
            row = self.own_rows[part]
            bias = attention.bias_values(evaluator, self.batch, self.head, row, own)
        score = attention.score(code, product, bias)
        return attention.masked(code, score, key, self.limits[part], self.starts[part])

    def _add_values(self, sums: Vectors) -> Vectors:
        """Adds weights times values over the tile's keys."""
        sizes, code = self.sizes, self.code
        column_parts = range(sizes.columns // sizes.column_vector)

        def step(key: Index, held: Vectors) -> Vectors:
            weights = [
                self._load(
                    self.keys, self.own.of_weights(key, self.own.row(part)), sizes.row_vector
                )
                for part in self.row_parts
            ]
            values = [
                self._load(
                    self.values,
                    key * sizes.width + self.own.column(part),
                    sizes.column_vector,
                )
                for part in column_parts
            ]
            result: Vectors = []
            for n, total in enumerate(held):
                column, part = divmod(n, len(self.row_parts))
                vector, lane = divmod(column, sizes.column_vector)
                value = lane_of(code, values[vector], lane)
                result.append(
                    multiply_add(code, self.attention.element, weights[part], value, total)
                )
            return result

        return code.loop(0, sizes.tile_keys, step, sums, unroll=UNROLL)

    # Rows

    def _reduce_across_items(self, cls: type[Operation], values: Vectors) -> Vectors:
        """The values that the work-items of a row have, reduced to one, in all of them."""
        sizes = self.sizes
        scalars = shaped(self.type, 1)
        if sizes.across <= SUB_GROUP and can_shuffle(self.job, sizes.items, [scalars]):
            return [self._reduce_in_registers(cls, value) for value in values]
        return self._reduce_in_memory(cls, values)

    def _reduce_in_registers(self, cls: type[Operation], value: SSAValue) -> SSAValue:
        code = self.code
        found: Vectors = []
        for lane in range(lane_count(value)):
            found += reduce_neighbours(
                code,
                self.own.item % SUB_GROUP,
                self.sizes.across,
                [lane_of(code, value, lane)],
                lambda _, own, partner: code.binary(cls, own, partner),
            )
        return self._lane_of_rows(found, 0)

    def _reduce_in_memory(self, cls: type[Operation], values: Vectors) -> Vectors:
        """The same through the keys' memory, which no work-item reads at this point."""
        sizes, code = self.sizes, self.code

        def place(across: Index | int, part: int) -> Index:
            line = self.own.row(part)
            return line + (across * sizes.tile_rows)

        for part, value in zip(self.row_parts, values, strict=True):
            target = place(self.own.across, part)
            code.store(value, self.keys, code.index(target), target.multiple)
        code.barrier()
        found: Vectors = []
        for part in self.row_parts:
            shares = [
                self._load(self.keys, place(across, part), sizes.row_vector)
                for across in range(sizes.across)
            ]
            found.append(self.over(cls, shares))
        code.barrier()
        return found

    def _met_totals(self, totals: Vectors) -> Vectors:
        self.code.barrier()
        return self._reduce_across_items(arith.AddfOp, totals)

    def _repaired(self, largest: Vectors, totals: Vectors, sums: Vectors) -> Vectors:
        """The sums. A vector of rows is computed again where one of its rows is spoilt."""
        code, count = self.code, len(self.row_parts)
        result = list(sums)
        for part in self.row_parts:
            own, total = sums[part::count], totals[part]
            nothing = code.constant(0, self.type, lane_count(total))
            for value in own:
                nothing = nothing_of(code, value, nothing)
            spoilt = is_spoilt(code, nothing, total)
            lanes_spoilt = [lane_of(code, spoilt, lane) for lane in range(lane_count(total))]
            result[part::count] = code.branch(
                self.over(arith.OrIOp, lanes_spoilt),
                lambda part=part: self._summed_anew(part, largest[part]),
                lambda own=own: own,
            )
        return result

    def _summed_anew(self, part: int, largest: SSAValue) -> Vectors:
        """The sums of a vector of rows, over the keys that each row sees."""
        attention, sizes, code = self.attention, self.sizes, self.code
        repair = Repair(self.job, attention, self.batch, self.head)
        shift, rows = attention.shift(code, largest), self.own_rows[part]

        def one_key(key: Index, held: Vectors) -> Vectors:
            product = repair.product(rows, key, sizes.row_vector)
            score = self._score(product, part, key)
            weight = attention.power(code, score, shift, attention.lowered)
            result: Vectors = []
            for n, total in enumerate(held):
                vector, lane = divmod(n, sizes.column_vector)
                column = code.bounded(self.own.column(vector) + lane, attention.width)
                term = repair.term(score, weight, repair.value(key, column))
                result.append(code.binary(arith.AddfOp, total, term))
            return result

        zero = code.constant(0, self.type, sizes.row_vector)
        first, end = self.visited
        return code.loop(
            first,
            end,
            lambda key, held: one_key(code.bounded(key, attention.keys), held),
            [zero] * sizes.columns,
        )

    def _finish(self, largest: Vectors, totals: Vectors, sums: Vectors) -> None:
        """Divides by the totals, and writes what follows, a vector of columns at a time. The first
        work-item of a row writes its log-sum-exp.
        """
        attention, code = self.attention, self.code
        factors = [attention.reciprocal(code, total) for total in totals]
        count = len(self.row_parts)
        scaled = [
            code.binary(arith.MulfOp, value, factors[n % count]) for n, value in enumerate(sums)
        ]

        def write(row: Index, part: int, lane: int) -> None:
            self._write_row(row, self._lanes(scaled[part::count], lane))
            if has_totals(self.job):
                most, total = self._lanes([largest[part], totals[part]], lane)
                own = (self.batch, self.head, row, most, total, attention.lowered)
                put = partial(attention.write_totals, self.job, *own)
                code.when(code.is_below(self.own.across, 1, 1), put)

        self._for_each_row(write)

    def _finish_part(self, largest: Vectors, totals: Vectors, sums: Vectors) -> None:
        """Writes the sums as they are. The first work-item of a row writes their scale."""
        attention, code, count = self.attention, self.code, len(self.row_parts)
        largest = [attention.natural(code, value) for value in largest]

        def write(row: Index, part: int, lane: int) -> None:
            self._write_row(row, self._lanes(sums[part::count], lane))
            stats = self._lanes([totals[part], largest[part]], lane)

            def put() -> None:
                for n, value in enumerate(stats):
                    self.store(row, constant(attention.width + n), value)

            code.when(code.is_below(self.own.across, 1, 1), put)

        self._for_each_row(write)

    def _lanes(self, values: Vectors, lane: int) -> Vectors:
        return [lane_of(self.code, value, lane) for value in values]

    def _for_each_row(self, write: Callable[[Index, int, int], None]) -> None:
        """Writes the work-item's rows, those past the last row left out."""
        attention, sizes, code = self.attention, self.sizes, self.code
        for part in self.row_parts:
            for lane in range(sizes.row_vector):
                row = self.first_row + self.own.row(part) + lane

                def put(row: Index = row, part: int = part, lane: int = lane) -> None:
                    write(code.bounded(row, attention.rows), part, lane)

                code.when(code.is_below(row, attention.rows, 1), put)

    def _write_row(self, row: Index, columns: Vectors) -> None:
        attention, sizes, code = self.attention, self.sizes, self.code
        width = dividing_lanes(attention.width, sizes.column_vector)
        for start in range(0, sizes.columns, width):
            part, offset = divmod(start, sizes.column_vector)
            column = self.own.column(part) + offset
            self.store_inside(row, column, code.joined(columns[start : start + width]))
