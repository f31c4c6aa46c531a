"""Gradients of matrix products: two products with transposed operands, which kernels take as they
are.

Rows of several batches that one matrix served are put together first, so that its gradient is one
product and no sum of many.
"""

from collections.abc import Sequence
from math import prod
from typing import cast

from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import shape_of
from mgn.dialects.mgn.gradients.rules import Gradients, Site, gradient, summed_to
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.shapes import Shape, broadcast_shapes


@gradient("matmul")
def matmul(b: Emitter, at: Site) -> Gradients:
    """dA = g Bᵀ, dB = Aᵀ g, and their transposes where an operand is read transposed."""
    left, right = at.operands
    flip_a, flip_b = at.values["transpose_a"], at.values["transpose_b"]
    a, c, g = _as_matrices(b, left, right, at.g)
    found: list[SSAValue | None] = [None, None]
    if at.wants(0):
        found[0] = b.reshape(_of_left(b, a, c, g, flip_a, flip_b), shape_of(left))
    if at.wants(1):
        found[1] = b.reshape(_of_right(b, a, c, g, flip_a, flip_b), shape_of(right))
    return found


def _as_matrices(
    b: Emitter, left: SSAValue, right: SSAValue, g: SSAValue
) -> tuple[SSAValue, SSAValue, SSAValue]:
    """Operands and result of rank 2 or more: a vector is a row, or a column on the right."""
    row, column = shape_of(left), shape_of(right)
    batch = broadcast_shapes(row[:-2], column[:-2])
    a = b.reshape(left, (1, *row)) if len(row) == 1 else left
    c = b.reshape(right, (*column, 1)) if len(column) == 1 else right
    ends = (1 if len(row) == 1 else None, 1 if len(column) == 1 else None)
    own = list(shape_of(g)[len(batch) :])
    rows = 1 if ends[0] else own.pop(0)
    columns = 1 if ends[1] else own.pop(0)
    shape = (*batch, rows, columns)
    return a, c, g if shape_of(g) == shape else b.reshape(g, shape)


def _of_left(
    b: Emitter, a: SSAValue, c: SSAValue, g: SSAValue, flip_a: bool, flip_b: bool
) -> SSAValue:
    if flip_a:
        whole = b.matmul(c, g, transpose_a=flip_b, transpose_b=True)
        return summed_to(b, whole, shape_of(a))
    whole = b.matmul(g, c, transpose_b=not flip_b)
    return summed_to(b, whole, shape_of(a))


def _of_right(
    b: Emitter, a: SSAValue, c: SSAValue, g: SSAValue, flip_a: bool, flip_b: bool
) -> SSAValue:
    batch = shape_of(g)[:-2]
    kept = len(batch) if flip_a else _batches_of_its_own(shape_of(c), batch)
    if kept < len(batch):
        a, g = _rows(b, a, batch, kept), _rows(b, g, batch, kept)
    turned = _is_turned(c)
    if flip_b or turned:
        whole = b.matmul(g, a, transpose_a=True, transpose_b=flip_a)
    else:
        whole = b.matmul(a, g, transpose_a=not flip_a)
    if kept < len(batch):
        *outer, rows, columns = shape_of(whole)
        whole = b.reshape(whole, (*outer, *(1,) * (len(batch) - kept), rows, columns))
    if flip_b or not turned:
        return summed_to(b, whole, shape_of(c))
    *outer, rows, columns = shape_of(c)
    return _turn(b, summed_to(b, whole, (*outer, columns, rows)))


def _is_turned(x: SSAValue) -> bool:
    """Whether a matrix is another one transposed: what its gradient is made of then comes as that
    one lies, and is not transposed twice.
    """
    op, rank = x.owner, len(shape_of(x))
    if not isinstance(op, TensorOp) or op.spec.name != "transpose":
        return False
    return list(op.values["perm"]) == [*range(rank - 2), rank - 1, rank - 2]


def _turn(b: Emitter, x: SSAValue) -> SSAValue:
    """A value with its last two axes swapped."""
    rank = len(shape_of(x))
    return cast(SSAValue, b.transpose(x, [*range(rank - 2), rank - 1, rank - 2]))


def _batches_of_its_own(shape: Shape, batch: Shape) -> int:
    """The number of batch axes but for the last ones, along which one matrix serves all."""
    own = (*(1,) * (len(batch) - len(shape) + 2), *shape[:-2])
    kept = len(batch)
    while kept and own[kept - 1] == 1:
        kept -= 1
    return kept if prod(batch[kept:]) != 1 else len(batch)


def _rows(b: Emitter, x: SSAValue, batch: Sequence[int], kept: int) -> SSAValue:
    """`[…, *shared, M, K]` as `[…, shared · M, K]`."""
    shape = shape_of(x)
    outer = (*(1,) * (len(batch) - len(shape) + 2), *shape[:-2])
    whole = (*outer[:kept], *batch[kept:], *shape[-2:])
    if shape != whole:
        x = b.broadcast_to(x, whole)
    return b.reshape(x, (*whole[:kept], prod(whole[kept:-1]), whole[-1]))


@gradient("linear")
def linear(b: Emitter, at: Site) -> Gradients:
    """dx = g w; dw = gᵀ x and db = Σ g over all rows."""
    x, w, bias = at.operands
    inputs = b.matmul(at.g, w) if at.wants(0) else None
    weights = None
    if at.wants(1):
        rows = b.reshape(at.g, (prod(shape_of(at.g)[:-1]), shape_of(w)[0]))
        columns = b.reshape(x, (prod(shape_of(x)[:-1]), shape_of(w)[1]))
        weights = b.matmul(rows, columns, transpose_a=True)
    return [inputs, weights, None if bias is None else summed_to(b, at.g, shape_of(bias))]
