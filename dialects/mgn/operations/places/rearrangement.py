"""Composite movement: other ways to say reshape, slice, concat and broadcast."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mgn.dialects.mgn.attributes import AXES, INT, INTS, SHAPE
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import composite, shape_of
from mgn.dialects.mgn.operation import AttributeSpec, OperandSpec
from mgn.dialects.shapes import Shape, ShapeError, normalise_axes, normalise_axis
from mgn.dialects.types import element_of, tensor

X = OperandSpec("x")
AXIS = AttributeSpec("axis", INT, 0)


def _insert_ones(shape: Sequence[int], axes: Sequence[int]) -> Shape:
    sizes = iter(shape)
    return tuple(1 if i in axes else next(sizes) for i in range(len(shape) + len(axes)))


def _canonical_expand_dims(x: TensorType, axis: Shape) -> Mapping[str, Any]:
    return {"axis": normalise_axes(axis, len(x.get_shape()) + len(axis))}


def _infer_expand_dims(x: TensorType, axis: Shape) -> TensorType:
    return tensor(element_of(x), _insert_ones(x.get_shape(), axis))


@composite(
    "expand_dims",
    (X, AttributeSpec("axis", AXES)),
    _infer_expand_dims,
    canonical=_canonical_expand_dims,
)
def expand_dims(b: Emitter, x: SSAValue, axis: Shape) -> SSAValue:
    """`y = expand_dims(x, axis = 0)`: x with new axes of size 1, at these places of the result.

    Shape: x's with the 1s. Error: an axis out of range or named twice.
    """
    return b.reshape(x, _insert_ones(shape_of(x), axis))


def _canonical_squeeze(x: TensorType, axis: Shape | None) -> Mapping[str, Any]:
    shape = x.get_shape()
    if axis is None:
        return {"axis": tuple(i for i, size in enumerate(shape) if size == 1)}
    return {"axis": normalise_axes(axis, len(shape))}


def _infer_squeeze(x: TensorType, axis: Shape) -> TensorType:
    shape = x.get_shape()
    for i in axis:
        if shape[i] != 1:
            raise ShapeError(f"cannot squeeze axis {i} of {list(shape)}: its size is {shape[i]}")
    return tensor(element_of(x), [size for i, size in enumerate(shape) if i not in axis])


@composite(
    "squeeze", (X, AttributeSpec("axis", AXES, None)), _infer_squeeze, canonical=_canonical_squeeze
)
def squeeze(b: Emitter, x: SSAValue, axis: Shape) -> SSAValue:
    """`y = squeeze(x, axis = 0)`: x without these axes of size 1, or without all of them.

    Shape: x's without the axes. Error: an axis whose size is not 1.
    """
    return b.reshape(x, [size for i, size in enumerate(shape_of(x)) if i not in axis])


def _canonical_flatten(x: TensorType, start: int, end: int) -> Mapping[str, Any]:
    rank = max(len(x.get_shape()), 1)
    return {"start": normalise_axis(start, rank), "end": normalise_axis(end, rank)}


def _flat_shape(shape: Sequence[int], start: int, end: int) -> Shape:
    return (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :])


def _infer_flatten(x: TensorType, start: int, end: int) -> TensorType:
    if start > end:
        raise ShapeError(f"start {start} is after end {end}")
    return tensor(element_of(x), _flat_shape(x.get_shape(), start, end))


@composite(
    "flatten",
    (X, AttributeSpec("start", INT, 0), AttributeSpec("end", INT, -1)),
    _infer_flatten,
    canonical=_canonical_flatten,
)
def flatten(b: Emitter, x: SSAValue, start: int, end: int) -> SSAValue:
    """`y = flatten(x, start = 1, end = -1)`: the axes from start to end, both included, as one.

    Shape: their product in their place; a scalar becomes `[1]`. Error: start after end.
    """
    return b.reshape(x, _flat_shape(shape_of(x), start, end))


def _canonical_stack(operands: Sequence[TensorType], axis: int) -> Mapping[str, Any]:
    return {"axis": normalise_axis(axis, len(operands[0].get_shape()) + 1)}


def _infer_stack(operands: Sequence[TensorType], axis: int) -> TensorType:
    first = operands[0].get_shape()
    for type in operands:
        if type.get_shape() != first:
            raise ShapeError(f"cannot stack {list(first)} and {list(type.get_shape())}")
    return tensor(element_of(operands[0]), (*first[:axis], len(operands), *first[axis:]))


@composite(
    "stack",
    (OperandSpec("operands", variadic=True), AXIS),
    _infer_stack,
    canonical=_canonical_stack,
)
def stack(b: Emitter, operands: Sequence[SSAValue], axis: int) -> SSAValue:
    """`y = stack([a, b], axis = 0)`: operands of one shape along a new axis.

    Shape: theirs with their number at the axis. Error: different shapes.
    """
    return b.concat([b.expand_dims(value, axis=axis) for value in operands], axis=axis)


def _canonical_split(x: TensorType, sizes: Shape, axis: int) -> Mapping[str, Any]:
    return {"axis": normalise_axis(axis, len(x.get_shape()))}


def _infer_split(x: TensorType, sizes: Shape, axis: int) -> Sequence[TensorType]:
    shape = x.get_shape()
    if any(size < 0 for size in sizes) or sum(sizes) != shape[axis]:
        raise ShapeError(f"sizes {list(sizes)} do not add up to {shape[axis]}")
    return [tensor(element_of(x), (*shape[:axis], n, *shape[axis + 1 :])) for n in sizes]


@composite(
    "split",
    (X, AttributeSpec("sizes", INTS), AXIS),
    _infer_split,
    canonical=_canonical_split,
    several_results=True,
)
def split(b: Emitter, x: SSAValue, sizes: Shape, axis: int) -> Sequence[SSAValue]:
    """`p, q = split(x, [2, 6], axis = -1)`: x cut along an axis into parts of these sizes.

    Shape: x's with each size at the axis. Error: sizes that do not add up to the axis.
    """
    shape = shape_of(x)
    parts: list[SSAValue] = []
    start = 0
    for size in sizes:
        lows = [start if i == axis else 0 for i in range(len(shape))]
        highs = [start + size if i == axis else n for i, n in enumerate(shape)]
        parts.append(b.slice(x, lows, highs))
        start += size
    return parts


def _infer_tile(x: TensorType, repeats: Shape) -> TensorType:
    if any(count < 0 for count in repeats):
        raise ShapeError("repeats must not be negative")
    rank = max(len(repeats), len(x.get_shape()))
    sizes, counts = _aligned(x.get_shape(), rank), _aligned(repeats, rank)
    return tensor(element_of(x), [n * count for n, count in zip(sizes, counts, strict=True)])


def _aligned(sizes: Sequence[int], rank: int) -> Shape:
    return (*(1,) * (rank - len(sizes)), *sizes)


@composite("tile", (X, AttributeSpec("repeats", SHAPE)), _infer_tile)
def tile(b: Emitter, x: SSAValue, repeats: Shape) -> SSAValue:
    """`y = tile(x, [2, 1])`: x laid side by side as often as told, as numpy.tile.

    Shape: sizes times repeats, the shorter of the two filled up with leading 1s. Error: a negative
    count.
    """
    rank = max(len(repeats), len(shape_of(x)))
    sizes, counts = _aligned(shape_of(x), rank), _aligned(repeats, rank)
    pairs = list(zip(counts, sizes, strict=True))
    single = b.reshape(x, [part for _, size in pairs for part in (1, size)])
    wide = b.broadcast_to(single, [part for pair in pairs for part in pair])
    return b.reshape(wide, [count * size for count, size in pairs])


def _canonical_repeat(x: TensorType, repeats: int, axis: int | None) -> Mapping[str, Any]:
    return {} if axis is None else {"axis": normalise_axis(axis, len(x.get_shape()))}


def _infer_repeat(x: TensorType, repeats: int, axis: int | None) -> TensorType:
    if repeats < 0:
        raise ShapeError("the number of repeats must not be negative")
    shape = x.get_shape()
    if axis is None:
        return tensor(element_of(x), (math.prod(shape) * repeats,))
    return tensor(element_of(x), (*shape[:axis], shape[axis] * repeats, *shape[axis + 1 :]))


@composite(
    "repeat",
    (X, AttributeSpec("repeats", INT), AttributeSpec("axis", INT, None)),
    _infer_repeat,
    canonical=_canonical_repeat,
)
def repeat(b: Emitter, x: SSAValue, repeats: int, axis: int | None) -> SSAValue:
    """`y = repeat(x, 3, axis = 0)`: each element along an axis several times, as numpy.repeat.

    Shape: the axis times repeats; without an axis, x is flattened first. Error: a negative count.
    """
    if axis is None:
        x, axis = b.reshape(x, (math.prod(shape_of(x)),)), 0
    shape = shape_of(x)
    before, after = shape[: axis + 1], shape[axis + 1 :]
    single = b.reshape(x, (*before, 1, *after))
    wide = b.broadcast_to(single, (*before, repeats, *after))
    return b.reshape(wide, (*shape[:axis], shape[axis] * repeats, *after))
