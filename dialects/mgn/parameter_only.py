"""Which values of a graph depend on parameters and constants alone: they are the same in all runs
until a parameter changes.

In: an `mgn.graph` of operations, kernels or launches. Out: the set of those values.
"""

from xdsl.ir import SSAValue

from mgn.dialects.block_formats import is_codes
from mgn.dialects.mgn.structure import GraphOp, ReadOp


def parameter_only(graph: GraphOp) -> set[SSAValue]:
    """Parameters and constants as they are read, and all that is computed of nothing else. What
    is computed of a block format's codes is not: it would take the memory that the format saves.
    """
    found: set[SSAValue] = set()
    for op in graph.block.ops:
        if isinstance(op, ReadOp) and is_codes(op.parameter_name):
            continue
        if all(operand in found for operand in op.operands):
            found.update(op.results)
    return found
