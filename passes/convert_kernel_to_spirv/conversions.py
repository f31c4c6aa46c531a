"""Rows of the casts of `arith`: operation class → SPIR-V instructions.

Casts from float to integer truncate and saturate, with 0 for a NaN; casts to a float type round
once, to the nearest, ties to even.
"""

from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import Float16Type, Float64Type
from xdsl.ir import Attribute, Operation, SSAValue

from mgn.dialects import kernel
from mgn.dialects.kernel.lanes import element, is_bool, is_float, is_small_float
from mgn.dialects.spirv.shapes import Shape
from mgn.passes.convert_kernel_to_spirv.converter import Converter, Row


def _bitcast(c: Converter, operation: arith.BitcastOp) -> SSAValue:
    return bitcast(c, operation.input, operation.result.type)


def bitcast(c: Converter, source: SSAValue, target: Attribute) -> SSAValue:
    """The bits of a value as another type with lanes of the same width."""
    value, shape = c.value(source), c.shape(target)
    if element(source.type) == element(target):
        return value
    if is_small_float(source.type):
        bits = _small_bits(c, value, source.type)
        return bits if not is_float(target) else _small_from_bits(c, bits, target)
    if is_small_float(target):
        return _small_from_bits(c, value, target)
    return value if c.shape(source.type) == shape else c.builder.emit("OpBitcast", shape, value)


def _small_bits(c: Converter, value: SSAValue, type: Attribute) -> SSAValue:
    shape = c.shape(type)
    if isinstance(element(type), Float16Type):
        return c.library.f16_bits(value, shape.lanes)
    return bf16_bits(c, value, shape.lanes)


def _small_from_bits(c: Converter, bits: SSAValue, type: Attribute) -> SSAValue:
    lanes = c.shape(type).lanes
    if isinstance(element(type), Float16Type):
        return c.library.f16_from_bits(bits, lanes)
    return bf16_from_bits(c, bits, lanes)


def bf16_bits(c: Converter, value: SSAValue, lanes: int) -> SSAValue:
    """The upper halves of 32-bit floats."""
    b, shape = c.builder, Shape("int", 32, lanes)
    bits = b.emit("OpBitcast", shape, value)
    high = b.emit("OpShiftRightLogical", shape, bits, b.constant(shape, 16))
    return b.emit("OpUConvert", shape.as_kind("int", 16), high)


def bf16_from_bits(c: Converter, bits: SSAValue, lanes: int) -> SSAValue:
    """32-bit floats of upper halves."""
    b, shape = c.builder, Shape("int", 32, lanes)
    wide = b.emit("OpUConvert", shape, bits)
    high = b.emit("OpShiftLeftLogical", shape, wide, b.constant(shape, 16))
    return b.emit("OpBitcast", shape.as_kind("float", 32), high)


def resized(
    c: Converter, value: SSAValue, source: Shape, target: Shape, is_unsigned: bool
) -> SSAValue:
    """An integer in another width."""
    if source.bits == target.bits:
        return value
    return c.builder.emit("OpUConvert" if is_unsigned else "OpSConvert", target, value)


def _index_cast(c: Converter, operation: arith.IndexCastOp) -> SSAValue:
    source, target = c.shape(operation.input.type), c.shape(operation.result.type)
    return resized(c, c.value(operation.input), source, target, is_unsigned=False)


def _float_to_integer(is_unsigned: bool) -> Row:
    name = "OpConvertFToU" if is_unsigned else "OpConvertFToS"

    def row(c: Converter, operation: Any) -> SSAValue:
        if is_bool(operation.result.type):
            raise c.error(operation, "does not convert to i1: compare with zero")
        b, source = c.builder, c.shape(operation.input.type)
        value = c.value(operation.input)
        if is_unsigned:  # a NaN becomes 0 here: not all devices' vector conversions do that
            value = b.extended("fmax", source, value, b.constant(source, 0.0))
        result = b.emit(name, c.shape(operation.result.type), value)
        b.decorate(result, "SaturatedConversion")
        return result

    return row


def _integer_to_float(is_unsigned: bool) -> Row:
    name = "OpConvertUToF" if is_unsigned else "OpConvertSToF"

    def row(c: Converter, operation: Any) -> SSAValue:
        b, type = c.builder, operation.result.type
        source, target = c.shape(operation.input.type), c.shape(type)
        value = c.value(operation.input)
        if is_bool(operation.input.type):
            one = b.constant(target, 1.0 if is_unsigned else -1.0)
            return b.emit("OpSelect", target, value, one, b.constant(target, 0.0))
        if not is_small_float(type) or source.bits <= 16:
            return c.rounded(type, b.emit(name, target, value))
        exact = b.emit(name, target.as_kind("float", 64), value)
        return _round_double(c, type, exact)

    return row


def _round_double(c: Converter, target: Attribute, value: SSAValue) -> SSAValue:
    shape = c.shape(target)
    if isinstance(element(target), Float16Type):
        return c.library.round_f16(value, shape.as_kind("float", 64))
    return c.library.round_bf16_double(value, shape.lanes)


def _extend_float(c: Converter, operation: arith.ExtFOp) -> SSAValue:
    source, target = c.shape(operation.input.type), c.shape(operation.result.type)
    value = c.value(operation.input)
    return value if source == target else c.builder.emit("OpFConvert", target, value)


def _truncate_float(c: Converter, operation: arith.TruncFOp) -> SSAValue:
    source, target = operation.input.type, operation.result.type
    value = c.value(operation.input)
    if not is_small_float(target):
        return value if source == target else c.builder.emit("OpFConvert", c.shape(target), value)
    if isinstance(element(source), Float64Type):
        return _round_double(c, target, value)
    return c.rounded(target, value)


def _truncate_integer(c: Converter, operation: Any) -> SSAValue:
    b, source, target = c.builder, c.shape(operation.input.type), c.shape(operation.result.type)
    value = c.value(operation.input)
    if target.kind != "bool":
        return resized(c, value, source, target, is_unsigned=True)
    if source.kind == "bool":
        return value
    bit = b.emit("OpBitwiseAnd", source, value, b.constant(source, 1))
    return b.emit("OpINotEqual", target, bit, b.constant(source, 0))


def _extend_integer(is_unsigned: bool) -> Row:
    def row(c: Converter, operation: Any) -> SSAValue:
        b, source = c.builder, c.shape(operation.input.type)
        target, value = c.shape(operation.result.type), c.value(operation.input)
        if source.kind == "bool":
            one = b.constant(target, 1 if is_unsigned else -1)
            return b.emit("OpSelect", target, value, one, b.constant(target, 0))
        return resized(c, value, source, target, is_unsigned)

    return row


def _vector_cast(c: Converter, operation: kernel.CastOp) -> SSAValue | None:
    """The row of the scalar cast: rows read the types of `input` and `result` only."""
    return CONVERSION_ROWS[kernel.SCALAR_CASTS[operation.kind.data]](c, operation)


CONVERSION_ROWS: dict[type[Operation], Row] = {
    arith.BitcastOp: _bitcast,
    arith.IndexCastOp: _index_cast,
    arith.FPToSIOp: _float_to_integer(is_unsigned=False),
    arith.FPToUIOp: _float_to_integer(is_unsigned=True),
    arith.SIToFPOp: _integer_to_float(is_unsigned=False),
    arith.UIToFPOp: _integer_to_float(is_unsigned=True),
    arith.ExtFOp: _extend_float,
    arith.TruncFOp: _truncate_float,
    arith.TruncIOp: _truncate_integer,
    arith.ExtSIOp: _extend_integer(is_unsigned=False),
    arith.ExtUIOp: _extend_integer(is_unsigned=True),
    kernel.CastOp: _vector_cast,
}
