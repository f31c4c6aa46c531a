"""Core movement: results whose elements are copied from an operand, at indices known when
compiling.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType

from mgn.dialects.mgn.attributes import AXES, ELEMENT, INT, INTS, NUMBER, PAIRS, SHAPE, Pairs
from mgn.dialects.mgn.build import literal_array
from mgn.dialects.mgn.operation import (
    AttributeSpec,
    Kind,
    OperandSpec,
    OperationSpec,
    define,
)
from mgn.dialects.shapes import ShapeError, broadcast_shapes, normalise_axes, normalise_axis
from mgn.dialects.types import (
    ElementType,
    counting_type,
    element_of,
    element_of_dtype,
    largest_number,
    tensor,
)

Array = np.ndarray
Ints = tuple[int, ...]


def _rank(x: TensorType) -> int:
    return len(x.get_shape())


def _canonical_reshape(x: TensorType, shape: Ints) -> Mapping[str, Any]:
    count = math.prod(x.get_shape())
    if shape.count(-1) > 1:
        raise ShapeError("reshape takes at most one -1")
    if -1 not in shape:
        return {}
    known = math.prod(size for size in shape if size != -1)
    if known == 0 or count % known:
        raise ShapeError(f"cannot reshape {list(x.get_shape())} to {list(shape)}")
    return {"shape": tuple(count // known if size == -1 else size for size in shape)}


def _infer_reshape(x: TensorType, shape: Ints) -> TensorType:
    if any(size < 0 for size in shape) or math.prod(shape) != math.prod(x.get_shape()):
        raise ShapeError(f"cannot reshape {list(x.get_shape())} to {list(shape)}")
    return tensor(element_of(x), shape)


def _reshape(x: Array, shape: Ints) -> Array:
    return np.reshape(x, shape)


RESHAPE = define(
    OperationSpec(
        "reshape",
        Kind.MOVEMENT,
        "`y = reshape(x, [2, -1])`: the same elements in row-major order; one size may be -1.",
        (OperandSpec("x"), AttributeSpec("shape", SHAPE)),
        _infer_reshape,
        evaluate=_reshape,
        canonical=_canonical_reshape,
    )
)


def _canonical_transpose(x: TensorType, perm: Ints) -> Mapping[str, Any]:
    return {"perm": tuple(normalise_axis(axis, _rank(x)) for axis in perm)}


def _infer_transpose(x: TensorType, perm: Ints) -> TensorType:
    if sorted(perm) != list(range(_rank(x))):
        raise ShapeError(f"perm {list(perm)} is not a permutation of {_rank(x)} axes")
    shape = x.get_shape()
    return tensor(element_of(x), [shape[axis] for axis in perm])


def _transpose(x: Array, perm: Ints) -> Array:
    return np.transpose(x, perm)


TRANSPOSE = define(
    OperationSpec(
        "transpose",
        Kind.MOVEMENT,
        "`y = transpose(x, [1, 0])`: axis i of y is axis perm[i] of x.",
        (OperandSpec("x"), AttributeSpec("perm", INTS)),
        _infer_transpose,
        evaluate=_transpose,
        canonical=_canonical_transpose,
    )
)


def _infer_broadcast_to(x: TensorType, shape: Ints) -> TensorType:
    if broadcast_shapes(x.get_shape(), shape) != tuple(shape):
        raise ShapeError(f"cannot broadcast {list(x.get_shape())} to {list(shape)}")
    return tensor(element_of(x), shape)


BROADCAST_TO = define(
    OperationSpec(
        "broadcast_to",
        Kind.MOVEMENT,
        "`y = broadcast_to(x, [4, 8])`: x repeated along axes of size 1 and new leading axes.",
        (OperandSpec("x"), AttributeSpec("shape", SHAPE)),
        _infer_broadcast_to,
        evaluate=np.broadcast_to,
    )
)


def _canonical_slice(
    x: TensorType, starts: Ints, stops: Ints, steps: Ints | None
) -> Mapping[str, Any]:
    """NumPy's rule for each axis: negative bounds count from the back, all are clipped."""
    shape = x.get_shape()
    steps = steps if steps is not None else (1,) * len(shape)
    if not len(starts) == len(stops) == len(steps) == len(shape):
        raise ShapeError(f"slice needs a start, stop and step for each of {len(shape)} axes")
    if any(step <= 0 for step in steps):
        raise ShapeError("slice steps must be positive; use flip(x, axis) to reverse")
    bounds = [
        slice(start, stop, step).indices(size)
        for start, stop, step, size in zip(starts, stops, steps, shape, strict=True)
    ]
    return {
        "starts": tuple(bound[0] for bound in bounds),
        "stops": tuple(max(bound[1], bound[0]) for bound in bounds),
        "steps": tuple(bound[2] for bound in bounds),
    }


def _infer_slice(x: TensorType, starts: Ints, stops: Ints, steps: Ints) -> TensorType:
    sizes = [len(range(*bound)) for bound in zip(starts, stops, steps, strict=True)]
    return tensor(element_of(x), sizes)


def _slice(x: Array, starts: Ints, stops: Ints, steps: Ints) -> Array:
    return x[tuple(slice(*bound) for bound in zip(starts, stops, steps, strict=True))]


SLICE = define(
    OperationSpec(
        "slice",
        Kind.MOVEMENT,
        "`y = slice(x, [0, 2], [4, 8])`: elements from start to stop of each axis, by steps.",
        (
            OperandSpec("x"),
            AttributeSpec("starts", INTS),
            AttributeSpec("stops", INTS),
            AttributeSpec("steps", INTS, None),
        ),
        _infer_slice,
        evaluate=_slice,
        canonical=_canonical_slice,
    )
)


def _canonical_concat(operands: Sequence[TensorType], axis: int) -> Mapping[str, Any]:
    return {"axis": normalise_axis(axis, _rank(operands[0]))}


def _infer_concat(operands: Sequence[TensorType], axis: int) -> TensorType:
    shapes = [list(type.get_shape()) for type in operands]
    for shape in shapes:
        if len(shape) != len(shapes[0]) or any(
            size != first
            for position, (size, first) in enumerate(zip(shape, shapes[0], strict=True))
            if position != axis
        ):
            raise ShapeError(f"cannot concat {shapes[0]} and {shape} along axis {axis}")
    result = list(shapes[0])
    result[axis] = sum(shape[axis] for shape in shapes)
    return tensor(element_of(operands[0]), result)


CONCAT = define(
    OperationSpec(
        "concat",
        Kind.MOVEMENT,
        "`y = concat([a, b], axis = 0)`: operands one after the other along an axis.",
        (OperandSpec("operands", variadic=True), AttributeSpec("axis", INT, 0)),
        _infer_concat,
        evaluate=np.concatenate,
        canonical=_canonical_concat,
    )
)


def _infer_pad(x: TensorType, padding: Pairs, value: float) -> TensorType:
    shape = x.get_shape()
    if len(padding) != len(shape):
        raise ShapeError(f"pad needs a [low, high] pair for each of {len(shape)} axes")
    if any(side < 0 for pair in padding for side in pair):
        raise ShapeError("padding must not be negative; use slice to crop")
    literal_array(value, element_of(x), "; use cast(x, f32)")
    sizes = [size + low + high for size, (low, high) in zip(shape, padding, strict=True)]
    return tensor(element_of(x), sizes)


def _pad(x: Array, padding: Pairs, value: float) -> Array:
    if not padding:
        return x
    filler = literal_array(value, element_of_dtype(x.dtype))
    return np.pad(x, padding, constant_values=filler)


PAD = define(
    OperationSpec(
        "pad",
        Kind.MOVEMENT,
        "`y = pad(x, [[0, 0], [1, 1]], 0.0)`: x surrounded by a value.",
        (OperandSpec("x"), AttributeSpec("padding", PAIRS), AttributeSpec("value", NUMBER, 0.0)),
        _infer_pad,
        evaluate=_pad,
    )
)


def _canonical_flip(x: TensorType, axis: Any) -> Mapping[str, Any]:
    return {"axis": normalise_axes(axis, _rank(x))}


def _infer_flip(x: TensorType, axis: Ints) -> TensorType:
    return x


FLIP = define(
    OperationSpec(
        "flip",
        Kind.MOVEMENT,
        "`y = flip(x, axis = 0)`: x in reverse order along axes.",
        (OperandSpec("x"), AttributeSpec("axis", AXES, None)),
        _infer_flip,
        evaluate=np.flip,
        canonical=_canonical_flip,
    )
)


def _infer_iota(shape: Ints, axis: int, T: ElementType) -> TensorType:
    if not (T.is_float or T.is_integer):
        raise ShapeError(f"iota cannot have type {T.name}")
    if T.is_integer and shape[axis] - 1 > largest_number(T):
        raise ShapeError(
            f"iota counts to {shape[axis] - 1}, but {T.name} to {largest_number(T)}:"
            f" ask for T = {counting_type(shape[axis] - 1)}"
        )
    return _infer_shape_of(shape, T)


def _infer_shape_of(shape: Ints, T: ElementType) -> TensorType:
    if any(size < 0 for size in shape):
        raise ShapeError(f"a shape cannot be negative: {list(shape)}")
    return tensor(T, shape)


def _infer_full(shape: Ints, value: float, T: ElementType) -> TensorType:
    literal_array(value, T, "; give T = f32")
    return _infer_shape_of(shape, T)


def _canonical_iota(shape: Ints, axis: int, T: ElementType) -> Mapping[str, Any]:
    return {"axis": normalise_axis(axis, len(shape))}


def _iota(shape: Ints, axis: int, T: ElementType) -> Array:
    line = np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return np.broadcast_to(line, shape).astype(T.dtype)


IOTA = define(
    OperationSpec(
        "iota",
        Kind.CONSTANT,
        "`y = iota([4, 8], axis = -1, T = i32)`: the index along an axis.",
        (
            AttributeSpec("shape", SHAPE),
            AttributeSpec("axis", INT, -1),
            AttributeSpec("T", ELEMENT, "i32"),
        ),
        _infer_iota,
        evaluate=_iota,
        canonical=_canonical_iota,
    )
)


def _full(shape: Ints, value: float, T: ElementType) -> Array:
    return np.full(shape, literal_array(value, T))


FULL = define(
    OperationSpec(
        "full",
        Kind.CONSTANT,
        "`y = full([4, 8], 1.0, T = f32)`: one value everywhere.",
        (
            AttributeSpec("shape", SHAPE),
            AttributeSpec("value", NUMBER),
            AttributeSpec("T", ELEMENT, "f32"),
        ),
        _infer_full,
        evaluate=_full,
    )
)
