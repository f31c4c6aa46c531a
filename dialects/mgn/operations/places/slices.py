"""Slices that begin where values say: a part of a tensor read, or written.

Starts are i32 scalars, or one i32 vector of all of them. They are clamped so that the part lies in
the tensor, as in StableHLO.
"""

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mgn.dialects.mgn.attributes import SHAPE
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import composite, shape_of
from mgn.dialects.mgn.operation import INTEGERS, AttributeSpec, OperandSpec
from mgn.dialects.shapes import Shape, ShapeError
from mgn.dialects.types import counting_type, element_of, tensor

STARTS = OperandSpec("starts", INTEGERS, group="starts", element="i32", variadic=True, bare=True)


def _check_starts(name: str, shape: Shape, starts: Sequence[TensorType], sizes: Shape) -> None:
    """ShapeError where a part of these sizes at these starts is none of a tensor of that shape."""
    is_vector = len(starts) == 1 and starts[0].get_shape() == (len(shape),)
    if not is_vector and any(type.get_shape() for type in starts):
        raise ShapeError("starts must be scalars, or one vector of all of them")
    if len(sizes) != len(shape) or not (is_vector or len(starts) == len(shape)):
        raise ShapeError(f"{name} needs a start and a size for each of {len(shape)} axes")
    if any(not 0 <= size <= whole for size, whole in zip(sizes, shape, strict=True)):
        raise ShapeError(f"sizes {list(sizes)} do not fit {list(shape)}")


def _first(b: Emitter, starts: Sequence[SSAValue], axis: int, whole: int, size: int) -> SSAValue:
    """Where a part of some size begins along an axis, inside it."""
    start = starts[min(axis, len(starts) - 1)]
    if shape_of(start):
        line = b.slice(start, starts=[axis], stops=[axis + 1])
        start = b.reshape(line, ())
    return b.clamp(b.cast(start, counting_type(whole)), min=0.0, max=float(whole - size))


def _infer_dynamic_slice(x: TensorType, starts: Sequence[TensorType], sizes: Shape) -> TensorType:
    _check_starts("dynamic_slice", x.get_shape(), starts, sizes)
    return tensor(element_of(x), sizes)


@composite(
    "dynamic_slice",
    (OperandSpec("x"), STARTS, AttributeSpec("sizes", SHAPE)),
    _infer_dynamic_slice,
)
def dynamic_slice(b: Emitter, x: SSAValue, starts: Sequence[SSAValue], sizes: Shape) -> SSAValue:
    """`y = dynamic_slice(x, [0, position], [4, 1])`: the part of x of these sizes that begins at
    starts.

    Shape: sizes. Starts are i32 scalars, values or numbers, or one i32 vector, clamped so that the
    part lies in x, as in StableHLO. Errors: another number of starts or sizes than axes, a size
    above the axis.
    """
    result: Any = b.identity(x) if sizes == shape_of(x) else x
    for axis, (size, whole) in enumerate(zip(sizes, shape_of(x), strict=True)):
        if size == whole:
            continue
        line = b.iota((size,), axis=0, T=counting_type(whole))
        first = _first(b, starts, axis, whole, size)
        result = b.gather(result, b.add(line, first), axis=axis)
    return result


def _infer_dynamic_update_slice(
    x: TensorType, src: TensorType, starts: Sequence[TensorType]
) -> TensorType:
    shape, sizes = x.get_shape(), src.get_shape()
    if len(shape) != len(sizes):
        raise ShapeError(f"x has rank {len(shape)}, src has rank {len(sizes)}")
    if not shape:
        raise ShapeError("dynamic_update_slice needs an axis")
    _check_starts("dynamic_update_slice", shape, starts, sizes)
    return x


@composite(
    "dynamic_update_slice",
    (OperandSpec("x"), OperandSpec("src"), STARTS),
    _infer_dynamic_update_slice,
)
def dynamic_update_slice(
    b: Emitter, x: SSAValue, src: SSAValue, starts: Sequence[SSAValue]
) -> SSAValue:
    """`y = dynamic_update_slice(cache, row, [0, position])`: x with src in the place of the part
    that begins at starts.

    Shape: that of x. Starts are i32 scalars, values or numbers, or one i32 vector, clamped so that
    the part lies in x, as in StableHLO. Errors: another rank of src, a size of src above the axis,
    another number of starts than axes.
    """
    shape, sizes = shape_of(x), shape_of(src)
    if 0 in sizes:
        return b.identity(x)
    if shape == sizes:
        return b.identity(src)
    inside: Any = None
    for axis, (size, whole) in enumerate(zip(sizes, shape, strict=True)):
        if size == whole:
            continue
        line = [whole if i == axis else 1 for i in range(len(shape))]
        place = b.iota((whole,), axis=0, T=counting_type(whole))
        place = b.sub(place, _first(b, starts, axis, whole, size))
        src = b.gather(src, place, axis=axis)
        place = b.reshape(place, line)
        within = b.logical_and(b.ge(place, 0), b.lt(place, size))
        inside = within if inside is None else b.logical_and(inside, within)
    return b.where(inside, src, x)
