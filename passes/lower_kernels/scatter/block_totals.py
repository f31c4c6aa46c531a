"""Totals of a block of places in local memory, which a group of a GPU starts, fills and writes.

In: a scatter's job. The group has some places along the axis, in one row of the result. What fills
the totals is up to the variant.
"""

from collections.abc import Callable
from math import prod

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.dialects.mgn.operation import Kind
from mgn.passes.kernels.accumulation import accumulator
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.body import Indices
from mgn.passes.kernels.index import Counter, Index, delinearised, of
from mgn.passes.lower_kernels.core.movement import clamped_id
from mgn.passes.lower_kernels.core.pure_code import memory_type
from mgn.passes.lower_kernels.core.scalar import narrowed, widened
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.scatter.joining import join

UNROLLED = 8
"""Places of a work-item that are started and written one after the other in the kernel's text."""


class BlockTotals:
    """A block of places of a scatter. `spare`: totals behind those of the block."""

    def __init__(self, job: Job, spare: int = 0) -> None:
        self.job, self.code = job, job.code
        (self.node,) = job.body.of_kind(Kind.SCATTER)
        self.x, self.ids, self.src, *_ = self.node.operands
        self.axis, self.shape = self.node.values["axis"], self.node.shape
        self.places, self.count = self.shape[self.axis], self.src.shape[self.axis]
        self.items, self.block = job.entry("items"), job.entry("block")
        self.type = memory_type(accumulator(self.node.element))
        self.totals = self.code.local(self.type, self.block + spare)
        blocks = ceil_div(self.places, self.block)
        others = (*self.shape[: self.axis], *self.shape[self.axis + 1 :])
        self.groups = prod(others) * blocks
        group = self.code.counter(kernel.GroupIdOp, 0, self.groups)
        self.item = self.code.counter(kernel.LocalIdOp, 0, self.items)
        self.row = delinearised(group // blocks, others)
        self.first = group % blocks * self.block

    @property
    def launch(self) -> Launch:
        """The sizes of the launch."""
        return Launch((self.groups * self.items,), (self.items,))

    def index(self, place: Index) -> Indices:
        """An element of the group's row."""
        return (*self.row[: self.axis], place, *self.row[self.axis :])

    def id(self, element: Index) -> SSAValue:
        """The id of an element, inside the axis."""
        evaluator = self.job.evaluator()
        value = evaluator.at(self.ids, self.index(element))
        last = self.places - 1
        named = clamped_id(evaluator, self.ids, value, last)
        return self.code.index(of(Counter(named, 0, last)))

    def from_first(self, element: Index) -> SSAValue:
        """How far from the block's first place the id of an element is."""
        return self.code.binary(arith.SubiOp, self.id(element), self.code.index(self.first))

    def value(self, element: Index) -> SSAValue:
        """What is scattered of an element, as sums are kept."""
        value = self.job.evaluator().lanes_at(self.src, self.index(element))
        return widened(self.code, value, self.node.element)

    def start(self) -> None:
        """Puts what is at the places before into their totals."""
        self._each_place(self._start)

    def add(self, place: SSAValue, value: SSAValue) -> None:
        """Adds to the total of a place of the block."""
        code = self.code
        code.store(join(code, self.node, code.load(self.totals, place), value), self.totals, place)

    def finish(self) -> None:
        """Writes the results of the places."""
        self._each_place(self._finish)

    def _each_place(self, body: Callable[[Index], None]) -> None:
        """Does something for each of a work-item's places."""
        steps = ceil_div(self.block, self.items)
        if steps <= UNROLLED:
            for step in range(steps):
                body(self.item + step * self.items)
            return
        self.code.each(0, steps, lambda step: body(self.item + step * self.items), UNROLLED)

    def _start(self, place: Index) -> None:
        code = self.code

        def put() -> None:
            there = code.known((self.first + place).clamp(0, self.places - 1), self.places)
            value = self.job.evaluator().lanes_at(self.x, self.index(there))
            value = widened(code, value, self.node.element)
            code.store(value, self.totals, code.index(place))

        code.when(code.is_below(place, self.block, 1), put)

    def _finish(self, place: Index) -> None:
        code, job = self.code, self.job

        def put() -> None:
            there = code.known(self.first + place, self.places)
            total = code.load(self.totals, code.index(code.bounded(place, self.block)))
            total = narrowed(code, total, self.node.element)
            evaluator = job.evaluator()
            evaluator.given[self.node] = lambda _: total
            job.write_at(evaluator, lambda _: self.index(there))

        inside = code.all_of(
            [
                code.is_below(place, self.block, 1),
                code.is_below(self.first + place, self.places, 1),
            ]
        )
        code.when(inside, put)
