"""Scatters by ids in order: where the run of each place begins among them, and what is in it.

In order, the ids that name one place are neighbours. So each element of a result knows where what
is scattered to it begins and ends, and looks at nothing else.
"""

import numpy as np
from xdsl.dialects.builtin import TensorType

from mgn.dialects.mgn.attributes import INT, STRING
from mgn.dialects.mgn.operation import (
    INTEGERS,
    NUMERIC,
    AttributeSpec,
    Kind,
    OperandSpec,
    OperationSpec,
    define,
)
from mgn.dialects.mgn.operations.places.scatter import ADD, COMBINES, combined_along
from mgn.dialects.mgn.operations.rows.reductions import canonical_axis
from mgn.dialects.shapes import ShapeError
from mgn.dialects.types import tensor

Array = np.ndarray


def _infer_bounds(ids: TensorType, places: int, axis: int) -> TensorType:
    shape = ids.get_shape()
    if places < 0:
        raise ShapeError(f"places must not be negative: {places}")
    return tensor("i32", (*shape[:axis], places + 1, *shape[axis + 1 :]))


def _bounds(ids: Array, places: int, axis: int) -> Array:
    rows = np.moveaxis(ids, axis, -1)
    wanted = np.arange(places + 1)
    found = np.empty((*rows.shape[:-1], places + 1), np.int32)
    for row in np.ndindex(*rows.shape[:-1]):
        found[row] = np.searchsorted(rows[row].astype(np.int64), wanted)
    return np.moveaxis(found, -1, axis)


RUN_BOUNDS = define(
    OperationSpec(
        "run_bounds",
        Kind.INDEXING,
        "`y = run_bounds(ids, 4, axis = 0)`: of ids in order along an axis, how many are below "
        "each number from 0 up to the given one: where the run of that number begins.",
        (
            OperandSpec("ids", INTEGERS, group="ids"),
            AttributeSpec("places", INT),
            AttributeSpec("axis", INT, 0),
        ),
        _infer_bounds,
        evaluate=_bounds,
        canonical=lambda ids, places, axis: canonical_axis(ids, axis=axis),
    )
)


def _infer_runs(
    x: TensorType,
    bounds: TensorType,
    order: TensorType,
    src: TensorType,
    axis: int,
    combine: str,
) -> TensorType:
    shape, places, index = x.get_shape(), bounds.get_shape(), order.get_shape()
    given = src.get_shape()
    if combine not in COMBINES:
        raise ShapeError(f"combine must be 'add' or 'max', not '{combine}'")
    for i, sizes in enumerate(zip(shape, places, index, given, strict=True)):
        size, bound, number, own = sizes
        fits = (bound == size + 1 and number == own) if i == axis else own == size
        if not fits or (i != axis and (bound != number or number not in (1, own))):
            raise ShapeError(f"bounds {list(places)} and order {list(index)} do not fit")
    return x


def _runs(x: Array, bounds: Array, order: Array, src: Array, axis: int, combine: str) -> Array:
    if not x.size:
        return x
    shape = list(src.shape)
    taken = np.take_along_axis(src, np.broadcast_to(order, shape).astype(np.int64), axis)
    rows = np.moveaxis(bounds, axis, -1)
    ids = np.empty(np.moveaxis(order, axis, -1).shape, np.int64)
    for row in np.ndindex(*rows.shape[:-1]):
        ids[row] = np.searchsorted(rows[row][1:], np.arange(order.shape[axis]), side="right")
    return combined_along(x, np.moveaxis(ids, -1, axis), taken, axis, combine)


SCATTER_RUNS = define(
    OperationSpec(
        "scatter_runs",
        Kind.SCATTER,
        "`y = scatter_runs(x, bounds, order, src, axis = 0)`: x with src added where the bounds of "
        "runs, and the order that its ids are in, say.",
        (
            OperandSpec("x", NUMERIC),
            OperandSpec("bounds", INTEGERS, group="bounds"),
            OperandSpec("order", INTEGERS, group="order"),
            OperandSpec("src", NUMERIC),
            AttributeSpec("axis", INT, 0),
            AttributeSpec("combine", STRING, ADD),
        ),
        _infer_runs,
        evaluate=_runs,
        canonical=lambda x, bounds, order, src, axis, combine: canonical_axis(x, axis=axis),
    )
)
