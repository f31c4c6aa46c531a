"""An operand of a product as a work-item reads it, from where it lies or computed on the way.

In: a row or column and a step of the shared axis, either along lanes. Out: values in the type that
sums are kept in. All templates with products read operands here, before they multiply or copy them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.ir import SSAValue

from mgn.passes.kernels.body import Indices, Node
from mgn.passes.kernels.index import Index, lanes
from mgn.passes.kernels.index_maps import bounded
from mgn.passes.kernels.product import Product
from mgn.passes.lower_kernels.core.scalar import widened
from mgn.passes.lower_kernels.core.template import Job

LEFT, RIGHT = 0, 1


@dataclass(frozen=True)
class Operand:
    """The left or the right operand of a product, for one of a batch."""

    job: Job
    product: Product
    batch: Indices
    side: int

    @staticmethod
    def both(job: Job, product: Product, batch: Indices) -> "tuple[Operand, Operand]":
        """The left and the right operand."""
        return Operand(job, product, batch, LEFT), Operand(job, product, batch, RIGHT)

    def at(
        self, own: Index, k: Index, width: int = 1, given: Mapping[Node, SSAValue] | None = None
    ) -> SSAValue:
        """The element of a row or column at a step, one in each of so many lanes; of inputs whose
        elements are given, of these.
        """
        node = self.product.node.operands[self.side]
        index = self.product.operand_index(self.side, self.batch, own, k)
        evaluator = self.job.evaluator(width)
        for known, value in (given or {}).items():
            evaluator.given[known] = lambda _, value=value: value
        return widened(self.job.code, evaluator.lanes_at(node, index), node.element)

    def along_depth(self, own: Index, k: Index, width: int) -> SSAValue:
        """So many steps of a row or column from one on."""
        return self.at(own, k + lanes(width), width)

    def across(self, own: Index, k: Index, width: int) -> SSAValue:
        """A step of so many rows or columns from one on."""
        return self.at(own + lanes(width), k, width)

    def inside(
        self,
        own: Index,
        k: Index,
        width: int,
        by_depth: bool,
        limit: int,
        given: Mapping[Node, SSAValue] | None = None,
    ) -> SSAValue:
        """A vector along the shared axis or across it. Past the last row or column, of `limit`, it
        is another one; past the shared axis it is zeros.
        """
        code, depth = self.job.code, self.product.depth
        test = code.is_below(k, depth, 1)
        k = bounded(k, depth, width if by_depth else 1)
        own = bounded(own, limit, 1 if by_depth else width)
        place = (own, k + lanes(width)) if by_depth else (own + lanes(width), k)
        return code.or_zeros(test, self.at(*place, width, given))
