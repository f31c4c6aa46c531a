"""Sums over blocks of rows, which kernels compute beside what they do with each row.

In: rows, which are the places of the first axes. Out: a sum for each block of so many rows. What
these come to is the sum over all rows.
"""

import math

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mgn.dialects.mgn.attributes import INT
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import composite, shape_of
from mgn.dialects.mgn.operation import NUMERIC, AttributeSpec, OperandSpec
from mgn.dialects.shapes import ShapeError
from mgn.dialects.types import element_of, tensor


def _infer(x: TensorType, rows: int, leading: int) -> TensorType:
    shape = x.get_shape()
    if rows < 1:
        raise ShapeError(f"rows must be at least 1, not {rows}")
    if not 1 <= leading <= len(shape):
        raise ShapeError(f"leading must be from 1 to {len(shape)}, not {leading}")
    return tensor(element_of(x), (-(-math.prod(shape[:leading]) // rows), *shape[leading:]))


@composite(
    "block_sums",
    (OperandSpec("x", NUMERIC), AttributeSpec("rows", INT), AttributeSpec("leading", INT, 1)),
    _infer,
)
def block_sums(b: Emitter, x: SSAValue, rows: int, leading: int) -> SSAValue:
    """`y = block_sums(x, rows = 2)`: the sums over each block of so many rows.

    Shape: rows are the places of the first `leading` axes; `[blocks, …]` with the axes behind.
    The last block may have fewer rows. Errors: blocks of no rows, more leading axes than there are.
    """
    shape = shape_of(x)
    count, rest = math.prod(shape[:leading]), shape[leading:]
    blocks = -(-count // rows)
    flat = b.reshape(x, [count, *rest])
    if blocks * rows > count:
        flat = b.pad(flat, [[0, blocks * rows - count], *([0, 0] for _ in rest)], 0)
    return b.sum(b.reshape(flat, [blocks, rows, *rest]), axis=[1])
