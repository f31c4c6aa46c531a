"""Reductions of the rows of a tile, found by its group before the product that asks for them.

In: a product with reductions of its rows in its body (a norm before it, a scale of rows after it),
and the first row of a tile. Out: code that stores a number for each row of the tile in local
memory, and gives it to all evaluators of the job. The numbers of an only row stay in registers,
unless the row is kept.

The work-items of a sub-group walk several rows together, so that many loads are in flight; of a few
long rows each is walked by more of them. A reduction that needs another one is a second walk over
the values that were read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from xdsl.ir import SSAValue

from mgn.dialects.mgn.operation import Kind
from mgn.passes.kernels.arithmetic import ceil_div, dividing_lanes
from mgn.passes.kernels.body import Indices, Node
from mgn.passes.kernels.index import ZERO, Index, lanes
from mgn.passes.kernels.index_maps import bounded
from mgn.passes.kernels.product import Product, values_of_rows
from mgn.passes.kernels.rows import RowSpace, row_space, stages_of
from mgn.passes.lower_kernels.core.evaluate import Evaluator
from mgn.passes.lower_kernels.core.long_sums import long_loop
from mgn.passes.lower_kernels.core.pure_code import memory_type
from mgn.passes.lower_kernels.core.sub_groups import SUB_GROUP
from mgn.passes.lower_kernels.core.template import Job
from mgn.passes.lower_kernels.reduction.row_groups import reduce_across_items, shuffles
from mgn.passes.lower_kernels.reduction.stage import Stage
from mgn.passes.lower_kernels.staging.kept_rows import KeptRows
from mgn.passes.schedules.reduction.row_groups import Grouping

LOADS_AT_ONCE = 20
"""About how many vectors of each input a work-item reads before it needs the first."""

LOADS_OF_FEW_ROWS = 8
"""The same where a group has a work-item to spare for each: so many more share a row."""


@dataclass
class RowStatistics:
    """The reductions of the rows of a tile of `size` rows from `first` on, by a group of `items`
    work-items of which this one has the number `place`.
    """

    job: Job
    product: Product
    batch: Indices
    first: Index
    size: int
    items: int
    place: Index

    @cached_property
    def _grouping(self) -> Grouping:
        shares = SUB_GROUP
        while self.items % shares:
            shares //= 2
        width = dividing_lanes(self._space.length, self.job.number("lanes", 4))
        vectors = self._space.length // width
        while 2 * shares * self.size <= self.items and shares * LOADS_OF_FEW_ROWS < vectors:
            shares *= 2
        return Grouping(self.items // shares, shares, True, width)

    @cached_property
    def _space(self) -> RowSpace:
        return row_space(self.job.body)

    @property
    def needed(self) -> bool:
        """Whether there is anything to reduce."""
        return self.product.pool is None and bool(self.job.body.of_kind(Kind.REDUCTION))

    def write(self, kept: KeptRows | None = None) -> None:
        """Finds the reductions, if any, and gives them to what is evaluated from now on. Rows that
        are kept are computed from what was read for the reductions.
        """
        if not self.needed:
            return
        if self.size == 1 and kept is None:
            self._give_only_row()
            return
        job, code, sizes = self.job, self.job.code, self._grouping
        buffers = {
            node: code.local(memory_type(node.element), self.size)
            for node in values_of_rows(job.body, self.product)
        }
        trips = ceil_div(self._space.length // sizes.width, sizes.shares)
        turns = ceil_div(self.size, sizes.rows)
        together = max(LOADS_AT_ONCE // trips, 1)
        while turns % together:
            together -= 1
        own, share = sizes.places(self.place)
        writes = code.is_below(share, 1, 1)

        def walk(number: Index) -> None:
            rows = [own + (number * together + turn) * sizes.rows for turn in range(together)]
            for row, evaluator in zip(rows, self._reduced(rows), strict=True):
                inside = code.is_below(row, self.size, 1)

                def store(row: Index = row, evaluator: Evaluator = evaluator) -> None:
                    for node, buffer in buffers.items():
                        value = evaluator.at(node, self._index(node, row))
                        code.store(value, buffer, code.index(row))

                code.when(writes, lambda inside=inside, store=store: code.when(inside, store))
                if kept is not None:
                    self._keep(kept, row, evaluator)

        code.each(0, turns // together, walk)
        code.barrier()
        for node, buffer in buffers.items():
            job.given[node] = lambda index, node=node, buffer=buffer: code.load(
                buffer, code.index(self._row_of(node, index) - self.first)
            )

    def _give_only_row(self) -> None:
        """Finds and gives the reductions of the tile's only row. All work-items have the totals, so
        that none is stored for the others, and no barrier follows.
        """
        job = self.job
        (evaluator,) = self._reduced([ZERO])
        for node in values_of_rows(job.body, self.product):
            value = evaluator.at(node, self._index(node, ZERO))
            job.given[node] = lambda _, value=value: value

    def _bounded(self, step: Index) -> Index:
        """A vector of a row, or the last one; always the same index, so that it is read once."""
        code, key = self.job.code, ("vector of a row", step)
        known = code.recall(key)
        if known is None:
            known = code.bounded(step, self._space.length // self._grouping.width)
            code.remember(key, known)
        return known

    def _keep(self, kept: KeptRows, row: Index, evaluator: Evaluator) -> None:
        """Keeps what this work-item has read of a row, and zeros behind."""
        code, sizes = self.job.code, self._grouping
        _, share = sizes.places(self.place)
        trips = ceil_div(kept.length // sizes.width, sizes.shares)

        def trip(number: Index | int) -> None:
            step = share + number * sizes.shares
            inside = (self._own(row), self._bounded(step) * sizes.width)
            kept.put(evaluator, row, step * sizes.width, inside)

        if trips <= LOADS_AT_ONCE:
            for number in range(trips):
                trip(number)
        else:
            code.each(0, trips, trip)

    def _keeps_axis(self, node: Node) -> bool:
        """Whether a value of rows has an axis of one in the place of what was reduced."""
        return len(node.shape) == len(self.product.node.shape)

    def _row_of(self, node: Node, index: Indices) -> Index:
        return index[-2] if self._keeps_axis(node) else index[-1]

    def _index(self, node: Node, row: Index) -> Indices:
        index = (*self.batch, self._own(row))
        return (*index, ZERO) if self._keeps_axis(node) else index

    def _own(self, row: Index) -> Index:
        """The product's row that a row of the tile is, or the last one."""
        return bounded(self.first + row, self.product.rows, 1)

    def _reduced(self, rows: Sequence[Index]) -> list[Evaluator]:
        """Evaluators that know the reductions of some rows of the tile, one for each row."""
        evaluators = [self.job.evaluator(self._grouping.width) for _ in rows]
        for nodes in stages_of(self.job.body, self._space).reductions:
            stage, walked = Stage(self.job.code, nodes), zip(evaluators, rows, strict=True)
            parts = [value for item in walked for value in self._walk(stage, *item)]
            totals = iter(self._totals(nodes * len(rows), parts))
            for evaluator in evaluators:
                stage.give(evaluator, [next(totals) for _ in nodes])
        return evaluators

    def _totals(self, nodes: Sequence[Node], parts: Sequence[SSAValue]) -> list[SSAValue]:
        """The totals of rows. All work-items have read the totals of the rows before."""
        if not shuffles(self.job, self._grouping, parts):
            self.job.code.barrier()
        return reduce_across_items(self.job, self._grouping, self.place, nodes, parts)

    def _walk(self, stage: Stage, evaluator: Evaluator, row: Index) -> list[SSAValue]:
        """A work-item's part of each reduction of a row, all lanes combined."""
        code, sizes = self.job.code, self._grouping
        vectors = self._space.length // sizes.width
        own = self._own(row)
        _, share = sizes.places(self.place)

        def trip(number: Index | int, held: Sequence[SSAValue]) -> list[SSAValue]:
            step = share + number * sizes.shares
            inside = code.is_below(step, vectors, 1)
            step = self._bounded(step)
            index = (*self.batch, own, step * sizes.width + lanes(sizes.width))
            return stage.add(held, evaluator, lambda _: index, inside)

        trips = ceil_div(vectors, sizes.shares)
        held = stage.start(sizes.width)
        if trips <= LOADS_AT_ONCE:
            for number in range(trips):
                held = trip(number, held)
        else:
            held = long_loop(code, 0, trips, trip, held, stage.sums, LOADS_AT_ONCE // 2)
        return stage.across_lanes(held)
