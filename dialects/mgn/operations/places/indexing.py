"""Indexing: results whose elements are read at indices that are values themselves.

`gather` is the core; the others are composites of it. An index outside the axis is clamped into it,
as StableHLO's gather does, so that no read leaves its buffer.
"""

import math

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mgn.dialects.mgn.attributes import INT
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import composite, element_type_of, shape_of
from mgn.dialects.mgn.operation import (
    INTEGERS,
    AttributeSpec,
    Kind,
    OperandSpec,
    OperationSpec,
    define,
)
from mgn.dialects.mgn.operations.rows.reductions import canonical_axis
from mgn.dialects.shapes import ShapeError, row_major_strides
from mgn.dialects.types import counting_type, element_of, tensor

Array = np.ndarray


def _infer_gather(x: TensorType, ids: TensorType, axis: int) -> TensorType:
    shape = x.get_shape()
    if shape[axis] == 0 and 0 not in ids.get_shape():
        raise ShapeError("gather from an empty axis")
    return tensor(element_of(x), [*shape[:axis], *ids.get_shape(), *shape[axis + 1 :]])


def _gather(x: Array, ids: Array, axis: int) -> Array:
    if not ids.size:
        return np.empty((*x.shape[:axis], *ids.shape, *x.shape[axis + 1 :]), x.dtype)
    return np.take(x, ids.astype(np.int64), axis=axis, mode="clip")


GATHER = define(
    OperationSpec(
        "gather",
        Kind.INDEXING,
        "`y = gather(x, ids, axis = 0)`: x at ids along an axis, which the axes of ids replace.",
        (
            OperandSpec("x"),
            OperandSpec("ids", INTEGERS, group="ids"),
            AttributeSpec("axis", INT, 0),
        ),
        _infer_gather,
        evaluate=_gather,
        canonical=canonical_axis,
    )
)


def _infer_embedding(ids: TensorType, table: TensorType) -> TensorType:
    if len(table.get_shape()) != 2:
        raise ShapeError(f"table must be [rows, width], not {list(table.get_shape())}")
    return _infer_gather(table, ids, 0)


@composite(
    "embedding",
    (OperandSpec("ids", INTEGERS, group="ids"), OperandSpec("table")),
    _infer_embedding,
)
def embedding(b: Emitter, ids: SSAValue, table: SSAValue) -> SSAValue:
    """`y = embedding(ids, table)`: the row of a table at each id.

    Shape: that of ids, then the width of the table `[rows, width]`. Ids are clamped to the rows.
    Errors: a table of another rank, or without rows.
    """
    return b.gather(table, ids, axis=0)


def _infer_take_along_axis(x: TensorType, ids: TensorType, axis: int) -> TensorType:
    shape, index = x.get_shape(), ids.get_shape()
    if len(shape) != len(index):
        raise ShapeError(f"x has rank {len(shape)}, ids has rank {len(index)}")
    if shape[axis] == 0 and 0 not in index:
        raise ShapeError("take_along_axis from an empty axis")
    if axis_sizes := [
        (n, m) for i, (n, m) in enumerate(zip(shape, index, strict=True)) if i != axis and n != m
    ]:
        size, other = axis_sizes[0]
        raise ShapeError(f"x {list(shape)} and ids {list(index)}: {size} and {other} differ")
    return tensor(element_of(x), index)


@composite(
    "take_along_axis",
    (
        OperandSpec("x"),
        OperandSpec("ids", INTEGERS, group="ids"),
        AttributeSpec("axis", INT, -1),
    ),
    _infer_take_along_axis,
    canonical=canonical_axis,
)
def take_along_axis(b: Emitter, x: SSAValue, ids: SSAValue, axis: int) -> SSAValue:
    """`y = take_along_axis(x, ids, axis = -1)`: x at ids along an axis, all other indices equal.

    Shape: that of ids, which has x's rank and, but for the axis, x's sizes. Ids are clamped to the
    axis. Errors: other ranks or sizes, ids into an empty axis.
    """
    shape, index = shape_of(x), shape_of(ids)
    strides = row_major_strides(shape)
    wide = counting_type(math.prod(shape), element_type_of(ids))
    if 0 in index:
        return b.full(index, 0, T=element_type_of(x))
    clamped = b.clamp(b.cast(ids, wide), min=0.0, max=float(shape[axis] - 1))
    flat = b.mul(clamped, strides[axis])
    for i in (i for i in range(len(shape)) if i != axis and shape[i] > 1):
        line = [index[i] if j == i else 1 for j in range(len(shape))]
        flat = b.add(flat, b.mul(b.iota(line, axis=i, T=wide), strides[i]))
    return b.gather(b.reshape(x, (math.prod(shape),)), flat, axis=0)
