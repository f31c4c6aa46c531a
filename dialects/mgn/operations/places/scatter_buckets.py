"""Scatters by ids that are in order but for their lowest bits: buckets of neighbouring places.

The ids of a bucket are alike but for these bits. In memory its elements lie together, in the order
that they had. A bucket may have many elements. So `bucket_totals` has the ids cut into parts of one
length, and what a part with one bucket alone comes to, of each place.
"""

import numpy as np
from xdsl.dialects.builtin import TensorType

from mgn.dialects.mgn.attributes import INT
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
    combined_along,
    combined_in,
    infer_along,
)
from mgn.dialects.mgn.operations.rows.reductions import canonical_axis
from mgn.dialects.shapes import Shape, ShapeError
from mgn.dialects.types import element_of, tensor

Array = np.ndarray

MOST_BITS = 16
"""The most bits that the ids of a bucket may differ in."""


def _totals_shape(shape: Shape, axis: int, bits: int, part: int) -> Shape:
    """The shape of the totals of all places of the bucket of each whole part."""
    if part < 1 or not 1 <= bits <= MOST_BITS:
        raise ShapeError(f"part {part} must be positive, and bits {bits} from 1 to {MOST_BITS}")
    return (*shape[:axis], shape[axis] // part << bits, *shape[axis + 1 :])


def _infer_totals(ids: TensorType, src: TensorType, axis: int, bits: int, part: int) -> TensorType:
    if ids.get_shape() != src.get_shape():
        raise ShapeError(f"ids {list(ids.get_shape())} do not fit src {list(src.get_shape())}")
    return tensor(element_of(src), _totals_shape(src.get_shape(), axis, bits, part))


def _totals(ids: Array, src: Array, axis: int, bits: int, part: int) -> Array:
    rows, named = (np.moveaxis(item, axis, -1) for item in (src, ids.astype(np.int64)))
    count, places = src.shape[axis] // part, 1 << bits
    found = np.zeros((*rows.shape[:-1], count, places), combined_in(src.dtype, part))
    for where in np.ndindex(*rows.shape[:-1], count):
        row, own = where[:-1], slice(where[-1] * part, (where[-1] + 1) * part)
        numbers = named[row][own]
        if numbers[0] >> bits == numbers[-1] >> bits:
            np.add.at(found[where], numbers % places, rows[row][own].astype(found.dtype))
    shape = (*rows.shape[:-1], count * places)
    return np.moveaxis(found.reshape(shape), -1, axis).astype(src.dtype)


BUCKET_TOTALS = define(
    OperationSpec(
        "bucket_totals",
        Kind.SCATTER,
        "`y = bucket_totals(ids, src, axis = 0, bits = 8, part = 2)`: ids that rise along an axis "
        "but for their lowest bits, in parts of so many; of each whole part whose ids differ in "
        "these bits alone, what is added at each of their 2^bits places, and 0 for others.",
        (
            OperandSpec("ids", INTEGERS, group="ids"),
            OperandSpec("src", NUMERIC),
            AttributeSpec("axis", INT, 0),
            AttributeSpec("bits", INT),
            AttributeSpec("part", INT),
        ),
        _infer_totals,
        evaluate=_totals,
        canonical=lambda ids, src, axis, bits, part: canonical_axis(src, axis=axis),
    )
)


def _infer_in_buckets(
    x: TensorType,
    ids: TensorType,
    src: TensorType,
    totals: TensorType,
    axis: int,
    bits: int,
    part: int,
) -> TensorType:
    wanted = _totals_shape(src.get_shape(), axis, bits, part)
    if totals.get_shape() != wanted:
        raise ShapeError(f"totals must be {list(wanted)}, not {list(totals.get_shape())}")
    return infer_along(x, ids, src, axis, ADD, sorted=True)


def _in_buckets(
    x: Array, ids: Array, src: Array, totals: Array, axis: int, bits: int, part: int
) -> Array:
    return combined_along(x, ids, src, axis, ADD)


SCATTER_IN_BUCKETS = define(
    OperationSpec(
        "scatter_in_buckets",
        Kind.SCATTER,
        "`y = scatter_in_buckets(x, ids, src, totals, axis = 0, bits = 8, part = 2)`: what "
        "`scatter_along` gives by ids that rise along the axis but for their lowest bits. `totals` "
        "are those of `bucket_totals`. Where ids do not rise, or totals are others, the result is "
        "not defined.",
        (
            OperandSpec("x", NUMERIC),
            IDS,
            OperandSpec("src", NUMERIC),
            OperandSpec("totals", NUMERIC, group="totals"),
            AttributeSpec("axis", INT, 0),
            AttributeSpec("bits", INT),
            AttributeSpec("part", INT),
        ),
        _infer_in_buckets,
        evaluate=_in_buckets,
        canonical=lambda x, ids, src, totals, axis, bits, part: canonical_axis(x, axis=axis),
    )
)
