"""Scatters by ids in order: where the run of each place begins among them, and what is in it.

In order, the ids that name one place are neighbours. So each element of a result knows where what
is scattered to it begins and ends, and looks at nothing else.

A run may be long. So `part_totals` has the ids in order cut into parts of one length. A part whose
ids are all one lies in a run as a whole. Its total is there before the run is gone over.
"""

from collections.abc import Sequence

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
from mgn.dialects.mgn.operations.places.scatter import (
    ADD,
    IDS,
    check_combine,
    combined_along,
    combined_in,
    infer_along,
)
from mgn.dialects.mgn.operations.rows.reductions import canonical_axis
from mgn.dialects.shapes import ShapeError
from mgn.dialects.types import element_of, tensor

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
    check_combine(combine)
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


def _whole_parts(shape: Sequence[int], axis: int, part: int) -> tuple[int, ...]:
    """A shape with the whole parts in the place of an axis."""
    if part < 1:
        raise ShapeError(f"part must be positive: {part}")
    return (*shape[:axis], shape[axis] // part, *shape[axis + 1 :])


def _check_totals(totals: TensorType, src: TensorType, axis: int, part: int) -> None:
    """Raises ShapeError where totals are not those of whole parts."""
    wanted = _whole_parts(src.get_shape(), axis, part)
    if totals.get_shape() != wanted:
        raise ShapeError(f"totals must be {list(wanted)}, not {list(totals.get_shape())}")


def _infer_totals(
    ids: TensorType, order: TensorType, src: TensorType, axis: int, part: int, combine: str
) -> TensorType:
    index, given = ids.get_shape(), src.get_shape()
    check_combine(combine)
    if len(index) != len(given) or order.get_shape() != index:
        raise ShapeError(f"ids {list(index)} and order {list(order.get_shape())} do not fit")
    for i, (number, own) in enumerate(zip(index, given, strict=True)):
        if number != own and (i == axis or number != 1):
            raise ShapeError(f"ids {list(index)} do not fit src {list(given)}")
    return tensor(element_of(src), _whole_parts(given, axis, part))


def _totals(ids: Array, order: Array, src: Array, axis: int, part: int, combine: str) -> Array:
    numbers = np.broadcast_to(order, src.shape).astype(np.int64)
    rows = np.moveaxis(np.take_along_axis(src, numbers, axis), axis, -1)
    named = np.moveaxis(np.broadcast_to(ids, src.shape), axis, -1)
    count = src.shape[axis] // part
    shape = (*rows.shape[:-1], count, part)
    rows, named = (item[..., : count * part].reshape(shape) for item in (rows, named))
    dtype = combined_in(src.dtype, part)
    join = np.add if combine == ADD else np.maximum
    found = join.reduce(rows.astype(dtype), axis=-1, dtype=dtype)
    found = np.where(named[..., 0] == named[..., -1], found, 0).astype(src.dtype)
    return np.moveaxis(found, -1, axis)


PART_TOTALS = define(
    OperationSpec(
        "part_totals",
        Kind.SCATTER,
        "`y = part_totals(ids, order, src, axis = 0, part = 2)`: ids that are in order along an "
        "axis, in parts of so many; of each whole part with one id alone, what is scattered by it, "
        "and 0 for others. `order` says which elements of src these are.",
        (
            OperandSpec("ids", INTEGERS, group="ids"),
            OperandSpec("order", INTEGERS, group="order"),
            OperandSpec("src", NUMERIC),
            AttributeSpec("axis", INT, 0),
            AttributeSpec("part", INT),
            AttributeSpec("combine", STRING, ADD),
        ),
        _infer_totals,
        evaluate=_totals,
        canonical=lambda ids, order, src, axis, part, combine: canonical_axis(src, axis=axis),
    )
)


def _infer_in_parts(
    x: TensorType,
    bounds: TensorType,
    order: TensorType,
    src: TensorType,
    totals: TensorType,
    axis: int,
    part: int,
    combine: str,
) -> TensorType:
    _check_totals(totals, src, axis, part)
    return _infer_runs(x, bounds, order, src, axis, combine)


def _in_parts(
    x: Array,
    bounds: Array,
    order: Array,
    src: Array,
    totals: Array,
    axis: int,
    part: int,
    combine: str,
) -> Array:
    """Each place has what is left of its run on either side, and the totals of whole parts."""
    dtype = combined_in(x.dtype, src.shape[axis])
    result, join = np.array(x, dtype), np.add if combine == ADD else np.maximum
    taken = np.take_along_axis(src, np.broadcast_to(order, src.shape).astype(np.int64), axis)
    rows, elements, whole = (np.moveaxis(item, axis, -1) for item in (result, taken, totals))
    ends = np.moveaxis(bounds, axis, -1)
    ends = np.broadcast_to(ends, (*rows.shape[:-1], ends.shape[-1]))
    for where in np.ndindex(*rows.shape):
        row, place = where[:-1], where[-1]
        first, last = (int(end) for end in ends[row][place : place + 2])
        begin, end = -(-first // part), last // part
        pieces = [elements[row][first:last]]
        if begin < end:
            left, right = elements[row][first : begin * part], elements[row][end * part : last]
            pieces = [left, whole[row][begin:end], right]
        run = np.concatenate([piece.astype(dtype) for piece in pieces])
        if len(run):
            rows[where] = join(rows[where], join.reduce(run, dtype=dtype))
    return result.astype(x.dtype)


SCATTER_RUNS_IN_PARTS = define(
    OperationSpec(
        "scatter_runs_in_parts",
        Kind.SCATTER,
        "`y = scatter_runs_in_parts(x, bounds, order, src, totals, axis = 0, part = 2)`: what "
        "`scatter_runs` gives, by `part_totals` where a run has whole parts.",
        (
            OperandSpec("x", NUMERIC),
            OperandSpec("bounds", INTEGERS, group="bounds"),
            OperandSpec("order", INTEGERS, group="order"),
            OperandSpec("src", NUMERIC),
            OperandSpec("totals", NUMERIC, group="totals"),
            AttributeSpec("axis", INT, 0),
            AttributeSpec("part", INT),
            AttributeSpec("combine", STRING, ADD),
        ),
        _infer_in_parts,
        evaluate=_in_parts,
        canonical=lambda x, bounds, order, src, totals, axis, part, combine: canonical_axis(
            x, axis=axis
        ),
    )
)


def _infer_along_in_parts(
    x: TensorType,
    ids: TensorType,
    src: TensorType,
    totals: TensorType,
    axis: int,
    part: int,
    combine: str,
) -> TensorType:
    _check_totals(totals, src, axis, part)
    return infer_along(x, ids, src, axis, combine, sorted=True)


def _along_in_parts(
    x: Array, ids: Array, src: Array, totals: Array, axis: int, part: int, combine: str
) -> Array:
    return combined_along(x, ids, src, axis, combine)


SCATTER_ALONG_IN_PARTS = define(
    OperationSpec(
        "scatter_along_in_parts",
        Kind.SCATTER,
        "`y = scatter_along_in_parts(x, ids, src, totals, axis = 0, part = 2)`: what "
        "`scatter_along` gives by ids that rise along the axis. `totals` has what each whole part "
        "of src comes to. Where ids do not rise, or it has not, the result is not defined.",
        (
            OperandSpec("x", NUMERIC),
            IDS,
            OperandSpec("src", NUMERIC),
            OperandSpec("totals", NUMERIC, group="totals"),
            AttributeSpec("axis", INT, 0),
            AttributeSpec("part", INT),
            AttributeSpec("combine", STRING, ADD),
        ),
        _infer_along_in_parts,
        evaluate=_along_in_parts,
        canonical=lambda x, ids, src, totals, axis, part, combine: canonical_axis(x, axis=axis),
    )
)
