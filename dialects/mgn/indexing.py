"""Core indexing: results whose elements are read at indices that are values themselves.

An index outside the axis is clamped into it, as StableHLO's gather does, so that no read leaves its buffer.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType

from mgn.dialects.mgn.attributes import INT
from mgn.dialects.mgn.operation import (
    INTEGERS,
    AttributeSpec,
    Kind,
    OperandSpec,
    OperationSpec,
    define,
)
from mgn.dialects.shapes import ShapeError, normalise_axis
from mgn.dialects.types import element_of, tensor

Array = np.ndarray


def _canonical_axis(x: TensorType, ids: TensorType, axis: int) -> Mapping[str, Any]:
    return {"axis": normalise_axis(axis, len(x.get_shape()))}


def _infer_gather(x: TensorType, ids: TensorType, axis: int) -> TensorType:
    shape = x.get_shape()
    if shape[axis] == 0:
        raise ShapeError("gather from an empty axis")
    return tensor(element_of(x), [*shape[:axis], *ids.get_shape(), *shape[axis + 1 :]])


def _gather(x: Array, ids: Array, axis: int) -> Array:
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
        canonical=_canonical_axis,
    )
)
