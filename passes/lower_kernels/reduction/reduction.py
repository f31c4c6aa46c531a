"""The reduction template: rows, each walked once for every stage of dependent reductions.

CPU: a work-item takes rows. Where the elements of a row are neighbours in memory, vectors run along
the row with four independent accumulators, or along two short rows side by side. Expensive
intermediate values (the exponentials of a softmax) are stored between stages: at the place of the
results, or in a private array. Where neighbours in memory belong to different rows, vectors run
across rows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.dialects.shifts import LARGEST
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.body import Body, Indices, Node
from mgn.passes.kernels.index import ZERO, Index, lanes, linear
from mgn.passes.kernels.rows import RowSpace, Stages, row_space, stages_of
from mgn.passes.lower_kernels.core.evaluate import Evaluator, Given
from mgn.passes.lower_kernels.core.long_sums import long_loop
from mgn.passes.lower_kernels.core.product import tile_start
from mgn.passes.lower_kernels.core.pure_code import memory_type
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.reduction.grouped_reduction import lower_grouped
from mgn.passes.lower_kernels.reduction.rows_ahead import RowsAhead
from mgn.passes.lower_kernels.reduction.sliding_tiles import lower_sliding_tiles
from mgn.passes.lower_kernels.reduction.stage import Stage
from mgn.passes.lower_kernels.reduction.window_planes import lower_window_planes
from mgn.passes.schedules.reduction.reduction import ReductionVariant

ACCUMULATORS = 4


def lower_reduction(job: Job) -> Launch:
    """Writes a reduction kernel as its schedule says."""
    match job.variant(ReductionVariant):
        case ReductionVariant.GROUPS:
            return lower_grouped(job)
        case ReductionVariant.ACROSS:
            return _across_rows(job, row_space(job.body))
        case ReductionVariant.ALONG:
            return _along_rows(job, row_space(job.body))
        case ReductionVariant.SLIDING:
            return lower_sliding_tiles(job, row_space(job.body))
        case ReductionVariant.PLANES:
            return lower_window_planes(job, row_space(job.body))


@dataclass(frozen=True)
class _Array:
    """Where a row's values are stored for the next stage: in the work-item's own array, or in a
    result of the same type, `home`, which is overwritten at the end.
    """

    buffer: SSAValue
    home: Node | None = None


class _Row:
    """One of the rows that are walked side by side: its values, and where its walk is."""

    def __init__(self, job: Job, space: RowSpace, row: Index, width: int, stages: int) -> None:
        self.row, self.space = row, space
        self.wide = job.evaluator(width)
        self.narrow = self.wide.with_lanes(1)
        self.ahead = RowsAhead(job, space, row, stages)
        self.arrays: list[_Array] = []
        self.at(self.narrow, ZERO)

    def at(self, evaluator: Evaluator, element: Index) -> None:
        """Moves on to an element."""
        self.evaluator, self.element = evaluator, element

    def index_of(self, node: Node) -> Indices:
        """The index of a node's value for the element."""
        return self.space.index_in(node, self.row, self.element)

    def read_back(self, stored: Sequence[Node]) -> None:
        """From here on, what was stored is read from its array."""
        for node, array in zip(stored, self.arrays, strict=True):
            self.wide.given[node] = self._from(array)

    def _from(self, array: _Array) -> Given:
        return lambda _: self.evaluator.load(array.buffer, self.place(array))

    def place(self, array: _Array) -> Index:
        """Where an array has the element."""
        home = array.home
        if home is None:
            return self.element
        return linear(self.index_of(home), home.shape)


class _Walk:
    """A walk down rows side by side: stages, then results. Vectors run along the rows."""

    def __init__(
        self,
        job: Job,
        space: RowSpace,
        stages: Stages,
        rows: Sequence[Index],
        width: int,
        homes: Mapping[Node, int],
    ) -> None:
        self.job, self.space, self.stages, self.width = job, space, stages, width
        self.code = job.code
        self.rows = [_Row(job, space, row, width, len(stages.reductions)) for row in rows]
        self.homes = homes

    def walk(self) -> None:
        """Writes the walk."""
        for reductions, stored in zip(self.stages.reductions, self.stages.stored, strict=True):
            for row in self.rows:
                row.arrays = [self._array(node) for node in stored]
            last = reductions is self.stages.reductions[-1]
            stage = Stage(self.code, reductions, LARGEST in self.job.schedule)
            self._stage(stage, stored, last)
            for row in self.rows:
                row.read_back(stored)
        self._results()

    def _array(self, node: Node) -> _Array:
        if node in self.homes:
            number = self.homes[node]
            return _Array(self.job.outputs[number], self.job.body.written[number])
        return _Array(self.code.private(memory_type(node.element), self.space.length))

    def _stage(self, stage: Stage, stored: Sequence[Node], last: bool) -> None:
        """Finds each row's reductions."""
        code, width, length = self.code, self.width, self.space.length
        vectors, every = length // width, len(stage.nodes)
        whole = replace(stage, nodes=[node for _ in self.rows for node in stage.nodes])

        def step(wide: bool, element: Index, held: Sequence[SSAValue]) -> list[SSAValue]:
            result: list[SSAValue] = []
            for number, row in enumerate(self.rows):
                row.at(row.wide if wide else row.narrow, element)
                own = held[number * every : (number + 1) * every]
                result += stage.add(own, row.evaluator, row.index_of)
            for row in self.rows:
                for node, array in zip(stored, row.arrays, strict=True):
                    place = row.place(array)
                    first = place.at_lane(0) if wide and width > 1 else place
                    value = row.evaluator.lanes_at(node, row.index_of(node))
                    code.store(value, array.buffer, code.index(first))
            return result

        def vector(number: Index) -> Index:
            return number * width + lanes(width)

        count = len(whole.nodes)
        unroll = ACCUMULATORS if vectors >= 2 * ACCUMULATORS else 1
        main = vectors // unroll

        def block(number: Index, held: list[SSAValue]) -> list[SSAValue]:
            result: list[SSAValue] = []
            for row in self.rows if last else []:
                row.ahead.beside_last_stage(number, unroll * width)
            for part in range(unroll):
                mine = held[part * count : (part + 1) * count]
                result += step(True, vector(number * unroll + part), mine)
            return result

        start = whole.start(width) * unroll
        held = long_loop(code, 0, main, block, start, whole.sums * unroll)
        totals = held[:count]
        for part in range(1, unroll):
            totals = whole.combine(totals, held[part * count : (part + 1) * count])
        totals = code.loop(
            main * unroll, vectors, lambda number, held: step(True, vector(number), held), totals
        )
        totals = code.loop(
            vectors * width,
            length,
            lambda number, held: step(False, number, held),
            whole.across_lanes(totals),
        )
        for number, row in enumerate(self.rows):
            stage.give(row.wide, totals[number * every : (number + 1) * every])

    def _results(self) -> None:
        code, width, length, space = self.code, self.width, self.space.length, self.space

        def step(wide: bool, element: Index) -> None:
            for row in self.rows:
                row.at(row.wide if wide else row.narrow, element)
                self.job.write_at(row.evaluator, row.index_of, space.is_full)

        if any(map(space.is_full, self.job.body.written)):
            vectors = length // width

            def vector(number: Index) -> None:
                for row in self.rows:
                    row.ahead.beside_results(number, width)
                step(True, number * width + lanes(width))

            code.each(0, vectors, vector)
            code.each(vectors * width, length, lambda n: step(False, n))
        for row in self.rows:
            row.at(row.narrow, ZERO)
            self.job.write_at(row.evaluator, row.index_of, lambda node: not space.is_full(node))


def _along_rows(job: Job, space: RowSpace) -> Launch:
    code = job.code
    width, together, block = (job.entry(name) for name in ("width", "side_by_side", "block"))
    stages = stages_of(job.body, space)
    homes = _homes(job.body, space, stages) if together == 1 else {}
    if not job.entry("stored"):
        stages.stored = [[node for node in stored if node in homes] for stored in stages.stored]
    walks = ceil_div(space.rows, together)
    items = ceil_div(walks, block)
    item = code.counter(kernel.GlobalIdOp, 0, items)

    def one_walk(number: Index) -> None:
        first = tile_start(code, number, together, space.rows)
        rows = [code.known(first + n, space.rows) for n in range(together)]
        _Walk(job, space, stages, rows, width, homes).walk()

    code.each_own(item, block, walks, one_walk)
    return Launch((items,))


def _homes(body: Body, space: RowSpace, stages: Stages) -> dict[Node, int]:
    """Results that can hold values between stages. A row of a result is written by one walk alone,
    which reads each stored element again before it writes the result's own.
    """
    homes: dict[Node, int] = {}
    for node in (node for stored in stages.stored for node in stored):
        for number, result in enumerate(body.written):
            free = number not in homes.values() and space.is_full(result)
            if free and result.element is node.element:
                homes[node] = number
                break
    return homes


def _across_rows(job: Job, space: RowSpace) -> Launch:
    """Vectors of rows that are neighbours; the last one ends with the axis, and so overlaps."""
    code = job.code
    inner = next(s for s in reversed(space.kept_shape) if s != 1)
    width, together = job.entry("width"), job.entry("side_by_side")
    outer = space.rows // inner
    vectors = ceil_div(inner, width)
    groups = ceil_div(vectors, together)
    items = outer * groups
    item = code.counter(kernel.GlobalIdOp, 0, items)
    group, around = item % groups, item // groups
    starts: list[Index] = []
    for part in range(together):
        first = (group * (together * width) + part * width).clamp(0, inner - width)
        starts.append(code.known(first, inner - width + 1))
    evaluators = [job.evaluator(width) for _ in starts]
    rows = [around * inner + start + lanes(width) for start in starts]

    def place(row: Index, element: Index) -> Callable[[Node], Indices]:
        return lambda node: space.index_in(node, row, element)

    for reductions in stages_of(job.body, space).reductions:
        stage, every = Stage(code, reductions), len(reductions)

        def step(element: Index, held: list[SSAValue], stage: Stage = stage) -> list[SSAValue]:
            result: list[SSAValue] = []
            for evaluator, row in zip(evaluators, rows, strict=True):
                own = held[len(result) : len(result) + len(stage.nodes)]
                result += stage.add(own, evaluator, place(row, element))
            return result

        start, added = stage.start(width) * together, stage.sums * together
        totals = long_loop(code, 0, space.length, step, start, added)
        for number, evaluator in enumerate(evaluators):
            stage.give(evaluator, totals[number * every : (number + 1) * every])

    def results(element: Index) -> None:
        for evaluator, row in zip(evaluators, rows, strict=True):
            job.write_at(evaluator, place(row, element), space.is_full)

    if any(map(space.is_full, job.body.written)):
        code.each(0, space.length, results)
    for evaluator, row in zip(evaluators, rows, strict=True):
        job.write_at(evaluator, place(row, ZERO), lambda node: not space.is_full(node))
    return Launch((items,))
