"""How what meets at one element of a scatter is combined: two values in, one out."""

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from mgn.dialects.mgn.operations.places.scatter import ADD
from mgn.passes.kernels.body import Node
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.core.scalar import is_unsigned


def combine_of(node: Node) -> str:
    """How a scatter combines what meets; those by buckets add."""
    return node.values.get("combine", ADD)


def join(code: Code, node: Node, left: SSAValue, right: SSAValue) -> SSAValue:
    """Two values of a scatter as one."""
    if combine_of(node) == ADD:
        return code.binary(arith.AddfOp if node.element.is_float else arith.AddiOp, left, right)
    if node.element.is_float:
        return code.binary(arith.MaximumfOp, left, right)
    return code.binary(arith.MaxUIOp if is_unsigned(node.element) else arith.MaxSIOp, left, right)
