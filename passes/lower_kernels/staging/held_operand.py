"""An operand that is read long before it is computed: its numbers wait in registers as they lie.

In: an operand of a product, computed element by element from inputs as large as it is. Out: vectors
of these inputs, and later what is computed of them. Between, a work-item waits for nothing. What
else the operand is computed from, as the scales of rows and columns, is small and near, and is read
with the latter. An operand of another kind is computed at once.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from xdsl.ir import SSAValue

from mgn.dialects.mgn.operation import Kind
from mgn.passes.kernels.body import INPUT, Indices, Node
from mgn.passes.kernels.index import ZERO, Index, lanes, linear
from mgn.passes.kernels.index_maps import MOVES, bounded, broadcast_index
from mgn.passes.lower_kernels.core.operand import Operand

ORDERED = frozenset({"reshape", "transpose", "slice"})
"""Movement that takes each element from one place, and from another for each."""


@dataclass(frozen=True)
class HeldOperand:
    """Vectors of `width` elements of an operand, along the shared axis or across it; `limit` is the
    length of its other axis.
    """

    operand: Operand
    width: int
    by_depth: bool
    limit: int

    @cached_property
    def inputs(self) -> tuple[Node, ...]:
        """The inputs that wait in registers; none where the operand's values do."""
        places = self._places(self._index(ZERO, ZERO))
        return () if places is None else tuple(places)

    @property
    def count(self) -> int:
        """How many vectors wait for one of the operand."""
        return max(len(self.inputs), 1)

    def read(self, own: Index, k: Index) -> list[SSAValue]:
        """What waits of the vector from a row or column and a step on."""
        operand = self.operand
        if not self.inputs:
            return [operand.inside(own, k, self.width, self.by_depth, self.limit)]
        evaluator = operand.job.evaluator(self.width)
        places = self._places(self._index(own, k))
        assert places is not None and tuple(places) == self.inputs
        return [
            evaluator.load(operand.job.inputs[node.number], linear(index, node.shape))
            for node, index in places.items()
        ]

    def finish(self, own: Index, k: Index, held: list[SSAValue]) -> SSAValue:
        """The operand's vector, of what has waited."""
        if not self.inputs:
            return held[0]
        given = dict(zip(self.inputs, held, strict=True))
        return self.operand.inside(own, k, self.width, self.by_depth, self.limit, given)

    def _index(self, own: Index, k: Index) -> Indices:
        operand = self.operand
        k = bounded(k, operand.product.depth, self.width if self.by_depth else 1)
        own = bounded(own, self.limit, 1 if self.by_depth else self.width)
        along = lanes(self.width)
        place = (own, k + along) if self.by_depth else (own + along, k)
        return operand.product.operand_index(operand.side, operand.batch, *place)

    def _places(self, index: Indices) -> dict[Node, Indices] | None:
        """The inputs as large as the operand, each with its only index; None where an operation is
        of another kind, or an input is read at several.
        """
        found: dict[Node, Indices] = {}
        for node, place in self._walk(self.operand.product.node.operands[self.operand.side], index):
            if place is None or found.setdefault(node, place) != place:
                return None
        return found

    def _walk(self, node: Node, index: Indices) -> Iterator[tuple[Node, Indices | None]]:
        if node in self.operand.job.given:
            return
        if node.name == INPUT:
            yield node, index
        elif node.name in ORDERED:
            yield from self._walk(node.operands[0], MOVES[node.name](node, index))
        elif node.kind is Kind.ELEMENTWISE:
            for operand in node.operands:
                if operand.count == node.count:
                    yield from self._walk(operand, broadcast_index(index, operand.shape))
        else:
            yield node, None
