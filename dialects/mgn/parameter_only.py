"""Which values of a graph depend on parameters and constants alone: they are the same in all runs
until a parameter changes.

In: an `mgn.graph` of operations, kernels or launches. Out: the set of those values.
"""

from xdsl.ir import SSAValue

from mgn.dialects.mgn.structure import GraphOp


def parameter_only(graph: GraphOp) -> set[SSAValue]:
    """Parameters and constants as they are read, and all that is computed of nothing else."""
    found: set[SSAValue] = set()
    for op in graph.block.ops:
        if all(operand in found for operand in op.operands):
            found.update(op.results)
    return found
