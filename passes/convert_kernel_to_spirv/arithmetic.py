"""Rows of `arith` and `math`: operation class → SPIR-V instructions.

Floats follow IEEE 754 strictly: no operations are contracted or re-associated. f16 and bf16 results
are rounded after each operation. Integers wrap. Integer division by zero gives 0 and never traps. A
shift takes its count modulo the width. Scalars and vectors share their rows.
"""

from typing import Any

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
)
from xdsl.ir import Operation, SSAValue

from mgn.dialects.kernel.builtins import DIVISIONS, EXACT_BUILTINS, ROUNDED_BUILTINS
from mgn.dialects.kernel.lanes import compares_zeros, constant_number, element, is_bool
from mgn.dialects.spirv.shapes import Shape
from mgn.passes.convert_kernel_to_spirv.converter import Converter, Row

FLOAT_INSTRUCTIONS: dict[type[Operation], str] = {
    arith.AddfOp: "OpFAdd",
    arith.SubfOp: "OpFSub",
    arith.MulfOp: "OpFMul",
    arith.DivfOp: "OpFDiv",
}

INTEGER_INSTRUCTIONS: dict[type[Operation], tuple[str, str]] = {
    arith.AddiOp: ("OpIAdd", "OpLogicalNotEqual"),
    arith.SubiOp: ("OpISub", "OpLogicalNotEqual"),
    arith.MuliOp: ("OpIMul", "OpLogicalAnd"),
    arith.AndIOp: ("OpBitwiseAnd", "OpLogicalAnd"),
    arith.OrIOp: ("OpBitwiseOr", "OpLogicalOr"),
    arith.XOrIOp: ("OpBitwiseXor", "OpLogicalNotEqual"),
}
"""The instruction on integers, and on i1."""

_EXACT_FUNCTIONS = {**EXACT_BUILTINS, math.AbsIOp: "s_abs"}
"""OpenCL C's `abs` is unsigned."""

INTEGER_EXTREMA: dict[type[Operation], tuple[str, str]] = {
    arith.MaxSIOp: ("s_max", "OpLogicalAnd"),
    arith.MinSIOp: ("s_min", "OpLogicalOr"),
    arith.MaxUIOp: ("u_max", "OpLogicalOr"),
    arith.MinUIOp: ("u_min", "OpLogicalAnd"),
}
"""The function on integers, and the instruction on i1. As a signed number, true is -1."""

SHIFTS: dict[type[Operation], str] = {
    arith.ShLIOp: "OpShiftLeftLogical",
    arith.ShRUIOp: "OpShiftRightLogical",
    arith.ShRSIOp: "OpShiftRightArithmetic",
}


def _constant(c: Converter, operation: arith.ConstantOp) -> SSAValue:
    shape, data = c.shape(operation.result.type), operation.value
    if isinstance(data, IntegerAttr | FloatAttr):
        return c.builder.constant(shape, data.value.data)
    if not isinstance(data, DenseIntOrFPElementsAttr):
        raise c.error(operation, "is not a number or a dense vector")
    numbers: list[Any] = list(data.get_values())
    if data.is_splat():
        return c.builder.constant(shape, numbers[0])
    return c.builder.constants(shape, numbers)


def _float_instruction(c: Converter, operation: Any) -> SSAValue:
    type = operation.result.type
    name = FLOAT_INSTRUCTIONS[operation.__class__]
    return c.rounded(type, c.builder.emit(name, c.shape(type), *c.values(operation)))


def _rounded_call(c: Converter, operation: Operation) -> SSAValue:
    type = operation.results[0].type
    name = ROUNDED_BUILTINS[operation.__class__]
    return c.rounded(type, c.builder.extended(name, c.shape(type), *c.values(operation)))


def _exact_call(c: Converter, operation: Operation) -> SSAValue:
    shape = c.shape(operation.results[0].type)
    return c.builder.extended(_EXACT_FUNCTIONS[operation.__class__], shape, *c.values(operation))


def _negate(c: Converter, operation: arith.NegfOp) -> SSAValue:
    return c.builder.emit("OpFNegate", c.shape(operation.result.type), c.value(operation.operand))


def _extremum(name: str) -> Row:
    """maximumf, minimumf. Against most constants, one comparison is enough."""

    def row(c: Converter, operation: Any) -> SSAValue:
        shape = c.shape(operation.result.type)
        zeros = compares_zeros(name, constant_number(operation.rhs))
        left, right = c.values(operation)
        return extremum(c, name, shape, left, right, zeros)

    return row


def extremum(
    c: Converter, name: str, shape: Shape, left: SSAValue, right: SSAValue, zeros: bool = True
) -> SSAValue:
    """`maximum` or `minimum` of IEEE 754-2019: a NaN wins; with `zeros`, -0 is less than +0."""
    b, truth = c.builder, shape.as_kind("bool", 1)
    compare = "OpFOrdGreaterThan" if name == "maximum" else "OpFOrdLessThan"
    wins = b.emit(compare, truth, left, right)
    wins = b.emit("OpLogicalOr", truth, wins, b.emit("OpFUnordNotEqual", truth, left, left))
    choice = b.emit("OpSelect", shape, wins, left, right)
    if not zeros:
        return choice
    integer = shape.as_kind("int", shape.bits)
    join = "OpBitwiseAnd" if name == "maximum" else "OpBitwiseOr"
    sides = (b.emit("OpBitcast", integer, side) for side in (left, right))
    zero = b.emit("OpBitcast", shape, b.emit(join, integer, *sides))
    equal = b.emit("OpFOrdEqual", truth, left, right)
    return b.emit("OpSelect", shape, equal, zero, choice)


def _integer_instruction(c: Converter, operation: Any) -> SSAValue:
    type = operation.result.type
    on_integers, on_bools = INTEGER_INSTRUCTIONS[operation.__class__]
    name = on_bools if is_bool(type) else on_integers
    result = c.builder.emit(name, c.shape(type), *c.values(operation))
    if isinstance(element(type), IndexType) and name in ("OpIAdd", "OpISub", "OpIMul"):
        c.builder.no_signed_wrap(result)
    return result


def _integer_extremum(c: Converter, operation: Any) -> SSAValue:
    type = operation.result.type
    function, on_bools = INTEGER_EXTREMA[operation.__class__]
    if is_bool(type):
        return c.builder.emit(on_bools, c.shape(type), *c.values(operation))
    return c.builder.extended(function, c.shape(type), *c.values(operation))


def _shift(c: Converter, operation: Any) -> SSAValue:
    b, shape = c.builder, c.shape(operation.result.type)
    if is_bool(operation.result.type):
        raise c.error(operation, "does not shift i1")
    value, count = c.values(operation)
    number = constant_number(operation.rhs)
    if number is None or not 0 <= number < shape.bits:
        count = b.emit("OpBitwiseAnd", shape, count, b.constant(shape, shape.bits - 1))
    return b.emit(SHIFTS[operation.__class__], shape, value, count)


def _division(c: Converter, operation: Any) -> SSAValue:
    b, shape = c.builder, c.shape(operation.result.type)
    name, is_unsigned = DIVISIONS[operation.__class__]
    if is_bool(operation.result.type):
        raise c.error(operation, "does not divide i1")
    left, right = c.values(operation)
    number = constant_number(operation.rhs)
    safe = number is not None and 0 < number < 1 << (shape.bits - 1)
    divide = "OpUDiv" if is_unsigned else "OpSDiv"
    if safe and name == "div":
        return b.emit(divide, shape, left, right)
    if safe and name == "rem":
        return b.emit("OpUMod" if is_unsigned else "OpSRem", shape, left, right)
    truth = shape.as_kind("bool", 1)
    zero, one, minus_one = (b.constant(shape, number) for number in (0, 1, -1))
    by_zero = trap = b.emit("OpIEqual", truth, right, zero)
    by_minus_one = None
    if not is_unsigned:
        by_minus_one = b.emit("OpIEqual", truth, right, minus_one)
        trap = b.emit("OpLogicalOr", truth, by_zero, by_minus_one)
    quotient = b.emit(divide, shape, left, b.emit("OpSelect", shape, trap, one, right))
    if by_minus_one is not None:
        negated = b.emit("OpSNegate", shape, left)
        quotient = b.emit("OpSelect", shape, by_minus_one, negated, quotient)
    quotient = b.emit("OpSelect", shape, by_zero, zero, quotient)
    if name == "div":
        return quotient
    remainder = b.emit("OpISub", shape, left, b.emit("OpIMul", shape, quotient, right))
    if name == "rem":
        return b.emit("OpSelect", shape, by_zero, zero, remainder)
    step, compare = ("OpISub", "OpSLessThan")
    if name == "ceildiv":
        step, compare = ("OpIAdd", "OpSGreaterThanEqual")
    off = b.emit("OpINotEqual", truth, remainder, zero)
    off = b.emit("OpLogicalAnd", truth, off, b.emit("OpLogicalNot", truth, by_zero))
    if not is_unsigned:
        signs = b.emit("OpBitwiseXor", shape, remainder, right)
        off = b.emit("OpLogicalAnd", truth, off, b.emit(compare, truth, signs, zero))
    return b.emit("OpSelect", shape, off, b.emit(step, shape, quotient, one), quotient)


def _trailing_zeros(c: Converter, operation: math.CountTrailingZerosOp) -> SSAValue:
    b, shape = c.builder, c.shape(operation.result.type)
    value = c.value(operation.operand)
    less = b.emit("OpISub", shape, value, b.constant(shape, 1))
    below = b.emit("OpBitwiseAnd", shape, b.emit("OpNot", shape, value), less)
    return b.extended("popcount", shape, below)


def _integer_power(c: Converter, operation: math.IPowIOp) -> SSAValue:
    base, exponent = c.values(operation)
    return c.library.integer_power(base, exponent, c.shape(operation.result.type))


ARITHMETIC_ROWS: dict[type[Operation], Row] = {
    arith.ConstantOp: _constant,
    **dict.fromkeys(FLOAT_INSTRUCTIONS, _float_instruction),
    **dict.fromkeys(ROUNDED_BUILTINS, _rounded_call),
    **dict.fromkeys(_EXACT_FUNCTIONS, _exact_call),
    **dict.fromkeys(INTEGER_INSTRUCTIONS, _integer_instruction),
    **dict.fromkeys(INTEGER_EXTREMA, _integer_extremum),
    **dict.fromkeys(SHIFTS, _shift),
    **dict.fromkeys(DIVISIONS, _division),
    arith.NegfOp: _negate,
    arith.MaximumfOp: _extremum("maximum"),
    arith.MinimumfOp: _extremum("minimum"),
    math.CountTrailingZerosOp: _trailing_zeros,
    math.IPowIOp: _integer_power,
}
