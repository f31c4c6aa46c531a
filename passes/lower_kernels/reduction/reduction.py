"""The reduction template: rows, each walked once for every stage of dependent reductions.

CPU: a work-item takes rows. Where the elements of a row are neighbours in memory, vectors run along
the row with four independent accumulators, or along two short rows side by side. Expensive
intermediate values (the exponentials of a softmax) are stored between stages: at the place of the
results, or in a private array. Where neighbours in memory belong to different rows, vectors run
across rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.dialects.shifts import LARGEST
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.body import Body, Node
from mgn.passes.kernels.index import ZERO, Index, lanes, linear
from mgn.passes.kernels.rows import RowSpace, Stages, row_space, stages_of
from mgn.passes.lower_kernels.core.evaluate import Evaluator, Given
from mgn.passes.lower_kernels.core.long_sums import are_sums, long_loop
from mgn.passes.lower_kernels.core.product import tile_start
from mgn.passes.lower_kernels.core.pure_code import memory_type
from mgn.passes.lower_kernels.core.scalar import (
    across_lanes,
    combine,
    larger,
    largest_lane,
    start_of,
    term,
    total_of,
)
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.reduction.grouped_reduction import lower_grouped
from mgn.passes.lower_kernels.reduction.rows_ahead import RowsAhead
from mgn.passes.schedules.reduction import ReductionVariant

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

    def value(self, node: Node) -> SSAValue:
        """What a node has for the element, in every lane."""
        index = self.space.index_in(node, self.row, self.element)
        return self.evaluator.lanes_at(node, index)

    def keep(self, reductions: Sequence[Node], totals: Sequence[SSAValue]) -> None:
        """Notes finished reductions."""
        for node, total in zip(reductions, totals, strict=True):
            self.wide.given[node] = _always(total)

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
        return linear(self.space.index_in(home, self.row, self.element), home.shape)


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
            totals = iter(self._stage(reductions, stored, last))
            for row in self.rows:
                row.keep(reductions, [next(totals) for _ in reductions])
                row.read_back(stored)
        self._results()

    def _array(self, node: Node) -> _Array:
        if node in self.homes:
            number = self.homes[node]
            return _Array(self.job.outputs[number], self.job.body.written[number])
        return _Array(self.code.private(memory_type(node.element), self.space.length))

    def _only_shifts(self, node: Node) -> bool:
        """Whether it is a stabilising maximum: a number near the largest one does as well."""
        return node.name == "max_reduce" and LARGEST in self.job.schedule

    def _combine(self, node: Node, left: SSAValue, right: SSAValue) -> SSAValue:
        if self._only_shifts(node):
            return larger(self.code, left, right)
        return combine(self.code, node.name, node.element, left, right)

    def _across_lanes(self, node: Node, value: SSAValue) -> SSAValue:
        if self._only_shifts(node):
            return largest_lane(self.code, value)
        return across_lanes(self.code, node.name, node.element, value)

    def _stage(
        self, reductions: Sequence[Node], stored: Sequence[Node], last: bool
    ) -> list[SSAValue]:
        """The totals of each row's reductions."""
        code, width, length = self.code, self.width, self.space.length
        vectors = length // width
        nodes = [node for _ in self.rows for node in reductions]
        start = [start_of(code, node, width) for node in nodes]

        def step(wide: bool, element: Index, held: Sequence[SSAValue]) -> list[SSAValue]:
            values = iter(held)
            result: list[SSAValue] = []
            for row in self.rows:
                row.at(row.wide if wide else row.narrow, element)
                for node in reductions:
                    part = term(code, node, row.value(node.operands[0]))
                    result.append(self._combine(node, next(values), part))
            for row in self.rows:
                for node, array in zip(stored, row.arrays, strict=True):
                    place = row.place(array)
                    first = place.at_lane(0) if wide and width > 1 else place
                    code.store(row.value(node), array.buffer, code.index(first))
            return result

        def vector(number: Index) -> Index:
            return number * width + lanes(width)

        count = len(nodes)
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

        added = are_sums(nodes)
        held = long_loop(code, 0, main, block, start * unroll, added * unroll)
        totals = held[:count]
        for part in range(1, unroll):
            others = held[part * count : (part + 1) * count]
            totals = list(map(self._combine, nodes, totals, others))
        if main * unroll < vectors:
            totals = code.loop(
                main * unroll,
                vectors,
                lambda number, held: step(True, vector(number), held),
                totals,
            )
        totals = list(map(self._across_lanes, nodes, totals))
        totals = code.loop(
            vectors * width, length, lambda number, held: step(False, number, held), totals
        )
        return [total_of(code, node, value) for node, value in zip(nodes, totals, strict=True)]

    def _results(self) -> None:
        code, width, length = self.code, self.width, self.space.length
        written = list(enumerate(self.job.body.written))
        full = [(n, node) for n, node in written if self.space.is_full(node)]

        def write(row: _Row, results: Sequence[tuple[int, Node]]) -> None:
            self.job.write(
                row.evaluator,
                [(n, node, self.space.index_in(node, row.row, row.element)) for n, node in results],
            )

        def step(wide: bool, element: Index) -> None:
            for row in self.rows:
                row.at(row.wide if wide else row.narrow, element)
                write(row, full)

        if full:
            vectors = length // width

            def vector(number: Index) -> None:
                for row in self.rows:
                    row.ahead.beside_results(number, width)
                step(True, number * width + lanes(width))

            code.each(0, vectors, vector)
            code.each(vectors * width, length, lambda n: step(False, n))
        for row in self.rows:
            row.at(row.narrow, ZERO)
            write(row, [(n, node) for n, node in written if not self.space.is_full(node)])


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

    def one_walk(step: Index) -> None:
        number = code.known(item * block + step, walks)
        first = tile_start(code, number, together, space.rows)
        rows = [code.known(first + n, space.rows) for n in range(together)]
        _Walk(job, space, stages, rows, width, homes).walk()

    trips: Index | int = block
    if walks % block:
        trips = (item * -block + walks).clamp(0, block)
    code.each(0, trips, one_walk)
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
    for reductions in stages_of(job.body, space).reductions:
        held = [start_of(code, node, width) for _ in starts for node in reductions]

        def step(
            element: Index, held: list[SSAValue], nodes: list[Node] = reductions
        ) -> list[SSAValue]:
            values = iter(held)
            result: list[SSAValue] = []
            for evaluator, row in zip(evaluators, rows, strict=True):
                for node in nodes:
                    operand = node.operands[0]
                    index = space.index_in(operand, row, element)
                    part = term(code, node, evaluator.lanes_at(operand, index))
                    result.append(combine(code, node.name, node.element, next(values), part))
            return result

        added = are_sums(reductions) * len(starts)
        totals = iter(long_loop(code, 0, space.length, step, held, added))
        for evaluator in evaluators:
            for node in reductions:
                total = total_of(code, node, next(totals))
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
        code.each(0, space.length, results)
    for evaluator, row in zip(evaluators, rows, strict=True):
        job.write(evaluator, [(n, node, space.index_in(node, row, ZERO)) for n, node in rest])
    return Launch((items,))


def _always(value: SSAValue) -> Given:
    """A value that is the same at every index."""
    return lambda _: value
