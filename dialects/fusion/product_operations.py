"""What stands around a product in a kernel: panels that it reads, halves of its columns, and few
neighbouring results that are combined.

In: operations of a kernel's body. Out: whether they are such.
"""

from collections.abc import Sequence

from xdsl.ir import BlockArgument

from mgn.dialects.fusion.pooled_bodies import MOVING_APART, Step, in_order, pool_behind
from mgn.dialects.fusion.product_bodies import may_be_halved, takes_half
from mgn.dialects.mgn.composite import shape_of
from mgn.dialects.mgn.operation import Kind, TensorOp


def reads_panels(product: TensorOp) -> bool:
    """Whether the right operand is panels put side by side: blocks, panels, steps, columns."""
    value, names = product.operands[1], ("reshape", "transpose")
    for name in names:
        op = value.owner
        if not isinstance(op, TensorOp) or op.spec.name != name:
            return False
        if name == "transpose" and list(op.values["perm"]) != [0, 2, 1, 3]:
            return False
        value = op.operands[0]
    return isinstance(value, BlockArgument) and not product.values["transpose_b"]


def is_half(op: TensorOp, heavy: TensorOp) -> bool:
    """Whether a slice takes a half of the columns of a product that has some for it."""
    product = shape_of(heavy.results[0])
    matrices = heavy.spec.kind is Kind.CONTRACTION
    if not matrices or not may_be_halved([shape_of(item) for item in heavy.operands]):
        return False
    shape = shape_of(op.operands[0])
    return shape[-1] == product[-1] and takes_half(shape, op.values)


def moves_before(reduction: TensorOp) -> list[TensorOp]:
    """The movement that a reduction reads through, the first one first: from the first one on that
    changes the order of elements.
    """
    found, value = list[TensorOp](), reduction.operands[0]
    while isinstance(value.owner, TensorOp) and value.owner.spec.name in MOVING_APART:
        found.append(value.owner)
        value = value.owner.operands[0]
    moves = found[::-1]
    return moves[in_order([_step_of(op) for op in moves]) :]


def combines_neighbours(product: TensorOp, moves: Sequence[TensorOp], reduction: TensorOp) -> bool:
    """Whether a reduction, through movement, combines few neighbours of a product's results."""
    steps = [_step_of(op) for op in moves]
    operands = [shape_of(value) for value in product.operands]
    shape, last = shape_of(product.results[0]), _step_of(reduction)
    return pool_behind(shape, operands, steps, last) is not None


def _step_of(op: TensorOp) -> Step:
    return Step(op.spec.name, op.values, shape_of(op.operands[0]), shape_of(op.results[0]))
