"""Operators on the bits of integers, by arithmetic: the language has none of its own."""

from collections.abc import Callable
from functools import reduce

import numpy as np
from xdsl.ir import SSAValue

from mgn.dialects.types import Family
from mgn.frontend.onnx.core.call import Call, element, shape
from mgn.frontend.onnx.core.operator import define


@define("BitShift", since=11)
def bit_shift(c: Call) -> SSAValue:
    """a product or a quotient with a power of two"""
    b, x, by = c.b, c[0], c[1]
    kind = element(x)
    signed = kind.family is Family.SIGNED
    left = c.required("direction") == "LEFT"
    last = kind.bits - (0 if left or not signed else 1)
    powers = [1 << bit for bit in range(last)]
    if signed and left:
        powers[-1] = -powers[-1]
    zero = c.like(0, x)
    outside = b.ge(by, c.like(last, by))
    if signed:
        outside = b.logical_or(outside, b.lt(by, c.like(0, by)))
    factor = b.gather(c.constant(powers, kind.dtype), b.where(outside, c.like(0, by), by), axis=0)
    if left:
        return b.where(outside, zero, b.mul(x, factor))
    if not signed:
        return b.where(outside, zero, b.div(x, factor))
    below, one = b.lt(x, zero), c.like(1, x)
    size = b.where(below, b.sub(b.neg(x), one), x)  # a negative x is -1 less this
    size = b.where(outside, zero, b.div(size, factor))
    return b.where(below, b.sub(b.neg(size), one), size)


@define("BitwiseNot", since=18)
def bitwise_not(c: Call) -> SSAValue:
    """-1 - x, or the largest number less x"""
    x = c[0]
    kind = element(x)
    assert kind.dtype is not None
    ones = -1 if kind.family is Family.SIGNED else np.iinfo(kind.dtype).max
    return c.b.sub(c.like(ones, x), x)


def _bitwise(
    of: Callable[[Call, SSAValue, SSAValue], SSAValue], said: str
) -> Callable[[Call], SSAValue]:
    def function(c: Call) -> SSAValue:
        x, y = _bits(c, c[0]), _bits(c, c[1])
        return _number(c, of(c, x, y), c[0])

    function.__doc__ = f"{said} of each bit"
    return function


def _bits(c: Call, x: SSAValue) -> SSAValue:
    """The bits of integers as truth values along a new last axis, the lowest first."""
    b, kind = c.b, element(x)
    wide = b.expand_dims(x, -1)
    parts: list[SSAValue] = []
    for bit in range(kind.bits):
        last = bit == kind.bits - 1
        if last and kind.family is Family.SIGNED:
            parts.append(b.lt(wide, c.like(0, x)))
            continue
        power = c.like(1 << bit, x)
        quotient = b.div(b.sub(wide, b.mod(wide, power)), power)
        parts.append(b.ne(b.mod(quotient, c.like(2, x)), c.like(0, x)))
    return b.concat(parts, axis=-1)


def _number(c: Call, bits: SSAValue, like: SSAValue) -> SSAValue:
    """The integers of such bits."""
    kind, b = element(like), c.b
    assert kind.dtype is not None
    powers = np.array([1 << bit for bit in range(kind.bits)], object)
    if kind.family is Family.SIGNED:
        powers[-1] = -powers[-1]
    weights = c.constant(powers.astype(kind.dtype))
    terms = b.where(bits, weights, c.like(0, like))
    size = len(shape(bits)) - 1
    parts = [b.squeeze(part, size) for part in b.split(terms, sizes=[1] * kind.bits, axis=size)]
    return reduce(b.add, parts)


for _name, _of, _said in (
    ("BitwiseAnd", lambda c, x, y: c.b.logical_and(x, y), "`logical_and`"),
    ("BitwiseOr", lambda c, x, y: c.b.logical_or(x, y), "`logical_or`"),
    ("BitwiseXor", lambda c, x, y: c.b.ne(x, y), "`ne`"),
):
    define(_name, since=18)(_bitwise(_of, _said))
