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


FAR = 1e9
"""From here on x and sqrt(x² ± 1) are one number in f64; its square is finite in f32."""


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
    """(e + e / (e + 1)) / 2 with e = expm1(|x|); exp(|x| / 2)² / 2 above 20"""
    b, size = c.b, c.b.abs(x)
    e = b.expm1(b.min(size, 20.0))
    near = b.mul(b.add(e, b.div(e, b.add(e, 1.0))), 0.5)
    root = b.exp(b.mul(size, 0.5))
    return b.mul(b.sign(x), b.where(b.gt(size, 20.0), b.mul(b.mul(root, 0.5), root), near))


@define("Cosh", since=9)
@_in_f32
def cosh(c: Call, x: SSAValue) -> SSAValue:
    """(e² + 1 / e²) / 2 with e = exp(|x| / 2)"""
    b = c.b
    root = b.exp(b.mul(b.abs(x), 0.5))
    small = b.recip(root)
    return b.add(b.mul(b.mul(root, 0.5), root), b.mul(b.mul(small, 0.5), small))


@define("Asinh", since=9)
@_in_f32
def asinh(c: Call, x: SSAValue) -> SSAValue:
    """sign(x)·log1p(|x| + x² / (1 + sqrt(1 + x²))); log(2·|x|) where that is the same"""
    b, size = c.b, c.b.abs(x)
    within = b.min(size, FAR)
    square = b.mul(within, within)
    rest = b.div(square, b.add(b.sqrt(b.add(square, 1.0)), 1.0))
    return b.mul(b.sign(x), _log_of_twice(c, size, b.log1p(b.add(within, rest))))


@define("Acosh", since=9)
@_in_f32
def acosh(c: Call, x: SSAValue) -> SSAValue:
    """log1p(t + sqrt(t)·sqrt(t + 2)) with t = x - 1; log(2·x) where that is the same"""
    b = c.b
    t = b.sub(b.min(x, FAR), 1.0)
    near = b.log1p(b.add(t, b.mul(b.sqrt(t), b.sqrt(b.add(t, 2.0)))))
    return _log_of_twice(c, x, near)


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


def _log_of_twice(c: Call, size: SSAValue, near: SSAValue) -> SSAValue:
    """The logarithm of twice a number that is far from 0, else another value."""
    b = c.b
    return b.where(b.gt(size, FAR), b.add(b.log(b.max(size, FAR)), math.log(2)), near)


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
