"""What the operands of a kernel's heavy operation are made of: further parts of its contract.

In: operations and values of a kernel's body. Out: whether they are what it says, or where they come
from.
"""

from math import prod

from xdsl.ir import Operation, SSAValue

from mgn.dialects.fusion.attention_bodies import widens
from mgn.dialects.mgn.composite import shape_of
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.types import element_of


def reads_transformed(product: TensorOp) -> bool:
    """Whether the right operand is found in one value in memory: 16 numbers for each 9 of filters,
    and panels, channels and columns.
    """
    found, pending, seen = set[SSAValue](), [product.operands[1]], set[SSAValue]()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value.owner, Operation):
            pending.extend(value.owner.operands)
        else:
            found.add(value)
    shapes = [shape_of(value) for value in found]
    filters, depth = shape_of(product.operands[1])
    return [(len(item), item[0], 9 * prod(item[1:])) for item in shapes] == [
        (4, 16, filters * depth)
    ]


def before_widening(value: SSAValue) -> SSAValue:
    """What a cast of half precision to f32 is given, where a value is one."""
    op = value.owner
    if not isinstance(op, TensorOp) or op.spec.name != "cast":
        return value
    (source,) = op.operands
    return source if widens(element_of(source.type).name, element_of(value.type).name) else value
