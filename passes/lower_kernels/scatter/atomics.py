"""Numbers of a scatter that are combined where they lie, by atomic operations of a GPU.

They are integers of which the largest stays, or which are added up modulo 2³²: any order gives the
same. The result lies where what was there before did, and a work-item combines elements with it.

Many elements may name one place, and would wait for one another. So a group first combines its own
in local memory. It has cells, and a place has a cell; the largest of the places that share one
has it to itself. The elements of other places go to the result at once. In the end each cell's
place gets what the cell has.

A group goes over its elements from the last one, and so do groups: a scatter's numbers rise, and
most are no larger than what is there already.
"""

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.dialects.mgn.operation import Kind
from mgn.dialects.mgn.operations.places.scatter import ADD
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.index import Counter, Index, delinearised, linear, of
from mgn.passes.kernels.index_maps import broadcast_index
from mgn.passes.lower_kernels.core.movement import clamped_id
from mgn.passes.lower_kernels.core.pure_code import INDEX
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.schedules.scatter import no_change


def lower_atomics(job: Job) -> Launch:
    """Writes a scatter whose work-items combine numbers where they lie."""
    return _Atomics(job).write()


@dataclass(frozen=True)
class _Element:
    """An element: whether there is one, the place it is meant for, and that place's cell."""

    inside: SSAValue | bool
    number: Index
    place: SSAValue
    cell: SSAValue


class _Atomics:
    def __init__(self, job: Job) -> None:
        self.job, self.code = job, job.code
        (self.node,) = job.body.of_kind(Kind.SCATTER)
        self.x, self.ids, self.src = self.node.operands
        (self.result,) = job.outputs
        self.adds = self.node.values["combine"] == ADD
        self.items, self.each = job.entry("items"), job.entry("each")
        self.trips, self.cells = job.entry("trips"), job.entry("cells")
        self.part = self.items * self.each * self.trips
        self.groups = ceil_div(self.src.count, self.part)
        code = self.code
        self.owners, self.found = (code.local(i32, self.cells) for _ in range(2))
        group = code.counter(kernel.GroupIdOp, 0, self.groups)
        self.begin = (group * -1 + (self.groups - 1)) * self.part
        self.item = code.counter(kernel.LocalIdOp, 0, self.items)

    def write(self) -> Launch:
        code = self.code
        self._each_cell(self._clear)
        code.barrier()
        code.each(0, self.trips, lambda trip: self._own_cells(self._elements(trip)))
        code.barrier()
        code.each(0, self.trips, lambda trip: self._combine(self._elements(trip)))
        code.barrier()
        self._each_cell(self._hand_over)
        pair = (self.x.number, len(self.job.body.inputs))
        size = self.groups * self.items
        return Launch((size,), (self.items,), in_place=(pair,), starts_as=(pair,))

    # Elements

    def _elements(self, trip: Index) -> list[_Element]:
        """Some elements of the group, which a work-item reads together."""
        first = (trip * -self.each + (self.trips - 1) * self.each) * self.items
        places = [first + (self.each - 1 - n) * self.items + self.item for n in range(self.each)]
        return [self._element(self.begin + place) for place in places]

    def _element(self, number: Index) -> _Element:
        code, evaluator = self.code, self.job.evaluator()
        own = code.known(number.clamp(0, self.src.count - 1), self.src.count)
        axis, index = self.node.values["axis"], delinearised(own, self.src.shape)
        value = evaluator.at(self.ids, broadcast_index(index, self.ids.shape))
        last = self.node.shape[axis] - 1
        named = of(Counter(clamped_id(evaluator, self.ids, value, last), 0, last))
        place = linear((*index[:axis], named, *index[axis + 1 :]), self.node.shape)
        place = code.convert("index_cast", code.index(place), i32)
        cell = code.binary(arith.AndIOp, place, code.constant(self.cells - 1, i32))
        cell = code.convert("index_cast", cell, INDEX)
        return _Element(code.is_below(number, self.src.count, 1), own, place, cell)

    def _own_cells(self, elements: list[_Element]) -> None:
        for element in elements:
            own = kernel.Combine.MAX, element.place, self.owners, element.cell
            self.code.when(element.inside, lambda own=own: self._combine_at(*own))

    def _combine(self, elements: list[_Element]) -> None:
        read = [(element, self._value(element)) for element in elements]
        for element, value in read:
            own = element, value
            self.code.when(element.inside, lambda own=own: self._combine_one(*own))

    def _value(self, element: _Element) -> SSAValue:
        index = delinearised(element.number, self.src.shape)
        return self.job.evaluator().lanes_at(self.src, index)

    def _combine_one(self, element: _Element, value: SSAValue) -> None:
        code = self.code
        owner = code.load(self.owners, element.cell)
        place = code.convert("index_cast", element.place, INDEX)
        code.branch(
            code.compare_integers("eq", owner, element.place),
            lambda: self._join_at(value, self.found, element.cell),
            lambda: self._join_at(value, self.result, place),
        )

    # Cells

    def _each_cell(self, body: Callable[[SSAValue], None]) -> None:
        for step in range(ceil_div(self.cells, self.items)):
            cell = self.item + step * self.items
            own = self.code.index(cell)
            self.code.when(self.code.is_below(cell, self.cells, 1), lambda own=own: body(own))

    def _clear(self, cell: SSAValue) -> None:
        code = self.code
        nothing = no_change(self.node.values["combine"], self.node.element)
        code.store(code.constant(-1, i32), self.owners, cell)
        code.store(code.constant(nothing, i32), self.found, cell)

    def _hand_over(self, cell: SSAValue) -> None:
        code = self.code
        place = code.load(self.owners, cell)

        def put() -> None:
            there = code.convert("index_cast", place, INDEX)
            self._join_at(code.load(self.found, cell), self.result, there)

        code.when(code.compare_integers("sge", place, code.constant(0, i32)), put)

    # Combining

    def _join_at(self, value: SSAValue, buffer: SSAValue, index: SSAValue) -> None:
        kind = kernel.Combine.ADD if self.adds else kernel.Combine.MAX
        self._combine_at(kind, value, buffer, index)

    def _combine_at(
        self, kind: kernel.Combine, value: SSAValue, buffer: SSAValue, index: SSAValue
    ) -> None:
        """Combines a number with one in memory, but where a larger one is there already: it stays,
        even where what is read of it is old.
        """
        code = self.code

        def combine() -> None:
            code.effect(
                kernel.CombineAtOp,
                [value, buffer, index],
                properties={"kind": kernel.CombineAttr(kind)},
            )

        if kind is kernel.Combine.ADD:
            combine()
            return
        there = code.load(buffer, index)
        code.when(code.compare_integers("slt", there, value), combine)
