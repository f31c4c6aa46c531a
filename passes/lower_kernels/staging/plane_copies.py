"""Copies of bands of planes, with their padding, as windows read them.

In: a band, a channel and the band's first row of places. Out: stores into a local buffer; what
comes before the windows is evaluated on the way.
"""

from xdsl.dialects import vector
from xdsl.dialects.builtin import DenseArrayBase, VectorType, i64
from xdsl.ir import SSAValue

from mgn.passes.kernels.body import Indices
from mgn.passes.kernels.index import ZERO, Index, constant, lanes
from mgn.passes.kernels.window_planes import Band
from mgn.passes.lower_kernels.core.evaluate import Evaluator
from mgn.passes.lower_kernels.core.pure_code import memory_type, scalar_type
from mgn.passes.lower_kernels.core.template import Job


class PlaneCopy:
    """A local buffer that holds one band of one channel at a time, from an element `start` on."""

    def __init__(self, job: Job, band: Band, buffer: SSAValue, start: Index = ZERO) -> None:
        self.job, self.band, self.buffer, self.start = job, band, buffer, start
        planes = band.planes
        self.type = memory_type(planes.source.element)
        self.step = planes.strides[1]
        self.width = job.entry("lanes")
        while self.width > 1 and self.step * self.width > planes.size[1]:
            self.width //= 2

    def clear(self, count: int = 1) -> None:
        """Fills so many copies with padding; what lies beside rows of the source stays so."""
        code, size = self.job.code, count * self.band.size
        width = self.job.entry("lanes")
        while width > size:
            width //= 2
        value = code.constant(self.band.planes.value, self.type, width)

        def fill(first: Index) -> None:
            code.store(value, self.buffer, code.index(self.start + first))

        code.each(0, size // width, lambda number: fill(number * width))
        if size % width:
            fill(constant(size - width))

    def copy(self, outer: Indices, first: Index) -> None:
        """Copies a channel's rows of a band that begins with a row of places."""
        code, planes = self.job.code, self.band.planes
        wide = self.job.evaluator(self.width)

        def one_row(row: Index) -> None:
            y = first * planes.strides[0] + row - planes.low[0]
            inside = code.all_of([code.is_below(y * -1, 1, 1), code.is_below(y, planes.size[0], 1)])

            def present() -> None:
                self._row(wide, outer, code.known(y, planes.size[0]), row)

            code.branch(inside, present, lambda: self._no_row(row))

        code.each(0, self.band.source_rows, one_row)

    def _row(self, wide: Evaluator, outer: Indices, y: Index, row: Index) -> None:
        """Copies a row of the source, vectors of all phases at a time; the last ones overlap."""
        code, columns = self.job.code, self.band.planes.size[1]
        span = self.step * self.width

        def some(first: Index) -> None:
            for phase, value in enumerate(self._phases(wide, outer, y, first)):
                self._put(value, row, first + phase)

        code.each(0, columns // span, lambda number: some(number * span))
        if columns % span:
            some(constant(columns - span))

    def _phases(self, wide: Evaluator, outer: Indices, y: Index, first: Index) -> list[SSAValue]:
        """As many elements of each phase, from a column on."""
        planes, width = self.band.planes, self.width

        def part(number: int) -> SSAValue:
            x = first + number * width + lanes(width)
            return wide.lanes_at(planes.source, planes.source_index(outer, y, x))

        parts = [part(number) for number in range(self.step)]
        if self.step == 1 or width == 1:
            return parts
        return [self._phase(parts, phase) for phase in range(self.step)]

    def _phase(self, parts: list[SSAValue], phase: int) -> SSAValue:
        """The elements of a phase that neighbouring vectors have."""
        code, width = self.job.code, self.width
        type = VectorType(scalar_type(parts[0]), [width])
        places = [phase + self.step * lane for lane in range(width)]
        found, kept = parts[0], [place % width for place in places]
        for number, part in enumerate(parts[1:], 1):
            mask = [
                width + place % width if place // width == number else lane
                for lane, place in zip(kept, places, strict=True)
            ]
            properties = {"mask": DenseArrayBase.from_list(i64, mask)}
            found = code.pure(vector.ShuffleOp, [found, part], type, **properties)
            kept = list(range(width))
        return found

    def _no_row(self, row: Index) -> None:
        """Fills a row that the source has not with padding."""
        code, columns = self.job.code, self.band.planes.size[1]
        value = code.constant(self.band.planes.value, self.type, self.width)
        span = self.step * self.width

        def some(first: Index) -> None:
            for phase in range(self.step):
                self._put(value, row, first + phase)

        code.each(0, columns // span, lambda number: some(number * span))
        if columns % span:
            some(constant(columns - span))

    def _put(self, value: SSAValue, row: Index, column: Index) -> None:
        code = self.job.code
        place = self.start + self.band.at(row, column + self.band.planes.low[1])
        code.store(value, self.buffer, code.index(place))
