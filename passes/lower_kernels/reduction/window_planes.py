"""Reductions of windows on a CPU: depthwise convolutions and pooling.

A work-item copies a band of rows of one channel, with its padding, and walks the windows' elements
for vectors of neighbouring places, which read neighbours. Vectors lie in rows of places; where rows
are much shorter than a vector, over all rows of the copy, padding between them included, and what
they come to is stored, and written row by row.
"""

from collections.abc import Callable, Sequence
from math import prod

from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from mgn.dialects import kernel
from mgn.dialects.mgn.operation import Kind
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.body import Indices, Node
from mgn.passes.kernels.index import ZERO, Index, constant, delinearised, lanes
from mgn.passes.kernels.index_maps import reshaped_index
from mgn.passes.kernels.rows import RowSpace
from mgn.passes.kernels.window_planes import (
    MOST_ELEMENTS,
    WRITTEN_OUT,
    Band,
    WindowPlanes,
    planes_of_reduction,
)
from mgn.passes.lower_kernels.core.evaluate import Evaluator
from mgn.passes.lower_kernels.core.product import tile_start
from mgn.passes.lower_kernels.core.pure_code import memory_type
from mgn.passes.lower_kernels.core.scalar import total_of
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.reduction.stage import Stage
from mgn.passes.lower_kernels.reduction.weighted_sums import with_element
from mgn.passes.lower_kernels.staging.plane_copies import PlaneCopy


def lower_window_planes(job: Job, space: RowSpace) -> Launch:
    """Writes a reduction of windows. VerifyException where it is none."""
    planes = planes_of_reduction(job.body, space)
    if planes is None:
        raise VerifyException("fusion.kernel: no windows are reduced, as the schedule says")
    return _Windows(job, space, planes).write()


class _Windows:
    def __init__(self, job: Job, space: RowSpace, planes: WindowPlanes) -> None:
        self.job, self.space, self.planes, self.code = job, space, planes, job.code
        (self.node,) = job.body.of_kind(Kind.REDUCTION)
        self.stage = Stage(job.code, [self.node])
        self.band = Band(planes, job.entry("band"))
        self.width, self.write_width = job.entry("width"), job.entry("write_width")
        self.rows, self.vectors = job.entry("tile_rows"), job.entry("tile_vectors")
        held = self.width * self.vectors
        type = memory_type(planes.source.element)
        self.buffer = job.code.local(type, self.band.size + held)
        self.copy = PlaneCopy(job, self.band, self.buffer)

    def write(self) -> Launch:
        code, band = self.code, self.band
        channels, bands = prod(self.planes.outer), ceil_div(self.planes.places[0], band.rows)
        tasks, block = channels * bands, self.job.entry("block")
        items = ceil_div(tasks, block)
        item = code.counter(kernel.GlobalIdOp, 0, items)
        self.copy.clear()

        def one_band(task: Index) -> None:
            outer = delinearised(task // bands, self.planes.outer)
            first = tile_start(code, task % bands, band.rows, self.planes.places[0])
            self.copy.copy(outer, first)
            code.forget_loads()
            self._over_rows(outer, first) if self.job.entry("over_rows") else self._in_rows(
                outer, first
            )

        code.each_own(item, block, tasks, one_band)
        return Launch((items,))

    def _sums(self, outer: Indices, places: Sequence[Index]) -> list[SSAValue]:
        """What windows come to whose elements lie from places of the copy on."""
        code, width = self.code, self.width
        evaluators = [self.job.evaluator(width) for _ in places]

        def add(y: Index, x: Index, held: list[SSAValue]) -> list[SSAValue]:
            element = self.planes.index_of(y, x)
            own = self.band.element(y, x)
            result: list[SSAValue] = []
            for evaluator, place, total in zip(evaluators, places, held, strict=True):
                value = evaluator.load(self.buffer, place + own + lanes(width))
                evaluator.given[self.planes.view] = lambda _, value=value: value
                at = self.planes.index_of(ZERO, place + own + lanes(width))
                result += with_element(self.stage, [total], evaluator, (*outer, *element, *at))
            return result

        held = self._over_elements(add, self.stage.start(width) * len(places))
        return [total_of(code, self.node, value) for value in held]

    def _over_elements(
        self,
        add: Callable[[Index, Index, list[SSAValue]], list[SSAValue]],
        held: list[SSAValue],
    ) -> list[SSAValue]:
        """Goes over the elements of windows, row by row; those of large windows in loops."""
        rows, columns = self.planes.kernel
        together = columns if columns <= MOST_ELEMENTS else WRITTEN_OUT

        def written_out(y: Index, start: Index, count: int, held: list[SSAValue]) -> list[SSAValue]:
            for x in range(count):
                held = add(y, start + x, held)
            return held

        def row(y: Index, held: list[SSAValue]) -> list[SSAValue]:
            held = self.code.loop(
                0,
                columns // together,
                lambda n, held: written_out(y, n * together, together, held),
                held,
            )
            rest = columns % together
            return written_out(y, constant(columns - rest), rest, held)

        if rows * columns > MOST_ELEMENTS:
            return self.code.loop(0, rows, row, held)
        for y in range(rows):
            held = row(constant(y), held)
        return held

    def _in_rows(self, outer: Indices, first: Index) -> None:
        """Tiles of a few rows of places and a few vectors of each."""
        code, columns, width = self.code, self.planes.places[1], self.width
        down = ceil_div(self.band.rows, self.rows)
        across = ceil_div(ceil_div(columns, width), self.vectors)

        def tile(row_tile: Index, column_tile: Index) -> None:
            top = tile_start(code, row_tile, self.rows, self.band.rows)
            at = [(top + row, self._column(column_tile, part)) for row in range(self.rows)
                  for part in range(self.vectors)]  # fmt: skip
            sums = self._sums(outer, [y * self.band.stride + x for y, x in at])
            for (y, x), total in zip(at, sums, strict=True):
                evaluator = self.job.evaluator(width)
                self._write(evaluator, outer, first + y, x, lambda _, total=total: total)

        code.each(0, down, lambda y: code.each(0, across, lambda x: tile(y, x)))

    def _column(self, tile: Index, part: int) -> Index:
        """Where a vector of a tile begins; the last ones end with the row, and so overlap."""
        start = tile * (self.vectors * self.width) + part * self.width
        return self.code.bounded(start, self.planes.places[1] - self.width + 1)

    def _over_rows(self, outer: Indices, first: Index) -> None:
        """Vectors over all rows of the copy, then what they came to, row by row."""
        code, columns, width = self.code, self.planes.places[1], self.width
        stride = self.band.stride
        tiles = ceil_div(self.band.rows * stride, width * self.vectors)
        type = memory_type(self.node.element)
        found = code.local(type, tiles * width * self.vectors)

        def tile(number: Index) -> None:
            places = [number * (width * self.vectors) + n * width for n in range(self.vectors)]
            for place, total in zip(places, self._sums(outer, places), strict=True):
                code.store(total, found, code.index(place))

        code.each(0, tiles, tile)
        narrow = self.write_width
        starts = [min(n * narrow, columns - narrow) for n in range(ceil_div(columns, narrow))]

        def row(y: Index) -> None:
            for x in map(constant, starts):
                evaluator = self.job.evaluator(narrow)
                place = code.index(y * stride + x)
                total = code.load(found, place, narrow)
                self._write(evaluator, outer, first + y, x, lambda _, total=total: total)

        code.each(0, self.band.rows, row)

    def _write(
        self,
        evaluator: Evaluator,
        outer: Indices,
        y: Index,
        x: Index,
        given: Callable[[Indices], SSAValue],
    ) -> None:
        """What follows, for a vector of places of a row."""
        evaluator.given[self.node] = given
        y = self.code.known(y, self.planes.places[0])
        at = (*outer, *self.planes.index_of(y, x + lanes(evaluator.lanes)))

        def index_of(node: Node) -> Indices:
            return reshaped_index(at, self.space.kept_shape, node.shape)

        self.job.write_at(evaluator, index_of)
