"""What was before a part of a row that is scanned: read where the scan is told, else nothing."""

from xdsl.ir import SSAValue

from mgn.passes.kernels.accumulation import accumulator
from mgn.passes.kernels.body import Node
from mgn.passes.kernels.index import Index
from mgn.passes.kernels.rows import RowSpace
from mgn.passes.lower_kernels.core.evaluate import Evaluator
from mgn.passes.lower_kernels.core.scalar import cast


def before_part(
    evaluator: Evaluator, scan: Node, space: RowSpace, row: Index, number: Index
) -> SSAValue | None:
    """What the elements before a part come to, in the type that sums are kept in."""
    if len(scan.operands) == 1:
        return None
    node = scan.operands[1]
    index = RowSpace(node.shape, space.reduced).full_index(row, number)
    value = evaluator.lanes_at(node, index)
    return cast(evaluator.code, value, node.element, accumulator(scan.element))
