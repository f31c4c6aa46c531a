"""Which values of a graph depend on parameters and constants alone: they are the same in all runs
until a parameter changes.

In: an `mgn.graph` of operations, kernels or launches. Out: the set of those values.
"""

from xdsl.ir import SSAValue

from mgn.dialects.block_formats import part_of_name
from mgn.dialects.mgn.structure import GraphOp, ReadOp


def parameter_only(graph: GraphOp) -> set[SSAValue]:
    """Parameters and constants as they are read, and all that is computed of nothing else. What
    is computed of a block format is not among it: it would take the memory that the format saves.
    """
    found: set[SSAValue] = set()
    for op in graph.block.ops:
        if isinstance(op, ReadOp) and part_of_name(op.parameter_name) is not None:
            continue
        if all(operand in found for operand in op.operands):
            found.update(op.results)
    return found
