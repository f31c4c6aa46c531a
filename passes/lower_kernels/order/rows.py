"""Where the elements of runs lie, and how a row's values are written in their order.

In: a job whose values go by the same keys. Out: the record or key of an element, and results at a
place of a run, which are read at the place where the element was.
"""

from xdsl.ir import SSAValue

from mgn.dialects.mgn.operation import Kind
from mgn.passes.kernels.body import Indices
from mgn.passes.kernels.index import Counter, Index, delinearised, of
from mgn.passes.lower_kernels.core.template import Job
from mgn.passes.lower_kernels.order.keys import Keys, Record, Records
from mgn.passes.schedules.order import runs_of


class OrderedRows:
    """The rows of an order's keys and results."""

    def __init__(self, job: Job) -> None:
        self.job, self.nodes = job, job.body.of_kind(Kind.ORDER)
        self.node = self.nodes[0]
        self.values = self.node.operands[0]
        self.runs = runs_of(self.node)
        self.axis = self.node.values["axis"]
        self.keys = Keys(job.code, self.values.element, self.node.values["descending"])
        self.records = Records(self.keys)
        self.evaluator = job.evaluator()

    @property
    def kept(self) -> int:
        """How many elements of a run are in the result."""
        return min(self.node.values["first"] or self.runs.run, self.runs.run)

    def index(self, row: Index, element: Index) -> Indices:
        """The index of an element of a row."""
        shape, axis = self.values.shape, self.axis
        others = delinearised(row, (*shape[:axis], *shape[axis + 1 :]))
        return (*others[:axis], element, *others[axis:])

    def key(self, row: Index, element: Index) -> SSAValue:
        """The key of an element."""
        return self.keys.of(self.evaluator.at(self.values, self.index(row, element)))

    def record(self, row: Index, start: Index, place: Index) -> Record:
        """The record of an element at a place of a run, which knows it by that place."""
        index = self.index(row, self.job.code.known(start + place, self.runs.length))
        return self.records.of(self.evaluator.at(self.values, index), place)

    def write(self, row: Index, place: Index, source: SSAValue) -> None:
        """Writes the results at a place of a row, whose values come from another."""
        element = of(Counter(source, 0, self.runs.length - 1))
        evaluator = self.job.evaluator()
        for node in self.nodes:
            value = evaluator.at(node.operands[1], self.index(row, element))
            evaluator.given[node] = lambda _, value=value: value
        index = self.index(row, place)
        written = [(n, node, index) for n, node in enumerate(self.job.body.written)]
        self.job.write(evaluator, written)
