"""Transposes on a GPU: the pointwise template in tiles that pass through local memory.

In: a body in which an operand is contiguous along another axis than the results. Out: a kernel
whose work-groups take a tile each. Such operands are read along their own contiguous axis into
local memory, whose rows are padded against bank conflicts; after a barrier the body is evaluated
along the results' contiguous axis. So both sides move whole segments of global memory.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod

from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.passes.kernels.arithmetic import ceil_div, dividing_lanes
from mgn.passes.kernels.index import (
    ZERO,
    Clamped,
    Counter,
    Index,
    Quotient,
    Remainder,
    delinearised,
    lanes,
    linear,
    of,
)
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.core.evaluate import Evaluator
from mgn.passes.lower_kernels.core.pure_code import memory_type
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.schedules.pointwise import PointwiseVariant
from mgn.passes.schedules.transposes import SEGMENT, turned_loads


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
    """Reads transposed operands from local memory."""

    def __init__(self, code: Code, buffers: Sequence[SSAValue], width: int) -> None:
        super().__init__(code, buffers, width)
        self.tiles: dict[tuple[object, ...], tuple[SSAValue, Index]] = {}

    def load(self, buffer: SSAValue, index: Index) -> SSAValue:
        found = self.tiles.get(_key(buffer, index))
        return super().load(*(found or (buffer, index)))


class Tiles:
    """A kernel of groups that take a tile each, of `rows` along the transposed operands' contiguous
    axis and `columns` along the results'.

    Where an axis' length is no multiple of a vector's, lines begin inside segments of memory. A
    sub-group then reads or writes whole segments: the first may begin before the tile's line, the
    last may end after it.
    """

    def __init__(self, job: Job, shape: tuple[int, ...]) -> None:
        self.job, self.shape, self.code = job, shape, job.code
        self.axis = job.entry("axis")
        self.transposed = turned_loads(job.body, shape, self.axis)
        self.along, self.inner = shape[self.axis], shape[-1]
        most = job.number("lanes", 4)
        self.row_width = dividing_lanes(self.along, most)
        self.column_width = dividing_lanes(self.inner, most)
        self.rows, self.columns = job.entry("tile_rows"), job.entry("tile_columns")
        self.items = job.entry("items")
        segments = job.variant(PointwiseVariant) is PointwiseVariant.SEGMENTS
        self.rows_are_ragged = segments and self.row_width < most
        self.columns_are_ragged = segments and self.column_width < most
        self.pitch = self.rows + 1

    def begin(self, overlap: int = 0) -> Launch:
        """Finds the group's tile and makes room for it; neighbours share `overlap` columns of the
        transposed operands.
        """
        code, shape = self.code, self.shape
        across = ceil_div(self.inner + overlap, self.columns)
        down = ceil_div(self.along, self.rows)
        others = tuple(size for n, size in enumerate(shape[:-1]) if n != self.axis)
        groups = prod(others) * across * down
        group = code.counter(kernel.GroupIdOp, 0, groups)
        self.place = code.counter(kernel.LocalIdOp, 0, self.items)
        self.first_column = group % across * self.columns
        self.first_row = group // across % down * self.rows
        self.outer = list(delinearised(group // (across * down), others))
        room = self.pitch * (self.columns + overlap)
        elements = [self.job.body.inputs[load.number].element for load in self.transposed.loads]
        self.memory = [code.local(memory_type(element), room) for element in elements]
        return Launch((groups * self.items,), (self.items,))

    def lower(self) -> Launch:
        """Writes the kernel."""
        launch = self.begin()
        if self.rows_are_ragged:
            self._fetch_segments()
        else:
            for step in range(self._steps(self.row_width)):
                self._fetch(step)
        self.code.barrier()
        if self.columns_are_ragged:
            self._write_segments()
        else:
            for step in range(self._steps(self.column_width)):
                self._results(step)
        return launch

    def _steps(self, width: int) -> int:
        return self.rows * self.columns // (width * self.items)

    def _own(self, step: int, width: int, length: int) -> tuple[Index, Index]:
        """A step's vector along the tile's lines of a length, and its line."""
        vectors, number = length // width, self.place + step * self.items
        return number % vectors, number // vectors

    def bounded(self, start: Index, count: int) -> Index:
        """The number, or the last one below a count where the number is not below it."""
        if start.high < count:
            return start
        return self.code.known(start.clamp(0, count - 1), count)

    def values(self, row: Index, column: Index) -> dict[Counter, Index]:
        """What the plan's counters are in the tile."""
        index = [*self.outer[: self.axis], row, *self.outer[self.axis :], column]
        return dict(zip(self.transposed.counters, index, strict=True))

    def _fetch(self, step: int) -> None:
        """Vectors along the rows' axis, into local memory in the order they lie in memory."""
        code, width = self.code, self.row_width
        vector, line = self._own(step, width, self.rows)
        vectors = self.along // width
        start = self.bounded(self.first_row // width + vector, vectors)
        column = self.bounded(self.first_column + line, self.inner)
        values = self.values(start * width + lanes(width), column)
        evaluator = self.job.evaluator(width)
        for load, buffer in zip(self.transposed.loads, self.memory, strict=True):
            source = self.job.inputs[load.number]
            value = evaluator.load(source, substituted(load.index, values))
            code.store(value, buffer, code.index(line * self.pitch + vector * width))

    def _results(self, step: int) -> None:
        width = self.column_width
        vector, line = self._own(step, width, self.columns)
        number, row = self.first_column // width + vector, self.first_row + line
        vectors = self.inner // width

        def inside() -> None:
            column = self.bounded(number, vectors) * width + lanes(width)
            self.write(width, row, column, (vector * width + lanes(width)) * self.pitch + line)

        below = self.code.is_below(number, vectors, 1)
        self.code.when(
            self.code.is_below(row, self.along, 1), lambda: self.code.when(below, inside)
        )

    def write(self, width: int, row: Index, column: Index, place: Index) -> None:
        """Evaluates and stores the results at an index; `place` is where local memory has it."""
        here = self.bounded(row, self.along)
        values = self.values(here, column)
        evaluator = _TileEvaluator(self.code, self.job.inputs, width)
        for load, buffer in zip(self.transposed.loads, self.memory, strict=True):
            source = self.job.inputs[load.number]
            key = _key(source, substituted(load.index, values))
            evaluator.tiles[key] = (buffer, place)
        index = tuple(values[counter] for counter in self.transposed.counters)
        self.job.write_at(evaluator, lambda _: index)

    # Lines that begin anywhere in a segment

    def _lines(self, count: int) -> list[Index]:
        """The lines, of so many, that the work-item's sub-group takes."""
        sub_groups = self.items // SEGMENT
        return [self.place // SEGMENT + step * sub_groups for step in range(count // sub_groups)]

    def _pieces(self, start: Index, length: int) -> list[tuple[Index, list[SSAValue | bool]]]:
        """For each segment that overlaps a line: the work-item's place in the line, and the tests
        that hold where the line has that place.
        """
        code, shift = self.code, start % SEGMENT
        pieces: list[tuple[Index, list[SSAValue | bool]]] = []
        for number in range(length // SEGMENT + 1):
            own = self.place % SEGMENT + number * SEGMENT - shift
            tests = [code.is_below(own * -1, 1, 1), code.is_below(own, length, 1)]
            pieces.append((own, tests))
        return pieces

    def _fetch_segments(self) -> None:
        """Whole segments along the rows' axis: all are under way before the first is stored."""
        code, evaluator = self.code, self.job.evaluator(1)
        loaded: list[tuple[SSAValue, SSAValue, Index, list[SSAValue | bool]]] = []
        for line in self._lines(self.columns):
            column = self.bounded(self.first_column + line, self.inner)
            for load, buffer in zip(self.transposed.loads, self.memory, strict=True):
                source = self.job.inputs[load.number]
                start = substituted(load.index, self.values(self.first_row, column))
                for own, tests in self._pieces(start, self.rows):
                    row = self.bounded(self.first_row + own.clamp(0, self.rows - 1), self.along)
                    place = substituted(load.index, self.values(row, column))
                    value = evaluator.load(source, place)
                    loaded.append((value, buffer, line * self.pitch + own, tests))
        for value, buffer, place, tests in loaded:
            self._when(
                tests,
                lambda value=value, buffer=buffer, place=place: code.store(
                    value, buffer, code.index(place)
                ),
            )

    def _write_segments(self) -> None:
        """Whole segments along the results' contiguous axis."""
        code = self.code
        result = self.job.body.written[0]
        for line in self._lines(self.rows):
            row = self.first_row + line
            values = self.values(row, self.first_column)
            index = tuple(values[counter] for counter in self.transposed.counters)
            inside = code.is_below(row, self.along, 1)
            for own, tests in self._pieces(linear(index, result.shape), self.columns):
                column = self.first_column + own
                tests = [inside, *tests, code.is_below(column, self.inner, 1)]

                def put(own: Index = own, row: Index = row, column: Index = column) -> None:
                    place = own.clamp(0, self.columns - 1) * self.pitch + (row - self.first_row)
                    self.write(1, row, self.bounded(column, self.inner), place)

                self._when(tests, put)

    def _when(self, tests: Sequence[SSAValue | bool], body: Callable[[], object]) -> None:
        """Runs a body where all tests hold."""
        if not tests:
            body()
            return
        self.code.when(tests[0], lambda: self._when(tests[1:], body))
