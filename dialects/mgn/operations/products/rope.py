"""Rotary position embedding."""

import math
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mgn.dialects.mgn.attributes import BOOL, FLOAT, INT
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import composite, element_type_of, in_single_precision, shape_of
from mgn.dialects.mgn.operation import FLOATS, INTEGERS, AttributeSpec, OperandSpec
from mgn.dialects.shapes import ShapeError

SIGNATURE = (
    OperandSpec("x", FLOATS),
    AttributeSpec("head_dim", INT),
    AttributeSpec("theta", FLOAT, 10000.0),
    OperandSpec("offset", INTEGERS, group="offset", element="i32", default=0),
    AttributeSpec("interleaved", BOOL, False),
)


def _infer_rope(
    x: TensorType, offset: TensorType, head_dim: int, theta: float, **_: Any
) -> TensorType:
    shape = x.get_shape()
    if len(shape) < 2:
        raise ShapeError("rope needs x of shape […, S, heads * head_dim]")
    if head_dim < 2 or head_dim % 2 or shape[-1] % head_dim:
        raise ShapeError(f"{shape[-1]} is not a number of heads of even size {head_dim}")
    if shape[-2] > 1 << 31:
        raise ShapeError(f"positions are i32, which does not number {shape[-2]} rows")
    if not 0 < theta < math.inf:
        raise ShapeError(f"theta must be finite and more than 0, not {theta:g}")
    if offset.get_shape():
        raise ShapeError("offset must be a scalar")
    return x


@composite("rope", SIGNATURE, _infer_rope)
@in_single_precision
def rope(
    b: Emitter,
    x: SSAValue,
    offset: SSAValue,
    head_dim: int,
    theta: float,
    interleaved: bool,
) -> SSAValue:
    """`y = rope(x, head_dim = 64, theta = 10000.0, offset = 0)`: pairs of each head rotated by
    position.

    Shape: that of x, `[…, S, heads * head_dim]`. Row s is at position offset + s; pair i turns by
    position·theta^(-2i / head_dim). Pair i is elements i and i + head_dim/2, as in Hugging Face's
    Llama, or 2i and 2i + 1 with `interleaved`, as in the paper. Angles are computed in f32 or
    wider. Errors: an odd head_dim, one that does not divide the last axis, an offset that is not a
    scalar, a theta that is not finite or not above 0. Su et al. 2021 (arXiv:2104.09864).
    """
    *_, rows, width = shape_of(x)
    element = element_type_of(x)
    heads = b.reshape(x, (*shape_of(x)[:-1], width // head_dim, head_dim))
    frequency = theta ** (-np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    pairs = np.repeat(frequency, 2) if interleaved else np.tile(frequency, 2)
    position = b.add(b.iota((rows, 1, 1), axis=0, T="i32"), offset)
    turn = b.constant_array(pairs.astype(element.dtype))
    angle = b.mul(b.cast(position, element), turn)
    quarter = _quarter_turn(b, heads, interleaved)
    turned = b.add(b.mul(heads, b.cos(angle)), b.mul(quarter, b.sin(angle)))
    return b.reshape(turned, shape_of(x))


def _quarter_turn(b: Emitter, heads: SSAValue, interleaved: bool) -> SSAValue:
    """Each pair (first, second) of a head as (-second, first)."""
    shape = shape_of(heads)
    half = shape[-1] // 2
    split = b.reshape(heads, (*shape[:-1], half, 2)) if interleaved else heads
    size = shape_of(split)
    middle = size[-1] // 2
    start = (0,) * (len(size) - 1)
    first = b.slice(split, (*start, 0), (*size[:-1], middle))
    second = b.slice(split, (*start, middle), size)
    return b.reshape(b.concat([b.neg(second), first], axis=-1), shape)
