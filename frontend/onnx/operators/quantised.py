"""Quantised values: integers with a scale and a zero point."""

from typing import Any

import ml_dtypes
import numpy as np
from xdsl.ir import SSAValue

from mgn.dialects.types import ElementType
from mgn.frontend.onnx.core.call import Call, element, rank, shape
from mgn.frontend.onnx.core.narrow import HOLDERS, is_integer
from mgn.frontend.onnx.core.operator import define
from mgn.frontend.onnx.core.rounding import narrowed
from mgn.frontend.onnx.operators.convolution import convolved
from mgn.frontend.onnx.operators.products import centred, product


def _aligned(c: Call, value: SSAValue, x: SSAValue, axis: int, block: int) -> SSAValue:
    """A scale or zero point so that it broadcasts to x."""
    b = c.b
    if rank(value) == 0 or (rank(value) == 1 and shape(value)[0] == 1):
        return b.reshape(value, [])
    if block:
        repeated = b.repeat(value, block, axis=axis)
        low, high = [0] * rank(x), list(shape(repeated))
        high[axis] = shape(x)[axis]
        return b.slice(repeated, starts=low, stops=high)
    if rank(value) == 1:
        return b.reshape(value, [-1 if place == axis else 1 for place in range(rank(x))])
    return value


@define("QuantizeLinear", domain="com.microsoft")
@define("QuantizeLinear", since=10)
def quantize_linear(c: Call) -> SSAValue:
    """`round` of the quotient, and the zero point, held within the type"""
    x = c[0]
    axis = c.attribute("axis", 1) % max(rank(x), 1)
    kind = np.dtype(np.uint8)
    if c.get(2) is not None:
        kind = c.type_of(c[2])
    elif c.attribute("output_dtype", 0):
        kind = c.wanted("output_dtype")
    return quantised(c, x, c[1], c.get(2), kind, axis, c.attribute("block_size", 0))


def quantised(
    c: Call,
    x: SSAValue,
    scale: SSAValue,
    zero: SSAValue | None,
    kind: np.dtype[Any],
    axis: int = 0,
    block: int = 0,
) -> SSAValue:
    """round(x / scale) + zero, held within an integer type; of a float type, the nearest to it."""
    b = c.b
    wide = b.cast(x, "f32") if element(x).name != "f32" else x
    scale = b.cast(scale, "f32") if element(scale).name != "f32" else scale
    found = b.div(wide, _aligned(c, scale, x, axis, block))
    is_float = not (is_integer(kind) if kind in HOLDERS else kind.kind in "iu")
    found = found if is_float else b.round(found)
    if zero is not None:
        found = b.add(found, b.cast(_aligned(c, zero, x, axis, block), "f32"))
    if not is_float:
        limits = ml_dtypes.iinfo(kind)
        found = b.clamp(found, min=float(limits.min), max=float(limits.max))
    if kind in HOLDERS:
        return narrowed(c, found, kind, bool(c.attribute("saturate", 1)))
    if is_float:
        c.fail(f"the type {kind} is not supported")
    return b.cast(found, c.element(kind).name)


@define("DequantizeLinear", domain="com.microsoft")
@define("DequantizeLinear", since=10)
def dequantize_linear(c: Call) -> SSAValue:
    """what is left of the zero point, times the scale"""
    x = c[0]
    axis = c.attribute("axis", 1) % max(rank(x), 1)
    kind = element(c[1])
    if c.attribute("output_dtype", 0):
        kind = c.dtype("output_dtype")
    return dequantised(c, x, c[1], c.get(2), kind, axis, c.attribute("block_size", 0))


def dequantised(
    c: Call,
    x: SSAValue,
    scale: SSAValue,
    zero: SSAValue | None,
    kind: ElementType,
    axis: int = 0,
    block: int = 0,
) -> SSAValue:
    """(x - zero)·scale in a float type."""
    b = c.b
    exact = "f32" if element(x).is_float else "i32"
    whole = b.cast(x, exact) if element(x).name != exact else x
    if zero is not None:
        aligned = _aligned(c, zero, x, axis, block)
        whole = b.sub(whole, b.cast(aligned, exact) if element(aligned).name != exact else aligned)
    whole = whole if exact == "f32" else b.cast(whole, "f32")
    scale = _aligned(c, scale, x, axis, block)
    scale = b.cast(scale, "f32") if element(scale).name != "f32" else scale
    found = b.mul(whole, scale)
    return found if kind.name == "f32" else b.cast(found, kind.name)


@define("DynamicQuantizeLinear", since=11)
def dynamic_quantize_linear(c: Call) -> Any:
    """scale and zero point by the smallest and largest element, and the quantised value"""
    return dynamically_quantised(c, c[0])


def dynamically_quantised(c: Call, x: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue]:
    """A value in u8, its scale and its zero point."""
    b = c.b
    most, least = b.max(b.max_reduce(x), 0.0), b.min(b.min_reduce(x), 0.0)
    scale = b.div(b.sub(most, least), 255.0)
    scale = b.where(b.eq(scale, 0.0), 1.0, scale)
    zero = b.clamp(b.round(b.div(b.neg(least), scale)), min=0.0, max=255.0)
    found = b.clamp(b.add(b.round(b.div(x, scale)), zero), min=0.0, max=255.0)
    return b.cast(found, "u8"), scale, b.cast(zero, "u8")


@define("QLinearMatMul", since=10)
def quantised_matmul(c: Call) -> SSAValue:
    """`matmul` in i32, and the quantised product of it and the scales"""
    x = centred(c, c[0], c[2], axis=-2)
    y = centred(c, c[3], c[5], axis=-1)
    total = c.b.cast(product(c, x, y), "f32")
    return _requantised(c, total, _lined(c, c[1], x, -2), _lined(c, c[4], y, -1), 6)


def _lined(c: Call, scale: SSAValue, x: SSAValue, axis: int) -> SSAValue:
    """A scale of rows or columns."""
    if rank(scale) == 1 and shape(scale)[0] > 1:
        place = axis % rank(x)
        return c.b.reshape(scale, [-1 if item == place else 1 for item in range(rank(x))])
    return c.b.reshape(scale, []) if rank(scale) == 1 else scale


def _requantised(c: Call, total: SSAValue, one: SSAValue, other: SSAValue, number: int) -> SSAValue:
    b = c.b
    scales = [b.cast(item, "f32") if element(item).name != "f32" else item for item in (one, other)]
    real = b.mul(total, b.mul(*scales))
    return quantised(c, real, c[number], c[number + 1], c.type_of(c[number + 1]))


@define("QLinearConv", since=10)
def quantised_conv(c: Call) -> SSAValue:
    """a convolution in i32, and the quantised product of it and the scales"""
    b = c.b
    x = centred(c, c[0], c[2], axis=1)
    w = centred(c, c[3], c[5], axis=0)
    bias = c.get(8)
    total = b.cast(convolved(c, x, w, bias), "f32")
    scale = c[4]
    if rank(scale) == 1:
        scale = b.reshape(scale, [-1, *[1] * (rank(x) - 2)])
    return _requantised(c, total, b.reshape(c[1], []), scale, 6)
