"""The reduction template: rows, each walked once for every stage of dependent reductions.

CPU: a work-item takes rows. Where the elements of a row are neighbours in memory, vectors run
along the row with four independent accumulators, and dear intermediate values (the exponentials
of a softmax) wait in a private array. Where neighbours belong to different rows, vectors run
across rows.
"""

from collections.abc import Sequence

from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.passes.lower_kernels.body import Indices, Node
from mgn.passes.lower_kernels.emission import memory_type
from mgn.passes.lower_kernels.evaluate import Evaluator, Given
from mgn.passes.lower_kernels.grouped_reduction import lower_grouped
from mgn.passes.lower_kernels.index import ZERO, Counter, Index, lanes, of
from mgn.passes.lower_kernels.rows import (
    RowSpace,
    Stages,
    elements_in_line,
    row_space,
    stages_of,
)
from mgn.passes.lower_kernels.rows_ahead import RowsAhead
from mgn.passes.lower_kernels.scalar import (
    accumulator,
    across_lanes,
    combine,
    narrowed,
    neutral,
    widened,
)
from mgn.passes.lower_kernels.template import Job, Launch, ceil_div, dividing_lanes

ACCUMULATORS = 4


def lower_reduction(job: Job) -> Launch:
    """Writes a reduction kernel."""
    if job.is_gpu:
        return lower_grouped(job)
    space = row_space(job.body)
    if space.innermost_is_kept:
        return _across_rows(job, space)
    return _along_rows(job, space)


class _Row:
    """One row's walk: stages, then results. Vectors run along the row."""

    def __init__(self, job: Job, space: RowSpace, stages: Stages, row: Index, width: int) -> None:
        self.job, self.space, self.stages, self.row = job, space, stages, row
        self.code = job.code
        self.wide = job.evaluator(width)
        self.narrow = self.wide.with_lanes(1)
        self.element = ZERO
        self.width = width
        self.ahead = RowsAhead(job, space, row, len(stages.reductions))

    def walk(self) -> None:
        for reductions, stored in zip(self.stages.reductions, self.stages.stored, strict=True):
            arrays = self._arrays(stored)
            last = reductions is self.stages.reductions[-1]
            finished = self._stage(reductions, stored, arrays, last)
            for node, value in zip(reductions, finished, strict=True):
                self.wide.given[node] = _always(value)
            for node, array in zip(stored, arrays, strict=True):
                self.wide.given[node] = self._from(array)
        self._results()

    def _arrays(self, stored: Sequence[Node]) -> list[SSAValue]:
        return [self.code.private(memory_type(node.element), self.space.length) for node in stored]

    def _from(self, array: SSAValue) -> Given:
        def load(index: Indices) -> SSAValue:
            return self._evaluator.load(array, self.element)

        return load

    def _stage(
        self, reductions: list[Node], stored: list[Node], arrays: list[SSAValue], last: bool
    ) -> list[SSAValue]:
        code, width, length = self.code, self.width, self.space.length
        vectors = length // width

        def start(lanes_count: int) -> list[SSAValue]:
            return [
                code.constant(
                    neutral(node.name, node.element),
                    memory_type(accumulator(node.element)),
                    lanes_count,
                )
                for node in reductions
            ]

        def step(evaluator: Evaluator, element: Index, held: Sequence[SSAValue]) -> list[SSAValue]:
            self._evaluator, self.element = evaluator, element
            values: list[SSAValue] = []
            for node, value in zip(reductions, held, strict=True):
                operand = node.operands[0]
                index = self.space.index_in(operand, self.row, element)
                part = widened(code, evaluator.lanes_at(operand, index), node.element)
                values.append(combine(code, node.name, node.element, value, part))
            for node, array in zip(stored, arrays, strict=True):
                index = self.space.index_in(node, self.row, element)
                value = evaluator.lanes_at(node, index)
                place = element if evaluator.lanes == 1 else element.at_lane(0)
                code.store(value, array, code.index(place))
            return values

        def vector(number: Index) -> Index:
            return number * width + lanes(width)

        count = len(reductions)
        unroll = ACCUMULATORS if vectors >= 2 * ACCUMULATORS else 1
        main = vectors // unroll

        def block(number: Index, held: list[SSAValue]) -> list[SSAValue]:
            result: list[SSAValue] = []
            if last:
                self.ahead.beside_last_stage(number, unroll * width)
            for part in range(unroll):
                mine = held[part * count : (part + 1) * count]
                result += step(self.wide, vector(number * unroll + part), mine)
            return result

        held = code.loop(0, main, block, start(width) * unroll)
        totals = held[:count]
        for part in range(1, unroll):
            others = held[part * count : (part + 1) * count]
            totals = [
                combine(code, node.name, node.element, left, right)
                for node, left, right in zip(reductions, totals, others, strict=True)
            ]
        if main * unroll < vectors:
            totals = code.loop(
                main * unroll,
                vectors,
                lambda number, held: step(self.wide, vector(number), held),
                totals,
            )
        totals = [
            across_lanes(code, node.name, node.element, value)
            for node, value in zip(reductions, totals, strict=True)
        ]
        totals = code.loop(
            vectors * width,
            length,
            lambda number, held: step(self.narrow, number, held),
            totals,
        )
        return [
            narrowed(code, value, node.element)
            for node, value in zip(reductions, totals, strict=True)
        ]

    def _results(self) -> None:
        code, width, length = self.code, self.width, self.space.length
        written = list(enumerate(self.job.body.written))
        full = [(n, node) for n, node in written if self.space.is_full(node)]

        def step(evaluator: Evaluator, element: Index) -> None:
            self._evaluator, self.element = evaluator, element
            self.job.write(
                evaluator,
                [(n, node, self.space.index_in(node, self.row, element)) for n, node in full],
            )

        if full:
            vectors = length // width

            def vector(number: Index) -> None:
                self.ahead.beside_results(number, width)
                step(self.wide, number * width + lanes(width))

            code.loop(0, vectors, lambda n, _: vector(n) or ())
            code.loop(vectors * width, length, lambda n, _: step(self.narrow, n) or ())
        rest = [(n, node) for n, node in written if not self.space.is_full(node)]
        self._evaluator = self.narrow
        self.job.write(
            self.narrow,
            [(n, node, self.space.index_in(node, self.row, ZERO)) for n, node in rest],
        )


def _along_rows(job: Job, space: RowSpace) -> Launch:
    code = job.code
    width = job.number("lanes", 16)
    in_line = elements_in_line(job.body, space)
    if in_line != space.length:
        width = dividing_lanes(in_line, width)
    while width > 1 and width > space.length:
        width //= 2
    stages = stages_of(job.body, space)
    if space.length > job.number("stash", 8192):
        stages.stored = [[] for _ in stages.stored]
    block = max(1, min(space.rows, job.number("chunk", 4096) // max(space.length, 1)))
    items = ceil_div(space.rows, block)
    item = code.counter(kernel.GlobalIdOp, 0, items)

    def one_row(step: Index) -> None:
        row = of(Counter(code.index(item * block + step), 0, space.rows - 1))
        _Row(job, space, stages, row, width).walk()

    trips: Index | int = block
    if space.rows % block:
        trips = (item * -block + space.rows).clamp(0, block)
    code.loop(0, trips, lambda step, _: one_row(step) or ())
    return Launch((items,))


def _across_rows(job: Job, space: RowSpace) -> Launch:
    """Vectors of rows that are neighbours; the last one ends with the axis, and so overlaps."""
    code = job.code
    inner = next(s for s in reversed(space.kept_shape) if s != 1)
    width = job.number("lanes", 16)
    while width > inner:
        width //= 2
    outer = space.rows // inner
    vectors = ceil_div(inner, width)
    together = _together(vectors, outer, job.number("units", 2))
    groups = ceil_div(vectors, together)
    items = outer * groups
    item = code.counter(kernel.GlobalIdOp, 0, items)
    group, around = item % groups, item // groups
    starts: list[Index] = []
    for part in range(together):
        first = (group * (together * width) + part * width).clamp(0, inner - width)
        starts.append(of(Counter(code.index(first), 0, inner - width)))
    evaluators = [job.evaluator(width) for _ in starts]
    rows = [around * inner + start + lanes(width) for start in starts]
    for reductions in stages_of(job.body, space).reductions:
        held = [
            code.constant(
                neutral(node.name, node.element), memory_type(accumulator(node.element)), width
            )
            for _ in starts
            for node in reductions
        ]

        def step(
            element: Index, held: list[SSAValue], nodes: list[Node] = reductions
        ) -> list[SSAValue]:
            values = iter(held)
            result: list[SSAValue] = []
            for evaluator, row in zip(evaluators, rows, strict=True):
                for node in nodes:
                    operand = node.operands[0]
                    index = space.index_in(operand, row, element)
                    part = widened(code, evaluator.lanes_at(operand, index), node.element)
                    result.append(combine(code, node.name, node.element, next(values), part))
            return result

        totals = iter(code.loop(0, space.length, step, held))
        for evaluator in evaluators:
            for node in reductions:
                total = narrowed(code, next(totals), node.element)
                evaluator.given[node] = lambda _, total=total: total
    written = list(enumerate(job.body.written))
    full = [(n, node) for n, node in written if space.is_full(node)]
    rest = [(n, node) for n, node in written if not space.is_full(node)]

    def results(element: Index) -> None:
        for evaluator, row in zip(evaluators, rows, strict=True):
            job.write(
                evaluator, [(n, node, space.index_in(node, row, element)) for n, node in full]
            )

    if full:
        code.loop(0, space.length, lambda element, _: results(element) or ())
    for evaluator, row in zip(evaluators, rows, strict=True):
        job.write(evaluator, [(n, node, space.index_in(node, row, ZERO)) for n, node in rest])
    return Launch((items,))


def _together(vectors: int, outer: int, units: int) -> int:
    """How many vectors a work-item walks side by side: four, unless cores would then stand idle."""
    for count in (4, 2):
        if outer * ceil_div(vectors, count) >= 4 * units:
            return count
    return 1


def _always(value: SSAValue) -> Given:
    """A value that is the same at every index."""
    return lambda _: value
