"""The contraction template for a few rows on a GPU: the right operand is read once, at full width.

A work-group takes some columns. The shared axis is cut into pieces, which its `shares` take in
turn, for all rows. Where memory runs along the shared axis, a work-item adds up vectors of it for a
few columns, and adds up their lanes at the end. Where memory runs along the columns, a work-item
has a vector of columns, and takes the steps one by one. The sums of the shares of a sub-group are
added up by shuffles, where it has them, and what is left in local memory. Each group reduces rows
by itself, where the product asks for that: they are short beside the right operand. Where halves of
the columns meet, a work-item has those of both.

Where memory runs along the shared axis, the first vectors of the right operand are read before the
group waits for earlier stages of a resident launch.
"""

from collections.abc import Callable, Sequence
from functools import cached_property, reduce
from math import prod

from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.passes.kernels.accumulation import accumulator
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.index import Index, constant, delinearised, lanes
from mgn.passes.kernels.index_maps import bounded
from mgn.passes.kernels.packed_codes import packed_codes
from mgn.passes.kernels.product import Product
from mgn.passes.lower_kernels.core.long_sums import long_loop
from mgn.passes.lower_kernels.core.operand import Operand
from mgn.passes.lower_kernels.core.product import add_products, read_ahead, write_halves, write_tile
from mgn.passes.lower_kernels.core.pure_code import lane_count, lane_of, memory_type
from mgn.passes.lower_kernels.core.scalar import across_lanes, combine
from mgn.passes.lower_kernels.core.sub_groups import SUB_GROUP, can_shuffle, reduce_neighbours
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.product.packed_rows import PackedRows
from mgn.passes.lower_kernels.reduction.row_statistics import RowStatistics
from mgn.passes.schedules.product.few_rows import FewRowsTiling

STEPS = 4
"""Steps of the shared axis at once, where memory runs along the columns."""

LOADS_AT_ONCE = 24
"""Vectors that a work-item reads before it needs the first, where memory runs along the depth.
So memory is waited for once in a walk of up to 1536 numbers in f32.
"""

LONG_WALK = 128
"""Trips of a block of a long walk, whose sums are added to those before it."""


def lower_few_rows(job: Job, product: Product) -> Launch:
    """Writes a contraction kernel of a few rows."""
    return _FewRows(job, product, FewRowsTiling.of(job.schedule)).write()


class _FewRows:
    def __init__(self, job: Job, product: Product, sizes: FewRowsTiling) -> None:
        self.job, self.product, self.code, self.sizes = job, product, job.code, sizes
        self.element = accumulator(product.element)

    def write(self) -> Launch:
        product, sizes, code = self.product, self.sizes, self.code
        across = ceil_div(product.columns, sizes.columns)
        groups = across * prod(product.batch)
        group = code.counter(kernel.GroupIdOp, 0, groups)
        self.place = code.counter(kernel.LocalIdOp, 0, sizes.items)
        if sizes.along:
            self.own, self.share = self.place // sizes.shares, self.place % sizes.shares
        else:
            self.own, self.share = self.place % sizes.own, self.place // sizes.own
        self.batch = delinearised(group // across, product.batch)
        self.left, self.right = Operand.both(self.job, product, self.batch)
        self.first = group % across * (sizes.columns // product.halves)
        rows = (self.batch, constant(0), product.rows)
        statistics = RowStatistics(self.job, product, *rows, sizes.items, self.place)
        self.early = self._early_trips
        for number in range(self.early):
            self._right_vectors(constant(number))
        code.await_stages()
        statistics.write()
        if self._writes_own:
            self._read_ahead()
        totals = self._along() if sizes.along else self._across()
        self._add_shares(totals)
        return Launch((groups * sizes.items,), (sizes.items,))

    def _result_column(self, number: int | Index, own: Index) -> Index:
        """The column of a work-item's result of that number, or the first of a vector of them."""
        width = 1 if self.sizes.along else self.sizes.width
        return self.first + (own + number * self.sizes.own) * width

    def _column(self, number: int) -> Index:
        """A work-item's column of that number; those that meet in a result are neighbours."""
        halves, results = self.product.halves, self.product.columns // self.product.halves
        column = self._result_column(number // halves, self.own)
        return bounded(column, results, 1) * halves + number % halves

    @property
    def _columns(self) -> list[Index]:
        """The work-item's columns."""
        return [self._column(number) for number in range(self.sizes.across)]

    @property
    def _trips(self) -> tuple[int, int]:
        """How many trips along the shared axis all work-items have a vector in, and how many trips
        there are.
        """
        vectors = self.product.depth // self.sizes.width
        return vectors // self.sizes.shares, ceil_div(vectors, self.sizes.shares)

    @property
    def _trips_at_once(self) -> int:
        """Trips whose vectors are read before the first is needed."""
        return max(1, LOADS_AT_ONCE // (self.product.rows + self.sizes.across))

    @property
    def _early_trips(self) -> int:
        """Trips whose vectors of the right operand are read first, and so while stages before this
        one end.
        """
        (full, trips), sizes = self._trips, self.sizes
        if not sizes.along or sizes.packed or full > LONG_WALK:
            return 0
        return trips if full <= self._trips_at_once else self._trips_at_once

    def _right_vectors(self, number: Index) -> list[SSAValue]:
        """The vectors of a trip, of each of the work-item's columns."""
        k, width = self._step(number), self.sizes.width
        return [self.right.along_depth(column, k, width) for column in self._columns]

    def _step(self, number: Index) -> Index:
        """The first step of a trip's vector, brought inside the shared axis."""
        width = self.sizes.width
        return bounded(self._vector(number) * width, self.product.depth, width)

    def _vector(self, number: Index) -> Index:
        """The vector of the shared axis that a work-item has in a trip. Of the last trip, some have
        none.
        """
        return number * self.sizes.shares + self.share

    def _along(self) -> list[SSAValue]:
        """Sums of each row and each of the work-item's columns."""
        product, sizes, code = self.product, self.sizes, self.code
        width = sizes.width
        vectors = product.depth // width
        packed = packed_codes(product) if sizes.packed else None
        if packed is not None:
            walk = (self.job, product, sizes, packed, self.batch, self.share, self._columns)
            return PackedRows(*walk).totals()

        def trip(number: Index, held: list[SSAValue]) -> list[SSAValue]:
            inside = code.is_below(self._vector(number), vectors, 1)
            k, right = self._step(number), self._right_vectors(number)
            left = [self.left.along_depth(constant(n), k, width) for n in range(product.rows)]
            left, right = ([code.or_zeros(inside, value) for value in x] for x in (left, right))
            return add_products(code, product.element, left, right, held)

        zero = code.constant(0, memory_type(self.element), width)
        held = [zero] * (product.rows * sizes.across)
        for number in range(self.early):
            held = trip(constant(number), held)
        full, trips = self._trips
        held = self._long(self.early, full, trip, held, min(self._trips_at_once, max(full, 1)))
        held = code.loop(max(full, self.early), trips, trip, held)
        return [across_lanes(code, "sum", self.element, value) for value in held]

    def _across(self) -> list[SSAValue]:
        """Vectors of sums of neighbouring columns, of each row."""
        product, sizes, code = self.product, self.sizes, self.code
        width = sizes.width
        column = bounded(self._result_column(0, self.own), product.columns, width)

        def steps(k: Index, count: int, held: list[SSAValue]) -> list[SSAValue]:
            """So many steps; a row's numbers of the left operand are read together."""
            right = [self.right.across(column, k + part, width) for part in range(count)]
            left = [self.left.along_depth(constant(n), k, count) for n in range(product.rows)]
            for part in range(count):
                own = [code.spread(lane_of(code, row, part), width) for row in left]
                held = add_products(code, product.element, own, right[part : part + 1], held)
            return held

        def trip(number: Index, held: list[SSAValue]) -> list[SSAValue]:
            return steps((number * sizes.shares + self.share) * STEPS, STEPS, held)

        zero = code.constant(0, memory_type(self.element), width)
        held = [zero] * product.rows
        whole = product.depth // (sizes.shares * STEPS)
        held = self._long(0, whole, trip, held, 2)
        done = whole * sizes.shares * STEPS
        for number in range(ceil_div(product.depth - done, sizes.shares)):
            k = self.share + done + number * sizes.shares
            safe = bounded(k, product.depth, 1)
            added = steps(safe, 1, held)
            inside = code.is_below(k, product.depth, 1)
            held = [
                self.code.select(inside, new, old) for new, old in zip(added, held, strict=True)
            ]
        return held

    def _long(
        self,
        first: int,
        trips: int,
        trip: Callable[[Index, list[SSAValue]], list[SSAValue]],
        held: list[SSAValue],
        unroll: int,
    ) -> list[SSAValue]:
        """A work-item's walk along the shared axis."""
        sums = [self.element.is_float] * len(held)
        return long_loop(self.code, first, trips, trip, held, sums, unroll, block=LONG_WALK)

    def _add_shares(self, totals: Sequence[SSAValue]) -> None:
        """Adds up the shares' sums, and writes what follows from them."""
        sizes, code = self.sizes, self.code
        width, inside = lane_count(totals[0]), self._shares_inside
        totals = [self._sum_inside(total, inside) for total in totals]
        left, halves = sizes.shares // inside, self.product.halves
        results = [totals[n : n + halves] for n in range(0, len(totals), halves)]
        if self._writes_own:
            self._write_own(results, width)
            return
        stride = sizes.own + (1 if sizes.along else 0)
        memory = code.local(memory_type(self.element), len(totals) * left * stride * width)

        def spot(number: Index | int, part: Index | int, own: Index) -> Index:
            return ((constant(0) + number) * left + part) * (stride * width) + own * width

        def put() -> None:
            for number, total in enumerate(totals):
                place = spot(number, self.share // inside, self.own)
                code.store(total, memory, code.index(place), place.multiple)

        def total(number: Index, own: Index) -> SSAValue:
            places = [spot(number, part, own) for part in range(left)]
            parts = [code.load(memory, code.index(at), width, at.multiple) for at in places]
            return reduce(self._sum, parts)

        code.when(code.is_below(self.share % inside, 1, 1), put)
        code.barrier()
        for turn in range(ceil_div(len(results), sizes.shares)):
            number = self.place // sizes.own + turn * sizes.shares

            def finish(number: Index = number) -> None:
                number, own = bounded(number, len(results), 1), self.place % sizes.own
                sums = [total(number * halves + half, own) for half in range(halves)]
                self._write(number, own, sums, width)

            code.when(code.is_below(number, len(results), 1), finish)

    @cached_property
    def _shares_inside(self) -> int:
        """How many shares of a column are in a sub-group that can shuffle their sums."""
        sizes = self.sizes
        if not can_shuffle(self.job, sizes.items, [memory_type(self.element)]):
            return 1
        return min(sizes.shares, SUB_GROUP // (1 if sizes.along else min(sizes.own, SUB_GROUP)))

    @cached_property
    def _result_count(self) -> int:
        """How many results, or vectors of them, the shares of the same columns have together."""
        return self.product.rows * (self.sizes.across // self.product.halves)

    @cached_property
    def _writes_own(self) -> bool:
        """Whether shuffles give each share all sums, so that it writes at most one result."""
        return self._shares_inside == self.sizes.shares and self._result_count <= self.sizes.shares

    def _sum_inside(self, total: SSAValue, inside: int) -> SSAValue:
        """The sum of the shares of a sub-group, in each of them."""
        if inside == 1:
            return total
        code, count = self.code, lane_count(total)
        lane, apart = self.place % SUB_GROUP, 1 if self.sizes.along else self.sizes.own
        parts = [lane_of(code, total, part) for part in range(count)]
        sums = reduce_neighbours(code, lane, inside, parts, lambda _, a, b: self._sum(a, b), apart)
        return code.joined(sums)

    def _write_own(self, results: Sequence[Sequence[SSAValue]], width: int) -> None:
        """Each share writes the result of its number. All of them have all sums."""
        code, sums = self.code, list(results[-1])
        for number in reversed(range(len(results) - 1)):
            mine = code.is_below(self.share, number + 1, 1)
            pairs = zip(results[number], sums, strict=True)
            sums = [code.select(mine, own, later) for own, later in pairs]

        def write() -> None:
            self._write(self._own_result, self.own, sums, width)

        code.when(code.is_below(self.share, len(results), 1), write)

    @property
    def _own_result(self) -> Index:
        """The number of the result that the share writes."""
        return bounded(self.share, self._result_count, 1)

    def _sum(self, left: SSAValue, right: SSAValue) -> SSAValue:
        return combine(self.code, "sum", self.element, left, right)

    def _place_of(self, number: Index, own: Index, width: int) -> tuple[Index, Index, Index]:
        """The row of a result, its column, and that brought inside the result."""
        across = self.sizes.across // self.product.halves
        column = self._result_column(number % across, own)
        row = bounded(number // across, self.product.rows, 1)
        columns = self.product.columns // self.product.halves
        return row, column, bounded(column, columns, width) + lanes(width)

    def _read_ahead(self) -> None:
        """Reads what the work-item's own result needs besides the sums. Memory answers while they
        are added up.
        """
        width = 1 if self.sizes.along else self.sizes.width
        row, _, column = self._place_of(self._own_result, self.own, width)
        read_ahead(self.job, self.product, width, self.batch, row, column)

    def _write(self, number: Index, own: Index, sums: Sequence[SSAValue], width: int) -> None:
        """Evaluates and stores what follows from neighbouring sums of a row, or of each half."""
        job, product, halves = self.job, self.product, self.product.halves
        columns = product.columns // halves
        row, column, safe = self._place_of(number, own, width)

        def write() -> None:
            evaluator = job.evaluator(width)
            if halves > 1:
                write_halves(job, product, evaluator, self.batch, row, safe, sums)
            else:
                write_tile(job, product, evaluator, self.batch, [row], [safe], sums)

        self.code.when(self.code.is_below(column, columns, 1), write)
