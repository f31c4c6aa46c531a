"""The recurrence template: a work-group walks the steps of a few samples, in one direction.

Each work-item sums up all gates of its own hidden elements, over the states before, which lie in
local memory; what the cell makes of them is the state after, in the other half of that memory. A
barrier lies between two steps. The cell itself is read from its definition in the language.
"""

from collections.abc import Callable, Sequence

from xdsl.ir import Block, SSAValue

from mgn.dialects import kernel
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.operations.recurrences.recurrence import DIRECTIONS, Cell
from mgn.dialects.types import ElementType, tensor
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.body import Body, Indices, read_block
from mgn.passes.kernels.index import ZERO, Counter, Index, constant, lanes, linear, of
from mgn.passes.lower_kernels.core.evaluate import Evaluator
from mgn.passes.lower_kernels.core.product import multiply_add
from mgn.passes.lower_kernels.core.pure_code import memory_type
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.schedules.recurrence import cell_of, recurrence_of


def lower_recurrence(job: Job) -> Launch:
    """Writes a recurrence kernel."""
    return _Loop(job).write()


class _Loop:
    def __init__(self, job: Job) -> None:
        self.job, self.code = job, job.code
        self.node = recurrence_of(job.body)
        self.cell = cell_of(self.node)
        self.given, self.weights, *rest = self.node.operands
        self.first, self.bias = rest[: self.cell.states], rest[self.cell.states :]
        self.steps = self.given.shape[0]
        _, self.many, self.samples, self.size = self.node.shape
        self.width, self.items, self.rows = (job.entry(name) for name in ("width", "items", "rows"))
        self.chunks = self.size // self.width
        self.evaluator = job.evaluator(self.width)
        self.type = memory_type(self.node.element)
        self.held = self.rows * self.size

    def write(self) -> Launch:
        code = self.code
        blocks = ceil_div(self.samples, self.rows)
        group = code.counter(kernel.GroupIdOp, 0, self.many * blocks)
        self.item = code.counter(kernel.LocalIdOp, 0, self.items)
        self.states = code.local(self.type, 2 * self.held)
        self.kept = [code.local(self.type, self.held) for _ in self.first[1:]]
        start = group % blocks * self.rows
        self.sample = [code.bounded(start + n, self.samples) for n in range(self.rows)]
        self._walk(group // blocks)
        return Launch((self.many * blocks * self.items,), (self.items,))

    def _walk(self, direction: Index) -> None:
        """All steps of the group's samples, in its direction."""
        code = self.code
        self._each_chunk(lambda place: self._begin(direction, place))
        self._wait()

        def step(number: Index) -> None:
            time = self._time(number, direction)
            half = number % 2 * self.held
            self._each_chunk(lambda place: self._step(direction, time, half, place))
            self._wait()

        code.each(0, self.steps, step)
        if self.kept:
            self._each_chunk(lambda place: self._end(direction, place))

    def _time(self, number: Index, direction: Index) -> Index:
        """The place of a step along the axis of time."""
        backwards, *others = DIRECTIONS[self.node.values["direction"]]
        turned = number * -1 + (self.steps - 1)
        if not others:
            return turned if backwards else number
        code = self.code
        first = code.is_below(direction, 1, 1)
        value = code.select(first, code.index(number), code.index(turned))
        return of(Counter(value, 0, self.steps - 1))

    def _each_chunk(self, body: Callable[[Index], None]) -> None:
        """Runs a body for the first element of each vector that the work-item has."""
        code = self.code

        def trip(number: Index) -> None:
            chunk = number * self.items + self.item
            within = code.is_below(chunk, self.chunks, 1)
            code.when(within, lambda: body(code.bounded(chunk, self.chunks) * self.width))

        code.each(0, ceil_div(self.chunks, self.items), trip)

    def _wait(self) -> None:
        """Until all work-items of the group have written."""
        if self.items > 1:
            self.code.barrier()

    def _begin(self, direction: Index, place: Index) -> None:
        """The states before the first step."""
        for n, sample in enumerate(self.sample):
            index = (direction, sample, place + lanes(self.width))
            for memory, first in zip((self.states, *self.kept), self.first, strict=True):
                value = self.evaluator.lanes_at(first, index)
                self._store(value, memory, place + n * self.size)

    def _step(self, direction: Index, time: Index, half: Index, place: Index) -> None:
        """The states after a step, of a vector of each sample."""
        own = self._sums(direction, half, place)
        for n, sample in enumerate(self.sample):
            given = [
                self.evaluator.lanes_at(
                    self.given, (time, sample, self._column(direction, g, place))
                )
                for g in range(self.cell.gates)
            ]
            kept = [self._load(memory, place + n * self.size) for memory in self.kept]
            before = self._load(self.states, half + place + n * self.size)
            after, *others = self._cell(given, own[n], [before, *kept])
            self._store(after, self.states, half * -1 + self.held + place + n * self.size)
            for value, memory in zip(others, self.kept, strict=True):
                self._store(value, memory, place + n * self.size)
            self._write(after, (time, direction, sample, place))

    def _end(self, direction: Index, place: Index) -> None:
        """The other state after the last step."""
        for n, sample in enumerate(self.sample):
            value = self._load(self.kept[0], place + n * self.size)
            self._write(value, (constant(self.steps), direction, sample, place))

    def _sums(self, direction: Index, half: Index, place: Index) -> list[list[SSAValue]]:
        """What the state before contributes to each gate of each sample."""
        code, gates = self.code, self.cell.gates
        if self.bias:
            line = [
                self.evaluator.lanes_at(self.bias[0], (direction, self._column(ZERO, g, place)))
                for g in range(gates)
            ]
        else:
            line = [code.constant(0.0, self.type, self.width)] * gates

        def term(k: Index, held: list[SSAValue]) -> list[SSAValue]:
            weights = [
                self.evaluator.lanes_at(self.weights, (direction, k, self._column(ZERO, g, place)))
                for g in range(gates)
            ]
            found: list[SSAValue] = []
            for n in range(self.rows):
                state = code.load(self.states, code.index(half + k + n * self.size))
                found += [
                    multiply_add(code, self.node.element, state, weights[g], held[n * gates + g])
                    for g in range(gates)
                ]
            return found

        sums = code.loop(0, self.size, term, line * self.rows)
        return [sums[n * gates : (n + 1) * gates] for n in range(self.rows)]

    def _column(self, direction: Index, gate: int, place: Index) -> Index:
        """Where the elements of a gate of a direction lie along the last axis."""
        first = direction * (self.cell.gates * self.size) + gate * self.size
        return place + first + lanes(self.width)

    def _cell(
        self, given: Sequence[SSAValue], own: Sequence[SSAValue], states: Sequence[SSAValue]
    ) -> list[SSAValue]:
        """The states after a step, by the definition of the cell."""
        body = cell_body(self.cell, self.node.element)
        evaluator = Evaluator(self.code, [], self.width)
        for node, value in zip(body.inputs, (*given, *own, *states), strict=True):
            evaluator.given[node] = lambda _, value=value: value
        return [evaluator.lanes_at(node, (constant(0),)) for node in body.written]

    def _load(self, memory: SSAValue, place: Index) -> SSAValue:
        return self.code.load(memory, self.code.index(place), self.width, place.multiple)

    def _store(self, value: SSAValue, memory: SSAValue, place: Index) -> None:
        self.code.store(value, memory, self.code.index(place), place.multiple)

    def _write(self, value: SSAValue, index: Indices) -> None:
        self._store(value, self.job.outputs[0], linear(index, self.node.shape))


def cell_body(cell: Cell, element: ElementType) -> Body:
    """A step of a cell on one element, as core operations."""
    type = tensor(element, (1,))
    block = Block(arg_types=[type] * (2 * cell.gates + cell.states))
    given, rest = block.args[: cell.gates], block.args[cell.gates :]
    states = cell.step(Emitter(block.add_op), given, rest[: cell.gates], rest[cell.gates :])
    return read_block(block, states)
