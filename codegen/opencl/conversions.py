"""Rows of the casts of `arith`: operation class → OpenCL C expression.

Casts from float to integer truncate and saturate, with 0 for a NaN; casts to a float type round
once, to the nearest, ties to even.
"""

from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import Float16Type, Float64Type
from xdsl.ir import Attribute, Operation, SSAValue

from mgn.codegen.opencl.expression import AND, EQUALITY, SHIFT, Expression, call, infix, prefix
from mgn.codegen.opencl.values import as_mask, converted, rounded, signed, unsigned
from mgn.codegen.opencl.writer import Row, Writer
from mgn.dialects import kernel
from mgn.dialects.kernel.lanes import element, is_bool, is_float, is_small_float, is_vector, lanes


def _bitcast(writer: Writer, operation: arith.BitcastOp) -> Expression:
    return bitcast(writer, operation.input, operation.result.type)


def bitcast(writer: Writer, source: SSAValue, target: Attribute) -> Expression:
    """The bits of a value as another type with lanes of the same width."""
    value, width = writer.value(source), lanes(target)
    short = f"short{width if width > 1 else ''}"
    if element(source.type) == element(target):
        return value
    if is_small_float(source.type):
        if isinstance(element(source.type), Float16Type):
            bits = call(writer.library.f16_bits(width), value)
        else:
            wide = "int" if width == 1 else f"int{width}"
            high = infix(call(f"as_{wide}", value), ">>", Expression("16"), SHIFT)
            bits = call(f"convert_{short}", high)
        return bits if not is_float(target) else _small_from_bits(writer, bits, target)
    if is_small_float(target):
        return _small_from_bits(writer, value, target)
    return call(f"as_{writer.type(target)}", value)


def _small_from_bits(writer: Writer, bits: Expression, target: Attribute) -> Expression:
    width = lanes(target)
    if isinstance(element(target), Float16Type):
        return call(writer.library.f16_from_bits(width), bits)
    wide = "int" if width == 1 else f"int{width}"
    high = infix(call(f"convert_{wide}", bits), "<<", Expression("16"), SHIFT)
    return call(f"as_{writer.type(target)}", high)


def _index_cast(writer: Writer, operation: arith.IndexCastOp) -> Expression:
    source, target = operation.input.type, operation.result.type
    value = writer.value(operation.input)
    if writer.type(source) == writer.type(target):
        return value
    return converted(writer, target, value)


def _float_to_integer(is_unsigned: bool) -> Row:
    def row(writer: Writer, operation: Any) -> Expression:
        target = operation.result.type
        if is_bool(target):
            raise writer.error(operation, "does not convert to i1: compare with zero")
        type = writer.types.unsigned(target) if is_unsigned else writer.type(target)
        value = writer.value(operation.input)
        source = operation.input.type
        scalar = "double" if isinstance(element(source), Float64Type) else "float"
        value = call(writer.library.zero_for_nan(scalar, lanes(source)), value)
        number = call(f"convert_{type}_sat_rtz", value)
        return signed(writer, target, number) if is_unsigned else number

    return row


def _integer_to_float(is_unsigned: bool) -> Row:
    def row(writer: Writer, operation: Any) -> Expression:
        source, target = operation.input.type, operation.result.type
        value = writer.value(operation.input)
        if is_bool(source):
            if is_vector(source):
                value = prefix("-", value) if is_unsigned else value
            elif not is_unsigned:
                value = prefix("-", value)
        elif is_unsigned:
            value = unsigned(writer, operation.input)
        if not is_small_float(target) or writer.types.bits(source) <= 16:
            return rounded(writer, target, converted(writer, target, value))
        double = f"double{lanes(target)}" if is_vector(target) else "double"
        exact = call(f"convert_{double}", value)
        return _round_double(writer, target, exact)

    return row


def _round_double(writer: Writer, target: Attribute, value: Expression) -> Expression:
    writer.extensions.add("cl_khr_fp64")
    if isinstance(element(target), Float16Type):
        return call(writer.library.round_f16(lanes(target), "double"), value)
    return call(writer.library.round_bf16_double(lanes(target)), value)


def _extend_float(writer: Writer, operation: arith.ExtFOp) -> Expression:
    value = writer.value(operation.input)
    if writer.type(operation.input) == writer.type(operation.result):
        return value
    return converted(writer, operation.result.type, value)


def _truncate_float(writer: Writer, operation: arith.TruncFOp) -> Expression:
    source, target = operation.input.type, operation.result.type
    value = writer.value(operation.input)
    if not is_small_float(target):
        return converted(writer, target, value)
    if isinstance(element(source), Float64Type):
        return _round_double(writer, target, value)
    return rounded(writer, target, value)


def _truncate_integer(writer: Writer, operation: arith.TruncIOp) -> Expression:
    source, target = operation.input.type, operation.result.type
    value = writer.value(operation.input)
    if not is_bool(target):
        return converted(writer, target, value)
    one = writer.types.splat(source, writer.types.literal(source, 1))
    zero = writer.types.splat(source, writer.types.literal(source, 0))
    return as_mask(writer, source, infix(infix(value, "&", one, AND), "!=", zero, EQUALITY))


def _extend_integer(is_unsigned: bool) -> Row:
    def row(writer: Writer, operation: Any) -> Expression:
        source, target = operation.input.type, operation.result.type
        value = writer.value(operation.input)
        if is_bool(source):
            negative = is_vector(source) == is_unsigned  # lanes hold 0 and -1, scalars 0 and 1
            if negative:
                value = prefix("-", value)
            if is_vector(source) and writer.type(target) == f"int{lanes(target)}":
                return value
            return converted(writer, target, value)
        if is_unsigned:
            value = unsigned(writer, operation.input)
        return converted(writer, target, value)

    return row


def _vector_cast(writer: Writer, operation: kernel.CastOp) -> Expression | None:
    """The row of the scalar cast: rows read the types of `input` and `result` only."""
    return CONVERSION_ROWS[kernel.SCALAR_CASTS[operation.kind.data]](writer, operation)


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
