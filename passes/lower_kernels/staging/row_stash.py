"""Local memory keeps the part of a long row that registers cannot.

In: the inputs of a reduction whose rows are walked more than once, and how many of a work-item's
trips there is room for. Out: asynchronous copies, which the head of the kernel starts, and for
these trips an evaluator that reads the inputs' vectors from the copies. A work-item reads only what
it copied itself, so that no barrier is needed.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.passes.kernels.body import Indices, Node
from mgn.passes.kernels.index import Index, linear
from mgn.passes.lower_kernels.core.evaluate import Evaluator, Given
from mgn.passes.lower_kernels.core.pure_code import memory_type
from mgn.passes.lower_kernels.core.template import Job


@dataclass
class RowStash:
    """Vectors of `width` elements of each of `nodes`, for `trips` trips of `items` work-items."""

    job: Job
    nodes: Sequence[Node]
    items: int
    width: int
    first: int
    trips: int

    def __post_init__(self) -> None:
        count = self.trips * self.items * self.width
        self.memory = {
            node: self.job.code.local(memory_type(node.element), count) for node in self.nodes
        }

    def _place(self, trip: int, own: Index) -> Index:
        return (own + (trip - self.first) * self.items) * self.width

    def start(self, trip: int, own: Index, index_of: dict[Node, Indices]) -> None:
        """Starts to copy a trip's vectors, each from its index on."""
        code = self.job.code
        for node, memory in self.memory.items():
            source = linear(index_of[node], node.shape).at_lane(0)
            operands = (self.job.inputs[node.number], code.index(source), memory)
            place = code.index(self._place(trip, own))
            code.block.add_op(kernel.CopyChunkOp(*operands, place, count=self.width))

    def finish(self) -> None:
        """Waits for all that the work-item copies."""
        code = self.job.code
        code.block.add_op(kernel.WaitCopiesOp(0))

    @contextmanager
    def given(
        self, evaluator: Evaluator, trip: int, own: Index, index_of: dict[Node, Indices]
    ) -> Iterator[None]:
        """Inside, the inputs at a trip's indices are read from the copies."""
        for node in self.nodes:
            evaluator.given[node] = self._reader(evaluator, node, trip, own, index_of[node])
        with self.job.code.forgetting():
            yield
        for node in self.nodes:
            del evaluator.given[node]

    def _reader(
        self, evaluator: Evaluator, node: Node, trip: int, own: Index, place: Indices
    ) -> Given:
        code = self.job.code

        def read(index: Indices) -> SSAValue:
            if index != place:
                return evaluator.load(self.job.inputs[node.number], linear(index, node.shape))
            key = ("load", node, trip)
            value = code.recall(key)
            if value is None:
                start = self._place(trip, own)
                value = code.load(self.memory[node], code.index(start), self.width, self.width)
                code.remember(key, value)
            return value

        return read
