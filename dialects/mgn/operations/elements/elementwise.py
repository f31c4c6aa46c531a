"""Elementwise core operations: one row each, `result[i] = f(operands[i])` with NumPy broadcasting.

`evaluate` is the NumPy function. Integers wrap around as NumPy's do, except where a row says
otherwise.
"""

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import TensorType

from mgn.dialects.mgn.attributes import ELEMENT
from mgn.dialects.mgn.operation import (
    ANY,
    BOOLS,
    FLOATS,
    NUMERIC,
    AttributeSpec,
    Kind,
    OperandSpec,
    OperationSpec,
    define,
)
from mgn.dialects.mgn.operations.elements.error_function import erf
from mgn.dialects.shapes import ShapeError, broadcast_shapes
from mgn.dialects.types import ElementType, Family, element_of, element_of_dtype, tensor

Array = np.ndarray
Families = frozenset[Family]

HALVES = frozenset({np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)})

INTEGERS_AND_BOOL = NUMERIC - FLOATS | BOOLS


def infer_broadcast(*types: TensorType, **_: Any) -> TensorType:
    """The broadcast shape of all operands, with the first one's element type."""
    shape = broadcast_shapes(*(type.get_shape() for type in types))
    return tensor(element_of(types[0]), shape)


def infer_comparison(*types: TensorType, **_: Any) -> TensorType:
    """The broadcast shape of all operands, as bool."""
    return tensor("bool", broadcast_shapes(*(type.get_shape() for type in types)))


def in_float32(function: Callable[..., Array]) -> Callable[..., Array]:
    """Computes a half-precision operation in f32 and rounds once, as kernels do."""

    def evaluate(*arrays: Array, **attributes: Any) -> Array:
        dtype = arrays[0].dtype
        if dtype in HALVES:
            wide = function(*(array.astype(np.float32) for array in arrays), **attributes)
            return wide.astype(dtype)
        return function(*arrays, **attributes)

    return evaluate


def _unary(
    name: str, summary: str, function: Callable[[Array], Array], accepts: Families = FLOATS
) -> OperationSpec:
    return define(
        OperationSpec(
            name,
            Kind.ELEMENTWISE,
            f"`y = {name}(x)`: {summary}",
            (OperandSpec("x", accepts),),
            infer_broadcast,
            evaluate=in_float32(function),
        )
    )


def _binary(
    name: str,
    summary: str,
    function: Callable[[Array, Array], Array],
    accepts: Families = NUMERIC,
    commutative: bool = False,
    infer: Callable[..., TensorType] = infer_broadcast,
) -> OperationSpec:
    return define(
        OperationSpec(
            name,
            Kind.ELEMENTWISE,
            f"`y = {name}(a, b)`: {summary}",
            (OperandSpec("a", accepts), OperandSpec("b", accepts)),
            infer,
            evaluate=function if infer is infer_comparison else in_float32(function),
            commutative=commutative,
        )
    )


def _erf(x: Array) -> Array:
    return erf(x.astype(np.float64)).astype(x.dtype)


def _maximum(a: Array, b: Array) -> Array:
    """The larger one, nan where one is; of zeros the positive one, as IEEE 754-2019 has it."""
    larger = np.maximum(a, b)
    return np.where((a == 0) & (b == 0), a + b, larger) if _has_signed_zeros(a) else larger


def _minimum(a: Array, b: Array) -> Array:
    """The smaller one, nan where one is; of zeros the negative one."""
    return -_maximum(-a, -b) if _has_signed_zeros(a) else np.minimum(a, b)


def _has_signed_zeros(a: Array) -> bool:
    return not np.issubdtype(a.dtype, np.integer) and a.dtype != np.bool_


def _divide(a: Array, b: Array) -> Array:
    """Division; integers truncate, and a division by zero gives 0 as no trap may occur."""
    if np.issubdtype(a.dtype, np.integer):
        safe = np.where(b == 0, 1, b).astype(a.dtype)
        quotient = a // safe
        inexact = quotient * safe != a
        toward_zero = np.where(inexact & ((a < 0) != (safe < 0)), quotient + 1, quotient)
        return np.where(b == 0, 0, toward_zero).astype(a.dtype)
    return a / b


def _power(a: Array, b: Array) -> Array:
    """Power; an integer to a negative power truncates the exact value, and 0 to one gives 0.

    Each float element has an exponent of its own in memory: of one for all, NumPy computes some
    otherwise, as 0.5 by the square root, which differs at -0 and -inf.
    """
    if not np.issubdtype(a.dtype, np.integer):
        exponents = np.empty((1, *np.broadcast_shapes(a.shape, b.shape)), b.dtype)
        exponents[...] = b
        return np.power(a, exponents)[0]
    positive = np.power(a, np.maximum(b, 0))
    reciprocal = np.where(a == 1, 1, np.where(a == -1, np.where(b % 2 == 0, 1, -1), 0))
    return np.where(b < 0, reciprocal, positive).astype(a.dtype)


_TF32_DROPPED = {np.dtype(np.float32): (np.uint32, 13), np.dtype(np.float64): (np.uint64, 42)}
"""Type of an array → the type of its bits, and how many low ones of them tf32 does not have."""


def round_to_tf32(x: Array) -> Array:
    """The nearest number with 10 bits of mantissa, ties to even; nan stays."""
    bits_type, dropped = _TF32_DROPPED[x.dtype]
    bits = np.ascontiguousarray(x).view(bits_type)
    below_half, mask = bits_type((1 << (dropped - 1)) - 1), ~bits_type((1 << dropped) - 1)
    odd = bits >> bits_type(dropped) & bits_type(1)
    rounded = ((bits + below_half + odd) & mask).view(x.dtype).reshape(x.shape)
    return np.where(np.isnan(x), x, rounded)


def saturating_cast(x: Array, dtype: np.dtype) -> Array:
    """Converts element types: float to integer truncates and saturates, nan to 0; integers wrap
    around.
    """
    if not element_of_dtype(x.dtype).is_float or np.dtype(dtype) == np.bool_:
        return (x != 0) if np.dtype(dtype) == np.bool_ else x.astype(dtype)
    if not np.issubdtype(dtype, np.integer):
        return x.astype(dtype)
    limits = np.iinfo(dtype)
    wide = np.trunc(np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf))
    low, high = wide <= float(limits.min), wide >= float(limits.max)
    inside = np.where(low | high, 0.0, wide).astype(dtype)
    return np.where(low, limits.min, np.where(high, limits.max, inside)).astype(dtype)


def _cast(x: Array, T: ElementType) -> Array:
    assert T.dtype is not None
    return saturating_cast(x, T.dtype)


def _infer_cast(x: TensorType, T: ElementType) -> TensorType:
    if T.dtype is None:
        raise ShapeError(f"cannot cast to {T.name}, a format of parameters")
    return tensor(T, x.get_shape())


UNARY: Sequence[OperationSpec] = (
    _unary("neg", "the negative.", np.negative, NUMERIC),
    _unary("abs", "the absolute value.", np.abs, NUMERIC),
    _unary("sign", "-1, 0 or 1 with the sign of x, 0 of -0; nan stays nan.", np.sign, NUMERIC),
    _unary("exp", "e to the power of x.", np.exp),
    _unary("expm1", "exp(x) - 1, exact near 0.", np.expm1),
    _unary("log", "the natural logarithm.", np.log),
    _unary("log1p", "log(1 + x), exact near 0.", np.log1p),
    _unary("sqrt", "the square root.", np.sqrt),
    _unary("rsqrt", "1 / sqrt(x).", lambda x: 1 / np.sqrt(x)),
    _unary("recip", "1 / x.", lambda x: (1 / x).astype(x.dtype)),
    _unary("sin", "the sine of x in radians.", np.sin),
    _unary("cos", "the cosine of x in radians.", np.cos),
    _unary("tan", "the tangent of x in radians.", np.tan),
    _unary("tanh", "the hyperbolic tangent.", np.tanh),
    _unary("erf", "the error function (DLMF 7.2.1).", _erf),
    _unary("floor", "the largest integer not above x.", np.floor),
    _unary("ceil", "the smallest integer not below x.", np.ceil),
    _unary("round", "the nearest integer, half to even.", np.rint),
    _unary("round_tf32", "the nearest number of 10 mantissa bits.", round_to_tf32),
    _unary("logical_not", "true where x is false.", np.logical_not, BOOLS),
    _unary("identity", "x itself.", np.copy, ANY),
    _unary("stop_gradient", "x itself, through which no gradient flows.", np.copy, ANY),
)

ISNAN = define(
    OperationSpec(
        "isnan",
        Kind.ELEMENTWISE,
        "`y = isnan(x)`: true where x is not a number.",
        (OperandSpec("x", FLOATS),),
        infer_comparison,
        evaluate=np.isnan,
    )
)

BINARY: Sequence[OperationSpec] = (
    _binary("add", "the sum.", np.add, commutative=True),
    _binary("sub", "the difference.", np.subtract),
    _binary("mul", "the product.", np.multiply, commutative=True),
    _binary("div", "the quotient; integers truncate.", _divide),
    _binary("pow", "a to the power of b.", _power),
    _binary("mod", "the remainder, with the divisor's sign.", np.mod),
    _binary("max", "the larger one; nan passes on, 0 is above -0.", _maximum, commutative=True),
    _binary("min", "the smaller one; nan passes on, -0 is below 0.", _minimum, commutative=True),
    _binary("logical_and", "true where both are.", np.logical_and, BOOLS, commutative=True),
    _binary("logical_or", "true where one is.", np.logical_or, BOOLS, commutative=True),
)

COMPARISONS: Sequence[OperationSpec] = (
    _binary("eq", "a equals b.", np.equal, ANY, True, infer_comparison),
    _binary("ne", "a differs from b.", np.not_equal, ANY, True, infer_comparison),
    _binary("lt", "a is below b.", np.less, NUMERIC, False, infer_comparison),
    _binary("le", "a is at most b.", np.less_equal, NUMERIC, False, infer_comparison),
    _binary("gt", "a is above b.", np.greater, NUMERIC, False, infer_comparison),
    _binary("ge", "a is at least b.", np.greater_equal, NUMERIC, False, infer_comparison),
)


def infer_where(condition: TensorType, a: TensorType, b: TensorType) -> TensorType:
    """The type of what a condition chooses."""
    shape = broadcast_shapes(condition.get_shape(), a.get_shape(), b.get_shape())
    return tensor(element_of(a), shape)


WHERE = define(
    OperationSpec(
        "where",
        Kind.ELEMENTWISE,
        "`y = where(c, a, b)`: a where c holds, else b.",
        (OperandSpec("condition", BOOLS, group="condition"), OperandSpec("a"), OperandSpec("b")),
        infer_where,
        evaluate=np.where,
    )
)

CAST = define(
    OperationSpec(
        "cast",
        Kind.ELEMENTWISE,
        "`y = cast(x, f16)`: x in another element type; float to integer truncates and saturates.",
        (OperandSpec("x"), AttributeSpec("T", ELEMENT)),
        _infer_cast,
        evaluate=_cast,
    )
)
