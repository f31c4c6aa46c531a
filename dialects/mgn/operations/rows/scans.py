"""Scans: what a row has come to at each of its elements, added up or multiplied.

`running_sum` and `running_product` are the core. Their forms in parts begin anew every so many
elements, from what is given for each part: so a long row is scanned by many work-groups. Half
precision accumulates in f32 and rounds each result once.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mgn.dialects.mgn.attributes import BOOL, INT
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import composite, in_single_precision, shape_of
from mgn.dialects.mgn.operation import (
    NUMERIC,
    AttributeSpec,
    Kind,
    OperandSpec,
    OperationSpec,
    define,
)
from mgn.dialects.mgn.operations.elements.elementwise import in_float32
from mgn.dialects.mgn.operations.rows.reductions import canonical_axis, reduction_signature, sums_in
from mgn.dialects.shapes import ShapeError, normalise_axes
from mgn.dialects.types import element_of, tensor

Array = np.ndarray
Axes = tuple[int, ...]

IN_PARTS = {"running_sum": "running_sum_in_parts", "running_product": "running_product_in_parts"}
"""Scans, and their forms that begin anew."""


def _running_sum(x: Array, axis: int) -> Array:
    return np.cumsum(x, axis=axis, dtype=sums_in(x.dtype, x.shape[axis])).astype(x.dtype)


def _running_product(x: Array, axis: int) -> Array:
    wide = np.dtype(np.float64) if x.dtype == np.float32 else x.dtype
    return np.cumprod(x, axis=axis, dtype=wide).astype(x.dtype)


def _infer_running(x: TensorType, axis: int) -> TensorType:
    return x


def _infer_in_parts(
    x: TensorType, before: TensorType, axis: int, part: int, totals: bool
) -> TensorType:
    shape = x.get_shape()
    if part < 1:
        raise ShapeError(f"part must be at least 1, not {part}")
    wanted = (*shape[:axis], -(-shape[axis] // part), *shape[axis + 1 :])
    if before.get_shape() != wanted:
        raise ShapeError(f"before must be {list(wanted)}, not {list(before.get_shape())}")
    return x


def _in_parts(name: str) -> Callable[..., Array]:
    running, join = RUNNING[name]

    def evaluate(x: Array, before: Array, axis: int, part: int, totals: bool) -> Array:
        rows, given = np.moveaxis(x, axis, -1), np.moveaxis(before, axis, -1)
        if totals:
            start = np.full((*given.shape[:-1], 1), join.identity, given.dtype)
            given = np.concatenate([start, running(given, -1)[..., :-1]], -1)
        pieces = [
            join(running(rows[..., start : start + part], -1), given[..., number, None])
            for number, start in enumerate(range(0, rows.shape[-1], part))
        ]
        result = np.concatenate(pieces, -1) if pieces else rows
        return np.moveaxis(result, -1, axis).astype(x.dtype)

    return evaluate


RUNNING: dict[str, tuple[Callable[[Array, int], Array], np.ufunc]] = {
    "running_sum": (_running_sum, np.add),
    "running_product": (_running_product, np.multiply),
}

for _name, _what in (("running_sum", "sums"), ("running_product", "products")):
    define(
        OperationSpec(
            _name,
            Kind.SCAN,
            f"`y = {_name}(x, axis = -1)`: the {_what} up to each element along one axis.",
            (OperandSpec("x", NUMERIC), AttributeSpec("axis", INT, -1)),
            _infer_running,
            evaluate=in_float32(RUNNING[_name][0]),
            canonical=canonical_axis,
        )
    )
    define(
        OperationSpec(
            IN_PARTS[_name],
            Kind.SCAN,
            f"`y = {IN_PARTS[_name]}(x, before, axis = -1, part = 2)`: the {_what} up to each "
            "element of its part of the axis, with what was before the part. `totals = true` says "
            "that what each part comes to is given, in place of what was before it.",
            (
                OperandSpec("x", NUMERIC),
                OperandSpec("before", NUMERIC, group="before"),
                AttributeSpec("axis", INT, -1),
                AttributeSpec("part", INT),
                AttributeSpec("totals", BOOL, False),
            ),
            _infer_in_parts,
            evaluate=in_float32(_in_parts(_name)),
            canonical=lambda x, before, axis, part, totals: canonical_axis(x, axis=axis),
        )
    )


def _canonical(x: TensorType, axis: Axes | None, keepdims: bool) -> Mapping[str, Any]:
    axes = {} if axis is None else {"axis": normalise_axes(axis, len(x.get_shape()))}
    return {**axes, "keepdims": False}


def _infer(x: TensorType, axis: Axes | None, keepdims: bool) -> TensorType:
    return tensor(element_of(x), (math.prod(x.get_shape()),)) if axis is None else x


def _along(b: Emitter, name: str, x: SSAValue, axis: Axes | None) -> SSAValue:
    """A scan along axes, one after the other; of x flattened where there are none."""
    if axis is None:
        return b.call(name, b.reshape(x, (math.prod(shape_of(x)),)), axis=0)
    result = x if axis else b.identity(x)
    for one in axis:
        result = b.call(name, result, axis=one)
    return result


SIGNATURE = reduction_signature(OperandSpec("x", NUMERIC))


@composite("cumsum", SIGNATURE, _infer, canonical=_canonical)
@in_single_precision
def cumsum(b: Emitter, x: SSAValue, axis: Axes | None, keepdims: bool) -> SSAValue:
    """`y = cumsum(x, axis = -1)`: the sums up to each element along an axis.

    Shape: that of x; without an axis x is flattened first, as numpy.cumsum does. Several axes are
    summed one after the other, so that each element becomes the sum of the box that ends at it.
    `keepdims` is accepted for likeness with the other reductions and changes nothing.
    """
    return _along(b, "running_sum", x, axis)


@composite("cumprod", SIGNATURE, _infer, canonical=_canonical)
@in_single_precision
def cumprod(b: Emitter, x: SSAValue, axis: Axes | None, keepdims: bool) -> SSAValue:
    """`y = cumprod(x, axis = -1)`: the products up to each element along an axis.

    Shape: that of x; without an axis x is flattened first, as numpy.cumprod does. Several axes are
    multiplied one after the other. `keepdims` changes nothing.
    """
    return _along(b, "running_product", x, axis)
