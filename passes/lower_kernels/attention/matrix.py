"""Attention on a matrix unit: a work-group takes a tile of rows of a key head, a sub-group 16 rows.

Where there are few rows, several sub-groups have the same ones, and a share of each tile's keys
(shares.py). Queries, keys and values are numbers that the unit multiplies, so that their products
are exact in f32. A sub-group keeps its queries, its scores and its rows' sums in registers; copies
of the next tile of keys and values are under way while one is multiplied. Weights are f32: the unit
takes each as the sum of two numbers. So the relative error of a weight is 2^-16 at most. In f16,
whose exponents are few, an error of 2^-37 of the row's largest weight is added. Weights that the
operation rounds to bf16 are one number of a unit that takes bf16. Rows that hidden values spoil are
summed up anew on the plain units (fragment_repair.py).
"""

import math as numbers
from collections.abc import Callable
from functools import partial

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue

from mgn.dialects import kernel
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.index import Index, constant
from mgn.passes.lower_kernels.attention.blocks import loop_over_keys
from mgn.passes.lower_kernels.attention.fragment_repair import FragmentRepair
from mgn.passes.lower_kernels.attention.group_walk import GroupWalk
from mgn.passes.lower_kernels.attention.mask import FragmentMask, Seen, of_both_rows
from mgn.passes.lower_kernels.attention.node import Attention, has_totals
from mgn.passes.lower_kernels.attention.products import QUAD, Scores, Sums
from mgn.passes.lower_kernels.attention.repair import Repair, is_spoilt, nothing_of
from mgn.passes.lower_kernels.attention.shares import OWN_ROWS, Shares
from mgn.passes.lower_kernels.attention.weights import HELD, Weights
from mgn.passes.lower_kernels.core.product import multiply_add
from mgn.passes.lower_kernels.core.pure_code import lane_count, lane_of, memory_type
from mgn.passes.lower_kernels.core.sub_groups import reduce_neighbours
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.product.sub_group_product import INSTRUCTIONS
from mgn.passes.lower_kernels.staging.tensor_panels import Panel, pair_of
from mgn.passes.schedules.attention.matrix import STAGES, UNIT_COLUMNS, UNIT_ROWS, MatrixTiling
from mgn.passes.schedules.product.matrix_tiles import SUB_GROUP
from mgn.passes.schedules.product.operand_copies import held_element

UNROLL = 4
"""Steps of a product that is summed up anew that the device's compiler is asked to do at a time."""

Vectors = list[SSAValue]


class MatrixAttention(GroupWalk):
    """An attention kernel whose operands are rounded to a type of the matrix unit."""

    def __init__(self, job: Job, attention: Attention, name: str, sizes: MatrixTiling) -> None:
        super().__init__(job, attention, sizes)
        self.name, self.sizes = name, sizes
        self.paired = name == "tf32"
        self.weights = Weights(job.code, attention.element, name)
        self.exponent = self.weights.raised or attention.lowered
        self.memory = self.code.local(memory_type(held_element(name)), self.sizes.memory)
        self.tiles = self.sizes.own_keys // UNIT_COLUMNS
        wide = ceil_div(attention.width, UNIT_ROWS) * UNIT_ROWS
        self.columns = min(wide, self.sizes.width_line) // UNIT_COLUMNS

    def write(self) -> Launch:
        """Writes the kernel."""
        attention, sizes, code = self.attention, self.sizes, self.code
        items = self.begin()
        self.lane = self.place % SUB_GROUP
        sub_group = self.place // SUB_GROUP
        self.share, self.own_row = sub_group % sizes.shares, sub_group // sizes.shares * UNIT_ROWS
        own = self.own_row + self.lane // QUAD
        self.own_rows = [self.first_row + own + which * 8 for which in range(OWN_ROWS)]
        self.rows = [code.bounded(row, attention.rows) for row in self.own_rows]
        self.mask = FragmentMask(
            code,
            Seen.of(attention),
            self.rows,
            self.lane,
            sizes.own_keys,
            sizes.keys,
            self.paired,
        )
        self.scores = Scores.of(attention, self.head, self.paired)
        self.sums = Sums.of(attention, self.head)
        self.first_tile, self.count = self._visited()
        queries = self.queries()
        nothing, zero = code.constant(-numbers.inf, f32), code.constant(0, f32)
        none = code.constant(0, f32, HELD)
        held = [*[nothing] * OWN_ROWS, *[zero] * OWN_ROWS, *[none] * self.columns]
        held = self._walk(queries, held)
        largest, sums = held[:OWN_ROWS], held[2 * OWN_ROWS :]
        totals = [
            self._reduce_across_items(arith.AddfOp, total)
            for total in held[OWN_ROWS : 2 * OWN_ROWS]
        ]
        self.shares = Shares(code, attention, sizes, self.share, self.place)
        found = self.shares.combined(largest, totals, sums)
        if attention.in_parts:
            self._finish_part(*found)
        else:
            self._finish(*found)
        return Launch((items,), (sizes.items,))

    def _walk(self, queries: Vectors, held: Vectors) -> Vectors:
        """What all tiles of keys contribute. A single one needs no loop: its mask says what of it
        is seen.
        """
        code, attention = self.code, self.attention
        if attention.keys <= self.sizes.keys:
            self.arrive()
            return self._added(constant(0), queries, held)
        return loop_over_keys(
            code,
            attention,
            0,
            self.count,
            lambda turn, held: self._tile(turn, queries, held),
            held,
            OWN_ROWS,
            lambda factors: [*factors, *[of_both_rows(code, factors)] * self.columns],
        )

    def _visited(self) -> tuple[Index, Index]:
        """The first tile of keys that some row of the group sees, and how many there are."""
        attention, sizes, code = self.attention, self.sizes, self.code
        begin, end = self.seen()
        first_tile, tiles = begin // sizes.keys, ceil_div(attention.keys, sizes.keys)
        count = (end + (sizes.keys - 1)) // sizes.keys - first_tile
        return code.bounded(first_tile, tiles), count.clamp(0, tiles)

    # Operands

    def panels(self, turn: Index) -> tuple[Panel, Panel]:
        """The keys and the values of a tile."""
        attention, sizes = self.attention, self.sizes
        first = self._first(turn)
        keys, values = sizes.panel(sizes.depth_line), sizes.panel(sizes.keys)
        own, base = (self.batch, self.place, self.job), sizes.keys_size
        tile = (self.name, 1, sizes.keys, self.scores.columns)
        columns = (self.name, 1, sizes.width_line, attention.width)
        return (
            Panel(self.scores, keys, *tile, *own, first, 0, self.memory),
            Panel(self.sums, values, *columns, *own, constant(0), base, self.memory),
        )

    def _first(self, turn: Index) -> Index:
        """The first key of a tile."""
        return (self.first_tile + turn) * self.sizes.keys

    @property
    def _own_keys(self) -> Index:
        """The first key that the sub-group multiplies, counted from the first of a tile."""
        return self.share * self.sizes.own_keys

    def stage(self, turn: Index) -> Index:
        """Where a tile of keys and values begins."""
        return turn % STAGES * self.sizes.stage

    def _read(self, turn: Index) -> list[Vectors]:
        """The values of a tile that the work-item computes. There are none where asynchronous
        copies bring the tile.
        """
        keys, values = self.panels(turn)
        return [keys.read(constant(0)), values.read(self.first_tile + turn)]

    def _copy(self, turn: Index, computed: list[Vectors]) -> None:
        """Starts asynchronous copies of a tile into its stage, or stores its computed values."""
        keys, values = self.panels(turn)
        keys.copy(constant(0), self.stage(turn), computed[0])
        values.copy(self.first_tile + turn, self.stage(turn), computed[1])

    def begin_copies(self) -> Panel:
        """Starts the copies of the group's queries to where they lie, and of the first tile. What
        is computed of them is read before any of it is stored.
        """
        attention, sizes = self.attention, self.sizes
        tiling = sizes.panel(sizes.depth_line)
        tile = (self.name, 0, sizes.rows, attention.rows, self.batch, self.place)
        panel = Panel(self.scores, tiling, *tile, self.job, self.first_row, 0, self.memory)
        queries, computed = panel.read(constant(0)), self._read(constant(0))
        self._copy(constant(0), computed)
        panel.copy(constant(0), constant(sizes.queries), queries)
        self.code.effect(kernel.CommitCopiesOp, [])
        return panel

    def queries(self) -> Vectors:
        """The sub-group's fragments of queries. The second tile later takes their memory."""
        attention, sizes, code = self.attention, self.sizes, self.code
        panel = self.begin_copies()
        code.block.add_op(kernel.WaitCopiesOp(0))
        code.barrier()
        return [
            panel.operands(constant(sizes.queries), self.own_row, UNIT_ROWS, constant(step))[0]
            for step in range(ceil_div(attention.depth, sizes.step))
        ]

    # A tile of keys

    def arrive(self) -> None:
        """Waits until a tile has arrived. No work-item then reads the tile two before it."""
        self.code.block.add_op(kernel.WaitCopiesOp(0))
        self.code.barrier()

    def _tile(self, turn: Index, queries: Vectors, held: Vectors) -> Vectors:
        """Adds what a tile of keys contributes to the rows' largest scores, totals and sums."""
        finish = self.follow(turn)
        held = self._added(turn, queries, held)
        finish()
        return held

    def _added(self, turn: Index, queries: Vectors, held: Vectors) -> Vectors:
        """The same of a tile that has arrived."""
        products = self.products(turn, queries)
        rows, factor, weights = self.weigh(turn, products, held[: 2 * OWN_ROWS])
        sums = self.add_values(turn, weights, self.scaled(held[2 * OWN_ROWS :], factor))
        return [*rows, *sums]

    def follow(self, turn: Index) -> Callable[[], None]:
        """Waits for a tile, and starts to copy the next one; what is computed of that is stored
        when the function given is called.
        """
        code, later = self.code, turn + 1
        self.arrive()
        inside = code.compare_integers("slt", code.index(later), code.index(self.count))
        read = self._read(later)

        def copy() -> None:
            code.when(inside, lambda: self._copy(later, read))
            code.effect(kernel.CommitCopiesOp, [])

        if any(read):
            return copy
        copy()
        return lambda: None

    def weigh(
        self, turn: Index, products: Vectors, rows: Vectors
    ) -> tuple[Vectors, SSAValue, Vectors]:
        """The rows' largest scores and totals with a tile; what sums from before are multiplied
        by, and the tile's weights.
        """
        attention, code = self.attention, self.code
        largest, totals = rows[:OWN_ROWS], rows[OWN_ROWS:]
        scores = self._scores(turn, products)
        found = self._across(arith.MaxnumfOp, scores)
        new, shifts, factors = self.raised(largest, found)
        shift = of_both_rows(code, shifts)
        powers = [attention.power(code, score, shift, self.exponent) for score in scores]
        weights = self.weights.bounded(powers)
        shares = self._by_row(arith.AddfOp, weights)
        totals = [
            multiply_add(code, attention.element, total, factor, share)
            for total, factor, share in zip(totals, factors, shares, strict=True)
        ]
        return [*new, *totals], of_both_rows(code, factors), weights

    def scaled(self, sums: Vectors, factor: SSAValue) -> Vectors:
        """Sums times a factor of each row."""
        return [self.code.binary(arith.MulfOp, value, factor) for value in sums]

    def _by_row(self, cls: type[Operation], values: Vectors) -> Vectors:
        """The work-item's values of each row, reduced to one."""
        code, total = self.code, self.over(cls, values)
        parts = [lane_of(code, total, lane) for lane in range(HELD)]
        return [
            code.binary(cls, parts[2 * which], parts[2 * which + 1]) for which in range(OWN_ROWS)
        ]

    def _across(self, cls: type[Operation], values: Vectors) -> Vectors:
        """The values that all work-items have of each row, reduced to one, in all of them."""
        return [self._reduce_across_items(cls, value) for value in self._by_row(cls, values)]

    def _reduce_across_items(self, cls: type[Operation], value: SSAValue) -> SSAValue:
        code = self.code
        (total,) = reduce_neighbours(
            code, self.lane, QUAD, [value], lambda _, own, partner: code.binary(cls, own, partner)
        )
        return total

    # Scores

    def products(self, turn: Index, queries: Vectors) -> Vectors:
        """Queries times the keys of a tile."""
        sizes, code = self.sizes, self.code
        keys, _ = self.panels(turn)
        totals = [code.constant(0, f32, HELD)] * self.tiles
        for step, query in enumerate(queries):
            own = (self._own_keys, sizes.own_keys, constant(step))
            fragments = keys.operands(self.stage(turn), *own)
            totals = [
                self._multiply(query, fragment, total)
                for fragment, total in zip(fragments, totals, strict=True)
            ]
        return totals

    def _scores(self, turn: Index, totals: Vectors) -> Vectors:
        """The work-item's scores of a tile, -inf where a row does not see the key."""
        attention, code = self.attention, self.code
        first = self._first(turn) + self._own_keys
        scores = [
            attention.score(code, total, self._bias(first, n)) for n, total in enumerate(totals)
        ]
        return self.mask.apply(first, scores)

    def _multiply(self, left: SSAValue, right: SSAValue, held: SSAValue) -> SSAValue:
        op = kernel.MmaOp(INSTRUCTIONS[self.name], left, right, held)
        self.code.block.add_op(op)
        return op.result

    def _bias(self, first: Index, n: int) -> SSAValue | None:
        attention, code = self.attention, self.code
        if attention.bias is None:
            return None
        evaluator = self.job.evaluator(1)
        values: Vectors = []
        for lane in range(HELD):
            key = code.bounded(first + self.mask.key(n, lane), attention.keys)
            row = self.rows[lane // 2]
            values.append(attention.bias_values(evaluator, self.batch, self.head, row, key))
        return code.joined(values)

    # Values

    def fragments(self, weights: Vectors) -> list[Vectors]:
        """For each step of keys, the fragments whose sum values are multiplied by."""
        attention, code = self.attention, self.code
        if attention.rounded_weights:
            if self.name == "bf16":
                return self.weights.nearest(weights)
            weights = [attention.multiplied(code, weight) for weight in weights]
        return self.weights.terms(weights)

    def add_values(self, turn: Index, weights: Vectors, sums: Vectors) -> Vectors:
        """Adds weights times values over the tile's keys."""
        _, values = self.panels(turn)
        first = self.share * (self.sizes.own_keys // self.sizes.step)
        for step, terms in enumerate(self.fragments(weights)):
            count = self.columns * UNIT_COLUMNS
            fragments = values.operands(self.stage(turn), constant(0), count, first + step)
            for term in terms:
                sums = [
                    self._multiply(term, fragment, total)
                    for fragment, total in zip(fragments, sums, strict=True)
                ]
        return sums

    # Rows

    def _finish(self, largest: Vectors, totals: Vectors, sums: Vectors) -> None:
        """Divides by the totals, and writes what follows."""
        attention, code = self.attention, self.code
        factors = [attention.reciprocal(code, total) for total in totals]
        write_sums = self._written(largest, totals, sums, factors)
        if not has_totals(self.job):
            self._for_each_row(write_sums)
            return

        def write(which: int) -> None:
            write_sums(which)
            own = (self.rows[which], largest[which], totals[which], self.exponent)
            put = partial(attention.write_totals, self.job, self.batch, self.head, *own)
            code.when(code.is_below(self.lane % QUAD, 1, 1), put)

        self._for_each_row(write)

    def _finish_part(self, largest: Vectors, totals: Vectors, sums: Vectors) -> None:
        """Writes the sums as they are. The first of a row's four work-items writes their scale."""
        attention, code = self.attention, self.code
        lowered = 2.0 ** (attention.lowered - self.exponent)
        write_sums = self._written(largest, totals, sums, [code.constant(lowered, f32)] * OWN_ROWS)
        totals = [self._times(total, lowered) for total in totals]
        largest = [attention.natural(code, value) for value in largest]

        def write(which: int) -> None:
            write_sums(which)

            def put() -> None:
                for n, value in enumerate((totals[which], largest[which])):
                    self.store(self.rows[which], constant(attention.width + n), value)

            code.when(code.is_below(self.lane % QUAD, 1, 1), put)

        self._for_each_row(write)

    def _written(
        self, largest: Vectors, totals: Vectors, sums: Vectors, factors: Vectors
    ) -> Callable[[int], None]:
        """What writes one of the two rows: its sums, anew where they are spoilt, times a factor."""
        attention, code = self.attention, self.code
        factor = of_both_rows(code, factors)
        scaled = [code.binary(arith.MulfOp, value, factor) for value in sums]
        if not attention.hides:
            return lambda which: self._write_row(which, scaled)
        spoilt = self._spoilt(totals, sums)
        repair = Repair(self.job, attention, self.batch, self.head, UNROLL)
        anew = FragmentRepair(repair, self.part, self.lane, self.exponent)

        def write_anew(which: int) -> None:
            def store(column: Index, value: SSAValue) -> None:
                own = code.spread(factors[which], lane_count(value))
                self.store(self.rows[which], column, code.binary(arith.MulfOp, value, own))

            anew.write(self.rows[which], largest[which], store)

        def write(which: int) -> None:
            code.branch(
                spoilt[which], lambda: write_anew(which), lambda: self._write_row(which, scaled)
            )

        return write

    def _spoilt(self, totals: Vectors, sums: Vectors) -> Vectors:
        """Whether one of the two rows is to be computed again, in all its four work-items."""
        code = self.code
        nothing = code.constant(0, f32, HELD)
        for value in sums:
            nothing = nothing_of(code, value, nothing)
        met = self._across(arith.AddfOp, [nothing])
        return [is_spoilt(code, *pair) for pair in zip(met, totals, strict=True)]

    def _times(self, value: SSAValue, factor: float) -> SSAValue:
        return self.code.binary(arith.MulfOp, value, self.code.constant(factor, f32))

    def _for_each_row(self, write: Callable[[int], None]) -> None:
        """Writes the work-item's rows, those past the last row left out."""
        for which in range(OWN_ROWS):
            inside = self.code.is_below(self.own_rows[which], self.attention.rows, 1)
            own = self.code.all_of([inside, self.shares.writes(which)])
            self.code.when(own, lambda which=which: write(which))

    def _write_row(self, which: int, sums: Vectors) -> None:
        """Writes a row of sums, two columns at a time."""
        attention, code = self.attention, self.code
        width = 2 if attention.width % 2 == 0 else 1
        for n, value in enumerate(sums):
            pair = pair_of(code, value, 2 * which)
            for lane in range(0, 2, width):
                column = self.lane % QUAD * 2 + (n * UNIT_COLUMNS + lane)
                own = pair if width == 2 else lane_of(code, pair, lane)
                self.store_inside(self.rows[which], column, own)
