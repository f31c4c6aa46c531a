"""What a reduction of windows does with an element: products of weights are added unrounded.

In: a reduction's operand at an index, what is combined so far. Out: both combined.
"""

from collections.abc import Sequence

from xdsl.ir import SSAValue

from mgn.passes.kernels.accumulation import accumulator
from mgn.passes.kernels.body import Indices
from mgn.passes.kernels.index_maps import broadcast_index
from mgn.passes.lower_kernels.core.evaluate import Evaluator
from mgn.passes.lower_kernels.core.product import multiply_add
from mgn.passes.lower_kernels.reduction.stage import Stage


def with_element(
    stage: Stage, held: Sequence[SSAValue], evaluator: Evaluator, index: Indices
) -> list[SSAValue]:
    """What the one reduction of a stage has combined, with the element at an index."""
    (node,) = stage.nodes
    operand = node.operands[0]
    element = operand.element
    summed = node.name == "sum" and operand.name == "mul" and element.is_float
    if not summed or accumulator(element) != element:
        return stage.add(held, evaluator, lambda _: index)
    left, right = (
        evaluator.lanes_at(factor, broadcast_index(index, factor.shape))
        for factor in operand.operands
    )
    return [multiply_add(stage.code, element, left, right, held[0])]
