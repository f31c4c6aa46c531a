"""Products of many floats, of which no part overflows or vanishes: a number of 64 bits with an
exponent of its own.

In: the factors of a `prod` in f32 (those of half precisions are widened). Out: their product,
rounded as it goes. The lower 32 bits hold a float from 1 to 2, or a zero, an infinity or nan; the
upper ones the power of two that it is to be multiplied by. Whichever way the factors are grouped,
the product is infinite, zero or nan only if it must be.
"""

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import DenseArrayBase, f32, i32, i64
from xdsl.ir import SSAValue

from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.core.pure_code import lane_count, lane_of, scalar_type, shaped

ONE = 0x3F800000
"""The product of no factors: the bits of 1.0, and an exponent of 0."""

_BIAS, _DIGITS, _SPECIAL = 127, 23, 255
_RAISED = 24
"""A subnormal number times two to this is normal."""

_FARTHEST = 252
"""An exponent past which the product of a number from 1 to 2 overflows or vanishes."""

_LARGEST = 1 << 30
"""Exponents stay within it, so that their sums are exact."""


def scaled_factor(code: Code, value: SSAValue) -> SSAValue:
    """An f32, in every lane, as a scaled number."""
    bits = _as_bits(code, value)
    small = code.compare_integers("eq", _field(code, bits), like(code, 0, bits))
    raised = code.binary(arith.MulfOp, value, code.constant(2.0**_RAISED, f32, lane_count(value)))
    bits = code.select(small, _as_bits(code, raised), bits)
    fallen = code.select(small, like(code, -_RAISED, bits), like(code, 0, bits))
    number, exponent = _normalised(code, bits)
    return packed(code, number, code.binary(arith.AddiOp, exponent, fallen))


def scaled_product(code: Code, left: SSAValue, right: SSAValue) -> SSAValue:
    """Two scaled numbers as one."""
    left, right = code.together(left, right)
    product = code.binary(arith.MulfOp, number_of(code, left), number_of(code, right))
    number, carried = _normalised(code, _as_bits(code, product))
    exponent = code.binary(arith.AddiOp, exponent_of(code, left), exponent_of(code, right))
    exponent = code.binary(arith.AddiOp, exponent, carried)
    return packed(code, number, clamped(code, exponent, _LARGEST))


def product_of_lanes(code: Code, value: SSAValue) -> SSAValue:
    """All lanes of a vector of scaled numbers as one."""
    while lane_count(value) > 2:
        half = lane_count(value) // 2
        value = scaled_product(code, _lanes(code, value, 0, half), _lanes(code, value, half, half))
    return scaled_product(code, lane_of(code, value, 0), lane_of(code, value, 1))


def unscaled(code: Code, value: SSAValue) -> SSAValue:
    """A scaled number as an f32, rounded once more only where it is subnormal."""
    exponent = clamped(code, exponent_of(code, value), _FARTHEST)
    half = code.binary(arith.ShRSIOp, exponent, like(code, 1, exponent))
    rest = code.binary(arith.SubiOp, exponent, half)
    number = code.binary(arith.MulfOp, number_of(code, value), _power(code, half))
    return code.binary(arith.MulfOp, number, _power(code, rest))


def _lanes(code: Code, value: SSAValue, first: int, count: int) -> SSAValue:
    """Some neighbouring lanes of a vector."""
    return code.pure(
        vector.ShuffleOp,
        [value, value],
        shaped(i64, count),
        mask=DenseArrayBase.from_list(i64, list(range(first, first + count))),
    )


def like(code: Code, number: int, value: SSAValue) -> SSAValue:
    """A number in every lane of a value's type."""
    return code.constant(number, scalar_type(value), lane_count(value))


def _as_bits(code: Code, value: SSAValue) -> SSAValue:
    return code.pure(arith.BitcastOp, [value], shaped(i32, lane_count(value)))


def _as_float(code: Code, bits: SSAValue) -> SSAValue:
    return code.pure(arith.BitcastOp, [bits], shaped(f32, lane_count(bits)))


def _field(code: Code, bits: SSAValue) -> SSAValue:
    """The exponent of a float as its bits have it: 0 of zeros and subnormal numbers."""
    shifted = code.binary(arith.ShRUIOp, bits, like(code, _DIGITS, bits))
    return code.binary(arith.AndIOp, shifted, like(code, _SPECIAL, bits))


def _normalised(code: Code, bits: SSAValue) -> tuple[SSAValue, SSAValue]:
    """The bits of a float brought between 1 and 2, and its exponent; a zero, an infinity and nan as
    they are.
    """
    field = _field(code, bits)
    above = code.binary(arith.SubiOp, field, like(code, 1, bits))
    plain = code.compare_integers("ult", above, like(code, _SPECIAL - 1, bits))
    digits = code.binary(arith.AndIOp, bits, like(code, ~(_SPECIAL << _DIGITS), bits))
    number = code.binary(arith.OrIOp, digits, like(code, ONE, bits))
    exponent = code.binary(arith.SubiOp, field, like(code, _BIAS, bits))
    return code.select(plain, number, bits), code.select(plain, exponent, like(code, 0, bits))


def number_of(code: Code, value: SSAValue) -> SSAValue:
    """The float of a scaled number, without its power of two."""
    return _as_float(code, code.convert("trunci", value, i32))


def exponent_of(code: Code, value: SSAValue) -> SSAValue:
    """The power of two of a scaled number, in 32 bits."""
    shifted = code.binary(arith.ShRSIOp, value, like(code, 32, value))
    return code.convert("trunci", shifted, i32)


def packed(code: Code, bits: SSAValue, exponent: SSAValue) -> SSAValue:
    """The bits of a float and an exponent, each of 32 bits, as a scaled number."""
    upper = code.convert("extsi", exponent, i64)
    upper = code.binary(arith.ShLIOp, upper, like(code, 32, upper))
    return code.binary(arith.OrIOp, upper, code.convert("extui", bits, i64))


def clamped(code: Code, exponent: SSAValue, most: int) -> SSAValue:
    """An exponent held between `-most` and `most`."""
    raised = code.binary(arith.MaxSIOp, exponent, like(code, -most, exponent))
    return code.binary(arith.MinSIOp, raised, like(code, most, exponent))


def _power(code: Code, exponent: SSAValue) -> SSAValue:
    """Two to an exponent from -126 to 126."""
    field = code.binary(arith.AddiOp, exponent, like(code, _BIAS, exponent))
    return _as_float(code, code.binary(arith.ShLIOp, field, like(code, _DIGITS, field)))
