"""Products of many f64, beside the same product in f32 with an exponent of its own.

In: a body with a `prod` in f64, whose numbers have no bits to spare for an exponent. Out: the body
with that product, a scaled one (scaled_products.py), and a choice between them: the scaled one,
with the digits of f32, where a part of the plain one has left the range of f64.
"""

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import f32, f64, i32, i64
from xdsl.ir import SSAValue

from mgn.passes.kernels.body import Node
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.core.pure_code import NO_FASTMATH, lane_count, shaped
from mgn.passes.lower_kernels.core.scaled_products import (
    clamped,
    exponent_of,
    like,
    number_of,
    packed,
)

_BIAS, _DIGITS, _SPECIAL = 1023, 52, 2047
_RAISED = 54
_FARTHEST = 2044
"""What these are for f32 in scaled_products.py."""

_UNIT = 2.0**-23
"""The relative error that each factor adds to a scaled product, at most."""


def guiding_factor(code: Code, value: SSAValue) -> SSAValue:
    """An f64, in every lane, as a scaled number with the digits of f32."""
    count = lane_count(value)
    small = code.compare_integers("eq", _field(code, value), code.constant(0, i64, count))
    raised = code.binary(arith.MulfOp, value, code.constant(2.0**_RAISED, f64, count))
    value = code.select(small, raised, value)
    field = _field(code, value)
    plain = code.compare_integers(
        "ult",
        code.binary(arith.SubiOp, field, like(code, 1, field)),
        like(code, _SPECIAL - 1, field),
    )
    bits = code.pure(arith.BitcastOp, [value], shaped(i64, count))
    digits = code.binary(arith.AndIOp, bits, like(code, ~(_SPECIAL << _DIGITS), bits))
    digits = code.binary(arith.OrIOp, digits, like(code, _BIAS << _DIGITS, bits))
    number = code.pure(arith.BitcastOp, [digits], shaped(f64, count))
    narrow = code.convert("truncf", code.select(plain, number, value), f32)
    lowered = code.select(small, like(code, -_BIAS - _RAISED, field), like(code, -_BIAS, field))
    exponent = code.select(plain, code.binary(arith.AddiOp, field, lowered), like(code, 0, field))
    bits = code.pure(arith.BitcastOp, [narrow], shaped(i32, count))
    return packed(code, bits, code.convert("trunci", exponent, i32))


def guided(code: Code, node: Node, plain: SSAValue, guide: SSAValue) -> SSAValue:
    """The plain product, where it is within the error of the scaled one; else the scaled one."""
    exponent = clamped(code, exponent_of(code, guide), _FARTHEST)
    half = code.binary(arith.ShRSIOp, exponent, like(code, 1, exponent))
    scaled = code.convert("extf", number_of(code, guide), f64)
    for part in (half, code.binary(arith.SubiOp, exponent, half)):
        scaled = code.binary(arith.MulfOp, scaled, _power(code, part))
    away = _size(code, code.binary(arith.SubfOp, plain, scaled))
    factors = node.values["factors"]
    near = code.constant((factors + 8) * _UNIT, f64, lane_count(scaled))
    bound = code.binary(arith.MulfOp, _size(code, scaled), near)
    return code.select(code.compare_floats("ole", away, bound), plain, scaled)


def _field(code: Code, value: SSAValue) -> SSAValue:
    bits = code.pure(arith.BitcastOp, [value], shaped(i64, lane_count(value)))
    shifted = code.binary(arith.ShRUIOp, bits, like(code, _DIGITS, bits))
    return code.binary(arith.AndIOp, shifted, like(code, _SPECIAL, bits))


def _power(code: Code, exponent: SSAValue) -> SSAValue:
    """Two to an exponent from -1022 to 1022."""
    field = code.convert("extsi", exponent, i64)
    field = code.binary(arith.AddiOp, field, like(code, _BIAS, field))
    bits = code.binary(arith.ShLIOp, field, like(code, _DIGITS, field))
    return code.pure(arith.BitcastOp, [bits], shaped(f64, lane_count(bits)))


def _size(code: Code, value: SSAValue) -> SSAValue:
    return code.pure(math.AbsFOp, [value], value.type, fastmath=NO_FASTMATH)
