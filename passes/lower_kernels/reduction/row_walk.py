"""A CPU's walk down a row, or a few side by side: stages of reductions, then results.

In: rows, the stages of a body. Out: operations that walk each row once for every stage, with
vectors along it, and once more for its elements' results. Expensive intermediate values are stored
between stages: at the place of the results, or in a private array.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.ir import SSAValue

from mgn.dialects.stabilising_maximum import MAXIMUM
from mgn.passes.kernels.arithmetic import shorter_vectors
from mgn.passes.kernels.body import Body, Indices, Node
from mgn.passes.kernels.index import ZERO, Index, constant, lanes, linear
from mgn.passes.kernels.rows import RowSpace, Stages
from mgn.passes.lower_kernels.core.evaluate import Evaluator, Given
from mgn.passes.lower_kernels.core.long_sums import long_loop
from mgn.passes.lower_kernels.core.pure_code import memory_type
from mgn.passes.lower_kernels.core.template import Job
from mgn.passes.lower_kernels.reduction.rows_ahead import RowsAhead
from mgn.passes.lower_kernels.reduction.stage import Stage

ACCUMULATORS = 4


@dataclass(frozen=True)
class _Array:
    """Where a row's values are stored for the next stage: in the work-item's own array, or in a
    result of the same type, `home`, which is overwritten at the end.
    """

    buffer: SSAValue
    home: Node | None = None


class Row:
    """One of the rows that are walked side by side: its values, and where its walk is."""

    def __init__(self, job: Job, space: RowSpace, row: Index, width: int, stages: int) -> None:
        self.row, self.space = row, space
        self.wide = job.evaluator(width)
        self.ahead = RowsAhead(job, space, row, stages)
        self.arrays: list[_Array] = []
        self.at(1, ZERO)

    def at(self, width: int, element: Index) -> None:
        """Moves on to an element, or to a vector of elements."""
        self.evaluator: Evaluator = self.wide.with_lanes(width)
        self.element = element

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


@dataclass
class RowWalk:
    """A walk down rows side by side: stages, then results. Vectors of so many elements run along
    the rows; `homes` are the results that hold values between stages (`homes_of`).
    """

    job: Job
    space: RowSpace
    stages: Stages
    numbers: Sequence[Index]
    width: int
    homes: Mapping[Node, int]

    def __post_init__(self) -> None:
        self.code, stages = self.job.code, len(self.stages.reductions)
        self.rows = [Row(self.job, self.space, row, self.width, stages) for row in self.numbers]

    def walk(self) -> None:
        """Writes the walk."""
        for reductions, stored in zip(self.stages.reductions, self.stages.stored, strict=True):
            for row in self.rows:
                row.arrays = [self._array(node) for node in stored]
            last = reductions is self.stages.reductions[-1]
            stage = Stage(self.code, reductions, MAXIMUM in self.job.schedule)
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

        def step(width: int, element: Index, held: Sequence[SSAValue]) -> list[SSAValue]:
            result: list[SSAValue] = []
            for number, row in enumerate(self.rows):
                row.at(width, element)
                own = held[number * every : (number + 1) * every]
                result += stage.add(own, row.evaluator, row.index_of)
            for row in self.rows:
                for node, array in zip(stored, row.arrays, strict=True):
                    place = row.place(array)
                    first = place.at_lane(0) if width > 1 else place
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
                result += step(width, vector(number * unroll + part), mine)
            return result

        start = whole.start(width) * unroll
        held = long_loop(code, 0, main, block, start, whole.sums * unroll)
        totals = held[:count]
        for part in range(1, unroll):
            totals = whole.combine(totals, held[part * count : (part + 1) * count])
        totals = code.loop(
            main * unroll, vectors, lambda number, held: step(width, vector(number), held), totals
        )
        totals = whole.across_lanes(totals)
        for start, part in shorter_vectors(length, width):
            found = step(part, constant(start) + lanes(part), whole.start(part))
            totals = whole.combine(totals, whole.across_lanes(found))
        for number, row in enumerate(self.rows):
            stage.give(row.wide, totals[number * every : (number + 1) * every])

    @property
    def has_elements(self) -> bool:
        """Whether rows are walked once more for what there is one of for each element."""
        return any(map(self.space.is_full, self.job.body.written))

    def write_element(self, row: Row) -> None:
        """Writes what there is one of for the element, or the vector of elements, of a row."""
        self.job.write_at(row.evaluator, row.index_of, self.space.is_full)

    def _results(self) -> None:
        code, width, length, space = self.code, self.width, self.space.length, self.space

        def step(width: int, element: Index) -> None:
            for row in self.rows:
                row.at(width, element)
                self.write_element(row)

        if self.has_elements and length:
            size = self.job.number("line", length)

            def line(start: Index) -> None:
                def vector(number: Index) -> None:
                    if size == length:
                        for row in self.rows:
                            row.ahead.beside_results(number, width)
                    step(width, start + number * width + lanes(width))

                code.each(0, size // width, vector)
                for first, part in shorter_vectors(size, width):
                    step(part, start + first + lanes(part))

            code.each(0, length // size, lambda number: line(number * size))
        for row in self.rows:
            row.at(1, ZERO)
            self.job.write_at(row.evaluator, row.index_of, space.is_of_row)


def homes_of(body: Body, space: RowSpace, stages: Stages) -> dict[Node, int]:
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
