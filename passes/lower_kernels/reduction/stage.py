"""The reductions of rows that one walk finds together: what has been combined, element by element.

In: the elements of a walk, one or a vector at a time. Out: what the walk has combined, and in the
end the totals, which evaluators are given.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from mgn.passes.kernels.body import Indices, Node
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.core.evaluate import Evaluator
from mgn.passes.lower_kernels.core.long_sums import are_sums
from mgn.passes.lower_kernels.core.pure_code import lane_count
from mgn.passes.lower_kernels.core.scalar import (
    across_lanes,
    combine,
    larger,
    largest_lane,
    start_of,
    term,
    total_of,
)

Values = list[SSAValue]


@dataclass(frozen=True)
class Stage:
    """The reductions `nodes`. Where `near`, a maximum only stabilises what follows: a number near
    the largest one does as well.
    """

    code: Code
    nodes: Sequence[Node]
    near: bool = False

    @property
    def sums(self) -> list[bool]:
        """Which of them are sums of floats."""
        return are_sums(self.nodes)

    def start(self, width: int) -> Values:
        """What is combined before the first element, in so many lanes."""
        return [start_of(self.code, node, width) for node in self.nodes]

    def add(
        self,
        held: Sequence[SSAValue],
        evaluator: Evaluator,
        index_of: Callable[[Node], Indices],
        inside: SSAValue | bool = True,
    ) -> Values:
        """What is combined with the elements at an index, where the row has them."""
        code, result = self.code, Values()
        for node, value in zip(self.nodes, held, strict=True):
            operand = node.operands[0]
            part = term(code, node, evaluator.lanes_at(operand, index_of(operand)))
            if inside is not True:
                part = code.select(inside, part, start_of(code, node, lane_count(value)))
            result.append(self._combine(node, value, part))
        return result

    def combine(self, left: Sequence[SSAValue], right: Sequence[SSAValue]) -> Values:
        """Two parts of each reduction as one."""
        return list(map(self._combine, self.nodes, left, right))

    def _combine(self, node: Node, left: SSAValue, right: SSAValue) -> SSAValue:
        if self._is_near(node):
            return larger(self.code, left, right)
        return combine(self.code, node.name, node.element, left, right)

    def across_lanes(self, held: Sequence[SSAValue]) -> Values:
        """All lanes of each as one."""
        return [
            largest_lane(self.code, value)
            if self._is_near(node)
            else across_lanes(self.code, node.name, node.element, value)
            for node, value in zip(self.nodes, held, strict=True)
        ]

    def _is_near(self, node: Node) -> bool:
        return self.near and node.name == "max_reduce"

    def give(self, evaluator: Evaluator, held: Sequence[SSAValue]) -> None:
        """From here on the evaluator knows the reductions."""
        for node, value in zip(self.nodes, held, strict=True):
            total = total_of(self.code, node, value)
            evaluator.given[node] = lambda _, total=total: total
