"""Operators that compute element by element: arithmetic, comparisons, choices, casts."""

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from mgn.dialects.shapes import normalise_axis
from mgn.frontend.onnx.core.call import Call, element, rank, shape
from mgn.frontend.onnx.core.narrow import HOLDERS
from mgn.frontend.onnx.core.operator import define
from mgn.frontend.onnx.core.rounding import narrowed

DIRECT = {
    "Abs": "abs",
    "Neg": "neg",
    "Sign": "sign",
    "Exp": "exp",
    "Log": "log",
    "Sqrt": "sqrt",
    "Reciprocal": "recip",
    "Erf": "erf",
    "Floor": "floor",
    "Ceil": "ceil",
    "Round": "round",
    "Not": "logical_not",
    "Sin": "sin",
    "Cos": "cos",
    "Tan": "tan",
    "Tanh": "tanh",
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    "Div": "div",
    "And": "logical_and",
    "Or": "logical_or",
    "Equal": "eq",
    "Greater": "gt",
    "Less": "lt",
    "GreaterOrEqual": "ge",
    "LessOrEqual": "le",
    "Where": "where",
}
"""Operators that are one operation of the language, on the same operands."""

BROADCAST_AS_NUMPY = 7
"""The version from which on operands are broadcast as by NumPy."""


def _direct(name: str) -> Callable[[Call], Any]:
    def function(c: Call) -> Any:
        operands = [c[number] for number in range(len(c))]
        if len(operands) == 2:
            operands = without_axes(c, aligned(c, operands))
        return c.b.call(name, *operands)

    function.__doc__ = f"`{name}`"
    return function


def aligned(c: Call, operands: list[SSAValue]) -> list[SSAValue]:
    """Two operands; before version 7, `axis` says where the axes of the second begin among those of
    the first.
    """
    one, two = operands
    axis = c.attribute("axis")
    if axis is None or c.version >= BROADCAST_AS_NUMPY:
        return operands
    behind = rank(one) - normalise_axis(axis, rank(one)) - rank(two)
    if behind < 0:
        c.fail(f"axes {list(shape(two))} do not fit {list(shape(one))} from axis {axis} on")
    return [one, c.b.reshape(two, [*shape(two), *[1] * behind])]


def without_axes(c: Call, operands: list[SSAValue]) -> list[SSAValue]:
    """Two operands, a constant of one element without the axes that add none to the result."""
    one, two = operands
    if rank(one) < rank(two) or c.importer.known.constant(two) is None:
        return [c.number_in(one) if rank(one) <= rank(two) else one, two]
    return [one, c.number_in(two) if rank(two) <= rank(one) else two]


for _name, _operation in DIRECT.items():
    define(_name)(_direct(_operation))


@define("Identity")
def identity(c: Call) -> Any:
    """the value itself"""
    return c.inputs[0]


@define("IsNaN")
def is_nan(c: Call) -> SSAValue:
    """`isnan`"""
    return c.b.isnan(c[0])


@define("IsInf")
def is_inf(c: Call) -> SSAValue:
    """comparisons with the infinities that are asked for"""
    x, b = c[0], c.b
    found = [
        b.eq(x, c.like(value, x))
        for name, value in (("detect_positive", np.inf), ("detect_negative", -np.inf))
        if c.attribute(name, 1)
    ]
    return reduce(b.logical_or, found) if found else b.ne(x, x)


@define("Xor")
def exclusive_or(c: Call) -> SSAValue:
    """`ne` of truth values"""
    return c.b.ne(c[0], c[1])


def _folded(name: str) -> Callable[[Call], SSAValue]:
    def function(c: Call) -> SSAValue:
        return reduce(getattr(c.b, name), [c[number] for number in range(len(c))])

    function.__doc__ = f"`{name}`, from left to right"
    return function


for _name, _operation in {"Sum": "add", "Max": "max", "Min": "min"}.items():
    define(_name)(_folded(_operation))


@define("Mean")
def mean(c: Call) -> SSAValue:
    """the sum divided by the number of inputs"""
    total = _folded("add")(c)
    return c.b.div(total, c.like(len(c), total))


@define("Pow")
def power(c: Call) -> SSAValue:
    """`pow`, in the type of the base"""
    x, y = without_axes(c, aligned(c, [c[0], c[1]]))
    kind = element(x)
    if kind == element(y):
        return c.b.pow(x, y)
    if kind.is_float:
        return c.b.pow(x, c.b.cast(y, kind.name))
    if element(y).is_float:
        wide = element(y).name
        return c.b.cast(c.b.pow(c.b.cast(x, wide), y), kind.name)
    return c.b.pow(x, c.b.cast(y, kind.name))


@define("Mod")
def modulo(c: Call) -> SSAValue:
    """`mod`, or with `fmod` the remainder with the sign of the dividend"""
    x, y, b = c[0], c[1], c.b
    if not c.attribute("fmod", 0):
        return b.mod(x, y)
    kind = element(x)
    if kind.is_float:
        return b.mul(b.sign(x), b.mod(b.abs(x), b.abs(y)))
    rest, zero = b.mod(x, y), b.constant(0, kind)  # the least integer has no magnitude to take
    turned = b.ne(b.lt(x, zero), b.lt(y, zero))
    return b.where(b.logical_and(turned, b.ne(rest, zero)), b.sub(rest, y), rest)


@define("Clip", since=6)
def clip_to_constants(c: Call) -> SSAValue:
    """`max` and `min` with the attributes"""
    x = c[0]
    least, most = c.attribute("min"), c.attribute("max")
    return c.b.clamp(x, min=least, max=most) if (least, most) != (None, None) else x


@define("Clip", since=11)
def clip(c: Call) -> SSAValue:
    """`clamp` where the bounds are known, else `max` and `min`"""
    x, b = c[0], c.b
    given = [number for number in (1, 2) if c.get(number) is not None]
    if given and all(c.is_known(number) for number in given) and element(x).is_float:
        return b.clamp(x, min=c.number(1), max=c.number(2))
    for number, name in ((1, "max"), (2, "min")):
        if number in given:
            x = b.call(name, x, b.reshape(c[number], []))
    return x


def converted(c: Call, x: SSAValue, dtype: np.dtype[Any]) -> SSAValue:
    """A value in another element type."""
    own = c.type_of(x)
    if own == dtype:
        return x
    if dtype in HOLDERS:
        saturate = bool(c.attribute("saturate", 1))
        return narrowed(c, x, dtype, saturate, c.attribute("round_mode", "up"))
    return c.b.cast(x, c.element(dtype).name)


@define("Cast")
def cast(c: Call) -> SSAValue:
    """`cast`"""
    return converted(c, c[0], c.wanted("to"))


@define("CastLike", since=15)
def cast_like(c: Call) -> SSAValue:
    """`cast` to the type of the second input"""
    return converted(c, c[0], c.type_of(c[1]))


@define("Dropout")
def dropout(c: Call) -> Any:
    """the value itself, as in inference"""
    if c.number(2, False) and c.number(1, 0.5) != 0:
        c.fail("training_mode is not supported")
    return c[0], c.b.full(list(shape(c[0])), True, T="bool")
