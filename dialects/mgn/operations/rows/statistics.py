"""Composite reductions: mean, variance, log-sum-exp, running sums, index of the extreme element.

Floats narrower than f32 are reduced in f32 and rounded once.
"""

import math
from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mgn.dialects.mgn.attributes import ELEMENT
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import (
    composite,
    element_type_of,
    in_single_precision,
    shape_of,
)
from mgn.dialects.mgn.operation import FLOATS, NUMERIC, AttributeSpec, OperandSpec
from mgn.dialects.mgn.operations.rows.reductions import (
    canonical_axes,
    infer_reduction,
    reduction_signature,
)
from mgn.dialects.shapes import ShapeError, reduce_shape, row_major_strides
from mgn.dialects.types import ElementType, largest_number, tensor

Axes = tuple[int, ...]

FLOAT_REDUCTION = reduction_signature(OperandSpec("x", FLOATS))
ANY_REDUCTION = reduction_signature(OperandSpec("x", NUMERIC))
INDEX_REDUCTION = (*ANY_REDUCTION, AttributeSpec("T", ELEMENT, "i32"))


@composite("mean", FLOAT_REDUCTION, infer_reduction, canonical=canonical_axes)
@in_single_precision
def mean(b: Emitter, x: SSAValue, axis: Axes, keepdims: bool) -> SSAValue:
    """`y = mean(x, axis = -1, keepdims = true)`: the sum over axes divided by their size.

    Shape: x without the axes, or with 1 in their place. nan over an empty axis. Floats only.
    """
    count = math.prod(shape_of(x)[i] for i in axis)
    return b.div(b.sum(x, axis=axis, keepdims=keepdims), float(count))


@composite("var", FLOAT_REDUCTION, infer_reduction, canonical=canonical_axes)
@in_single_precision
def var(b: Emitter, x: SSAValue, axis: Axes, keepdims: bool) -> SSAValue:
    """`y = var(x, axis = -1)`: the mean squared distance from the mean; divides by N.

    Shape: x without the axes, or with 1 in their place. nan over an empty axis. Floats only.
    Two passes: the squares are of centred values, so nothing cancels.
    """
    centred = b.sub(x, b.mean(x, axis=axis, keepdims=True))
    return b.mean(b.mul(centred, centred), axis=axis, keepdims=keepdims)


@composite("logsumexp", FLOAT_REDUCTION, infer_reduction, canonical=canonical_axes)
@in_single_precision
def logsumexp(b: Emitter, x: SSAValue, axis: Axes, keepdims: bool) -> SSAValue:
    """`y = logsumexp(x, axis = -1)`: log of the sum of exp(x), without overflow.

    Shape: x without the axes, or with 1 in their place. Rows of -inf and empty rows give -inf, a
    row with inf gives inf: the maximum is subtracted only where it is finite. Floats only.
    """
    largest = b.max_reduce(x, axis=axis, keepdims=True)
    shift = b.where(b.eq(b.abs(largest), math.inf), 0.0, largest)
    total = b.log(b.sum(b.exp(b.sub(x, shift)), axis=axis, keepdims=True))
    result = b.add(total, shift)
    return result if keepdims else b.reshape(result, reduce_shape(shape_of(x), axis, False))


def _infer_index(x: TensorType, axis: Axes, keepdims: bool, T: ElementType) -> TensorType:
    shape = x.get_shape()
    if any(shape[i] == 0 for i in axis):
        raise ShapeError("the extreme element of an empty axis has no index")
    if T.name not in ("i32", "i64"):
        raise ShapeError(f"an index is i32 or i64, not {T.name}")
    last = math.prod(shape[i] for i in axis) - 1
    if last > largest_number(T):
        raise ShapeError(f"i32 does not hold indices up to {last}: ask for T = i64")
    return tensor(T, reduce_shape(shape, axis, keepdims))


def _position(b: Emitter, shape: Sequence[int], axis: Axes, T: ElementType) -> Any:
    """The row-major index within the reduced axes, with 1 in place of the others."""
    sizes = [size if i in axis else 1 for i, size in enumerate(shape)]
    strides = row_major_strides(sizes)
    index: Any = None
    for i in (i for i in axis if sizes[i] > 1):
        line = b.iota(sizes, axis=i, T=T)
        term = line if strides[i] == 1 else b.mul(line, strides[i])
        index = term if index is None else b.add(index, term)
    return b.full(sizes, 0.0, T=T) if index is None else index


def _extreme_index(
    b: Emitter, x: SSAValue, extreme: SSAValue, axis: Axes, keepdims: bool, T: ElementType
) -> Any:
    """The first position where x equals its extreme element, or is nan."""
    hit = b.eq(x, extreme)
    if element_type_of(x).is_float:
        hit = b.logical_or(hit, b.isnan(x))
    candidate = b.where(hit, _position(b, shape_of(x), axis, T), largest_number(T))
    return b.min_reduce(candidate, axis=axis, keepdims=keepdims)


@composite("argmax", INDEX_REDUCTION, _infer_index, canonical=canonical_axes)
def argmax(b: Emitter, x: SSAValue, axis: Axes, keepdims: bool, T: ElementType) -> SSAValue:
    """`y = argmax(x, axis = -1, T = i32)`: the index of the first largest element; a nan counts
    as largest.

    Shape: x without the axes, or with 1 in their place; over several axes, the row-major index in
    them. Errors: an empty axis, a T other than i32 and i64, more than 2³¹ elements for i32.
    """
    extreme = b.max_reduce(x, axis=axis, keepdims=True)
    return _extreme_index(b, x, extreme, axis, keepdims, T)


@composite("argmin", INDEX_REDUCTION, _infer_index, canonical=canonical_axes)
def argmin(b: Emitter, x: SSAValue, axis: Axes, keepdims: bool, T: ElementType) -> SSAValue:
    """`y = argmin(x, axis = -1, T = i32)`: the index of the first smallest element; a nan counts
    as smallest.

    Shape: x without the axes, or with 1 in their place; over several axes, the row-major index in
    them. Errors: an empty axis, a T other than i32 and i64, more than 2³¹ elements for i32.
    """
    extreme = b.min_reduce(x, axis=axis, keepdims=True)
    return _extreme_index(b, x, extreme, axis, keepdims, T)
