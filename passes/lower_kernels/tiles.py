"""Transposes on a GPU: the pointwise template in tiles that pass through local memory.

In: a body in which an operand is contiguous along another axis than the results. Out: a kernel
whose work-groups take a tile each. Such operands are read along their own contiguous axis into
local memory, whose rows are padded against bank conflicts; after a barrier the body is evaluated
along the results' contiguous axis. So both sides move whole segments of global memory.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import Block, SSAValue

from mgn.dialects import kernel
from mgn.passes.lower_kernels.body import Body
from mgn.passes.lower_kernels.emission import INDEX, Code, memory_type
from mgn.passes.lower_kernels.evaluate import Evaluator
from mgn.passes.lower_kernels.index import (
    ZERO,
    Clamped,
    Counter,
    Index,
    Quotient,
    Remainder,
    delinearised,
    lanes,
    of,
)
from mgn.passes.lower_kernels.squares import Probe, is_plain
from mgn.passes.lower_kernels.template import Job, Launch, ceil_div, dividing_lanes

TILE_BYTES = 256
"""The length of a tile's rows in memory."""

MOST_TURNED = 2
"""How many operands may pass through local memory."""

LEAST_TILE = 16
"""Axes shorter than this do not fill a tile."""


@dataclass(frozen=True)
class Turned:
    """A load that a tile's local memory serves: the input, and its index in plain counters."""

    number: int
    index: Index


@dataclass(frozen=True)
class Plan:
    """The axis along which turned operands are contiguous, their loads, and the counters used."""

    axis: int
    turned: tuple[Turned, ...]
    counters: tuple[Counter, ...]
    tile: int


def tile_plan(body: Body, shape: tuple[int, ...]) -> Plan | None:
    """How to tile a body; None where tiles do not help."""
    turns = any(node.name == "transpose" for node in body.nodes)
    if not turns or len(shape) < 2 or shape[-1] < LEAST_TILE:
        return None
    code = Code(Block(arg_types=[INDEX] * len(shape)))
    counters = tuple(Counter(code.block.args[n], 0, size - 1) for n, size in enumerate(shape))
    buffers = Block(arg_types=[memory_type(node.element) for node in body.inputs])
    places: list[SSAValue] = list(buffers.args)
    probe = Probe(code, places)
    for node in body.written:
        probe.at(node, tuple(of(counter) for counter in counters))
    for axis, counter in enumerate(counters[:-1]):
        if shape[axis] < LEAST_TILE:
            continue
        turned = [
            Turned(places.index(buffer), index)
            for buffer, index in probe.loads
            if _is_turned(index, counter, counters[-1])
        ]
        turned = list(dict.fromkeys(turned))
        if 1 <= len(turned) <= MOST_TURNED:
            bytes_of = max(body.inputs[load.number].element.bytes for load in turned)
            return Plan(axis, tuple(turned), counters, min(64, TILE_BYTES // bytes_of))
    return None


def _is_turned(index: Index, row: Counter, column: Counter) -> bool:
    strides = dict(index.terms)
    plain = is_plain(index, row) and is_plain(index, column)
    return plain and strides.get(row) == 1 and strides.get(column, 0) not in (0, 1)


def substituted(index: Index, values: Mapping[Counter, Index]) -> Index:
    """The index with other indices in place of counters."""
    total = ZERO + index.constant
    for atom, coefficient in index.terms:
        if isinstance(atom, Counter):
            value = values[atom]
        elif isinstance(atom, Quotient):
            value = substituted(atom.inner, values) // atom.divisor
        elif isinstance(atom, Remainder):
            value = substituted(atom.inner, values) % atom.divisor
        elif isinstance(atom, Clamped):
            value = substituted(atom.inner, values).clamp(atom.low, atom.high)
        else:
            value = of(atom)
        total = total + value * coefficient
    return total


def _key(buffer: SSAValue, index: Index) -> tuple[object, ...]:
    return buffer, frozenset(index.terms), index.constant


class _TileEvaluator(Evaluator):
    """Reads turned operands from local memory."""

    def __init__(self, code: Code, buffers: Sequence[SSAValue], width: int) -> None:
        super().__init__(code, buffers, width)
        self.tiles: dict[tuple[object, ...], tuple[SSAValue, Index]] = {}

    def load(self, buffer: SSAValue, index: Index) -> SSAValue:
        found = self.tiles.get(_key(buffer, index))
        return super().load(*(found or (buffer, index)))


def lower_tiles(job: Job, shape: tuple[int, ...], plan: Plan) -> Launch:
    """Writes a pointwise kernel of work-groups that take a tile each."""
    return _Tiled(job, shape, plan).write()


class _Tiled:
    def __init__(self, job: Job, shape: tuple[int, ...], plan: Plan) -> None:
        self.job, self.shape, self.plan, self.code = job, shape, plan, job.code
        self.along, self.inner, self.tile = shape[plan.axis], shape[-1], plan.tile
        most = job.number("lanes", 4)
        self.row_width = dividing_lanes(self.along, most)
        self.column_width = dividing_lanes(self.inner, most)
        self.items = min(job.number("local", 256), self.tile * self.tile // most)

    def write(self) -> Launch:
        code, plan, shape = self.code, self.plan, self.shape
        across, down = ceil_div(self.inner, self.tile), ceil_div(self.along, self.tile)
        others = tuple(size for n, size in enumerate(shape[:-1]) if n != plan.axis)
        groups = prod(others) * across * down
        group = code.counter(kernel.GroupIdOp, 0, groups)
        self.place = code.counter(kernel.LocalIdOp, 0, self.items)
        self.first_column = group % across * self.tile
        self.first_row = group // across % down * self.tile
        self.outer = list(delinearised(group // (across * down), others))
        pitch = self.tile + 1
        memory = [
            code.local(memory_type(self.job.body.inputs[load.number].element), pitch * self.tile)
            for load in plan.turned
        ]
        for step in range(self._steps(self.row_width)):
            self._fetch(step, memory, pitch)
        code.barrier()
        for step in range(self._steps(self.column_width)):
            self._results(step, memory, pitch)
        return Launch((groups * self.items,), (self.items,))

    def _steps(self, width: int) -> int:
        return self.tile * self.tile // (width * self.items)

    def _own(self, step: int, width: int) -> tuple[Index, Index]:
        """A step's vector along the tile's rows, and its row."""
        vectors = self.tile // width
        return self.place % vectors, self.place // vectors + step * (self.items // vectors)

    def _bounded(self, start: Index, count: int) -> Index:
        if start.high < count:
            return start
        clamped = self.code.index(start.clamp(0, count - 1))
        return of(Counter(clamped, 0, count - 1))

    def _values(self, row: Index, column: Index) -> dict[Counter, Index]:
        index = [*self.outer[: self.plan.axis], row, *self.outer[self.plan.axis :], column]
        return dict(zip(self.plan.counters, index, strict=True))

    def _fetch(self, step: int, memory: Sequence[SSAValue], pitch: int) -> None:
        """Vectors along the rows' axis, into local memory in the order they lie in memory."""
        code, width = self.code, self.row_width
        vector, line = self._own(step, width)
        vectors = self.along // width
        start = self._bounded(self.first_row // width + vector, vectors)
        column = self._bounded(self.first_column + line, self.inner)
        values = self._values(start * width + lanes(width), column)
        evaluator = self.job.evaluator(width)
        for load, buffer in zip(self.plan.turned, memory, strict=True):
            source = self.job.inputs[load.number]
            value = evaluator.load(source, substituted(load.index, values))
            code.store(value, buffer, code.index(line * pitch + vector * width))

    def _results(self, step: int, memory: Sequence[SSAValue], pitch: int) -> None:
        code, width = self.code, self.column_width
        vector, line = self._own(step, width)
        number, row = self.first_column // width + vector, self.first_row + line
        vectors = self.inner // width

        def inside() -> None:
            column = self._bounded(number, vectors) * width + lanes(width)
            here = self._bounded(row, self.along)
            values = self._values(here, column)
            evaluator = _TileEvaluator(code, self.job.inputs, width)
            for load, buffer in zip(self.plan.turned, memory, strict=True):
                source = self.job.inputs[load.number]
                place = (vector * width + lanes(width)) * pitch + line
                key = _key(source, substituted(load.index, values))
                evaluator.tiles[key] = (buffer, place)
            index = tuple(values[counter] for counter in self.plan.counters)
            self.job.write(
                evaluator, [(n, node, index) for n, node in enumerate(self.job.body.written)]
            )

        below = code.is_below(number, vectors, 1)
        code.when(code.is_below(row, self.along, 1), lambda: code.when(below, inside))
