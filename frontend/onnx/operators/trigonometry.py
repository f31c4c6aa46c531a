"""Hyperbolic functions and the inverses of trigonometric ones, by the functions that there are."""

import math
from collections.abc import Callable
from functools import reduce

from xdsl.ir import SSAValue

from mgn.frontend.onnx.core.call import Call, element
from mgn.frontend.onnx.core.operator import define

ATAN_ABOVE = (
    -8.750608600031904122785e-1,
    -1.615753718733365076637e1,
    -7.500855792314704667340e1,
    -1.228866684490136173410e2,
    -6.485021904942025371773e1,
)
ATAN_BELOW = (
    1.0,
    2.485846490142306297962e1,
    1.650270098316988542046e2,
    4.328810604912902668951e2,
    4.853903996359136964868e2,
    1.945506571482613964425e2,
)
"""The quotient of polynomials of Cephes' `atan`, for arguments up to 0.66."""


def _in_f32(function: Callable[[Call, SSAValue], SSAValue]) -> Callable[[Call], SSAValue]:
    """A function of one value; half precision is computed in f32."""

    def outer(c: Call) -> SSAValue:
        x = c[0]
        kind = element(x)
        if kind.bits > 16:
            return function(c, x)
        return c.b.cast(function(c, c.b.cast(x, "f32")), kind.name)

    outer.__doc__ = function.__doc__
    return outer


@define("Sinh", since=9)
@_in_f32
def sinh(c: Call, x: SSAValue) -> SSAValue:
    """(e + e / (e + 1)) / 2 with e = expm1(x)"""
    b = c.b
    e = b.expm1(b.abs(x))
    return b.mul(b.sign(x), b.mul(b.add(e, b.div(e, b.add(e, 1.0))), 0.5))


@define("Cosh", since=9)
@_in_f32
def cosh(c: Call, x: SSAValue) -> SSAValue:
    """(exp(x) + exp(-x)) / 2"""
    return c.b.mul(c.b.add(c.b.exp(x), c.b.exp(c.b.neg(x))), 0.5)


@define("Asinh", since=9)
@_in_f32
def asinh(c: Call, x: SSAValue) -> SSAValue:
    """sign(x)·log1p(|x| + x² / (1 + sqrt(1 + x²)))"""
    b, square = c.b, c.b.mul(x, x)
    rest = b.div(square, b.add(b.sqrt(b.add(square, 1.0)), 1.0))
    return b.mul(b.sign(x), b.log1p(b.add(b.abs(x), rest)))


@define("Acosh", since=9)
@_in_f32
def acosh(c: Call, x: SSAValue) -> SSAValue:
    """log1p(t + sqrt(2·t + t²)) with t = x - 1"""
    b, t = c.b, c.b.sub(x, 1.0)
    return b.log1p(b.add(t, b.sqrt(b.add(b.mul(t, 2.0), b.mul(t, t)))))


@define("Atanh", since=9)
@_in_f32
def atanh(c: Call, x: SSAValue) -> SSAValue:
    """log1p(2·x / (1 - x)) / 2"""
    b, size = c.b, c.b.abs(x)
    found = b.log1p(b.div(b.mul(size, 2.0), b.sub(1.0, size)))
    return b.mul(b.sign(x), b.mul(found, 0.5))


@define("Atan", since=7)
@_in_f32
def atan(c: Call, x: SSAValue) -> SSAValue:
    """a quotient of polynomials, that of Cephes"""
    return arc_tangent(c, x)


@define("Asin", since=7)
@_in_f32
def asin(c: Call, x: SSAValue) -> SSAValue:
    """2·atan(x / (1 + sqrt(1 - x²)))"""
    b = c.b
    root = b.sqrt(b.mul(b.sub(1.0, x), b.add(x, 1.0)))
    return b.mul(arc_tangent(c, b.div(x, b.add(root, 1.0))), 2.0)


@define("Acos", since=7)
@_in_f32
def acos(c: Call, x: SSAValue) -> SSAValue:
    """2·atan(sqrt((1 - x) / (1 + x)))"""
    b = c.b
    return b.mul(arc_tangent(c, b.sqrt(b.div(b.sub(1.0, x), b.add(x, 1.0)))), 2.0)


def arc_tangent(c: Call, x: SSAValue) -> SSAValue:
    """The angle whose tangent is x."""
    b, size = c.b, c.b.abs(x)
    far, middle = b.gt(size, 1 + math.sqrt(2)), b.gt(size, 0.66)
    near = b.where(middle, b.div(b.sub(size, 1.0), b.add(size, 1.0)), size)
    t = b.where(far, b.neg(b.recip(size)), near)
    start = b.where(far, math.pi / 2, b.where(middle, math.pi / 4, b.mul(size, 0.0)))
    start = b.where(b.eq(size, math.inf), math.pi / 2, start)
    z = b.mul(t, t)
    quotient = b.div(_polynomial(c, z, ATAN_ABOVE), _polynomial(c, z, ATAN_BELOW))
    found = b.add(start, b.add(t, b.mul(t, b.mul(z, quotient))))
    return b.mul(b.sign(x), found)


def _polynomial(c: Call, x: SSAValue, factors: tuple[float, ...]) -> SSAValue:
    start = c.b.add(c.b.mul(x, factors[0]), factors[1])
    return reduce(lambda sum, factor: c.b.add(c.b.mul(sum, x), factor), factors[2:], start)
