"""Values rounded to types that mgn does not have: integers and floats of 2 to 8 bits.

In: a value, and the type. Out: one in the type that holds it, which the importer knows as narrow.
"""

from typing import Any

import ml_dtypes
import numpy as np
from xdsl.ir import SSAValue

from mgn.frontend.onnx.core.call import Call, element
from mgn.frontend.onnx.core.narrow import HOLDERS, POWERS_OF_TWO, is_integer


def narrowed(
    c: Call, x: SSAValue, dtype: np.dtype[Any], saturate: bool = True, rounding: str = "up"
) -> SSAValue:
    """A value in a narrow type: of integers the lowest bits of the truncated value, of floats the
    nearest, or where that is too large the largest number if `saturate`. `rounding` is that of
    powers of two.
    """
    b, source = c.b, element(x)
    if is_integer(dtype):
        return c.narrow(_lowest_bits(c, x, dtype), dtype)
    wide = x if source.name in ("f32", "f64") else b.cast(x, "f32")
    if dtype.name == POWERS_OF_TWO:
        found = _power_of_two(c, wide, saturate, rounding)
    else:
        found = _rounded(c, wide, ml_dtypes.finfo(dtype), saturate, dtype)
    return c.narrow(b.cast(found, c.element(HOLDERS[dtype]).name), dtype)


def _lowest_bits(c: Call, x: SSAValue, dtype: np.dtype[Any]) -> SSAValue:
    """The integer of a narrow type that has the lowest bits of a number."""
    b, limits = c.b, ml_dtypes.iinfo(dtype)
    whole = x if element(x).name in ("i32", "i64") else b.cast(x, "i32")
    count, least = int(limits.max) - int(limits.min) + 1, c.like(int(limits.min), whole)
    found = b.add(b.mod(b.sub(whole, least), c.like(count, whole)), least)
    return b.cast(found, c.element(HOLDERS[dtype]).name)


def _rounded(c: Call, x: SSAValue, limits: Any, saturate: bool, dtype: np.dtype[Any]) -> SSAValue:
    """The nearest number of a narrow float type, of two the even one: a multiple of the last place
    of its power of two, which is found by comparisons.
    """
    b = c.b
    exponents = np.arange(limits.minexp, limits.maxexp)
    powers = c.constant(np.exp2(exponents[1:].astype(np.float64)), element(x).dtype)
    above = b.sum(b.cast(b.ge(b.expand_dims(b.abs(x), -1), powers), "i32"), axis=-1)
    places = np.exp2((exponents - limits.nmant).astype(np.float64))
    place = b.gather(c.constant(places, element(x).dtype), above, axis=0)
    found = b.mul(b.round(b.div(x, place)), place)
    most, has_nan = float(limits.max), bool(np.isnan(np.array(np.nan).astype(dtype)))
    if saturate or not has_nan:
        found = b.clamp(found, min=-most, max=most)
    else:
        beyond = float(np.array(np.inf).astype(dtype))
        found = b.where(b.gt(found, most), beyond, b.where(b.lt(found, -most), -beyond, found))
    zero = np.array(-0.0).astype(dtype)
    if not np.signbit(zero):
        found = b.where(b.eq(found, 0.0), 0.0, found)
    return found if has_nan else b.where(b.isnan(found), 0.0, found)


def _power_of_two(c: Call, x: SSAValue, saturate: bool, rounding: str) -> SSAValue:
    """A power of two from 2⁻¹²⁷ to 2¹²⁷ near a positive number; NaN where that is infinite."""
    b, kind = c.b, element(x).dtype
    powers = np.exp2(np.arange(-127, 128).astype(np.float64))
    wide = b.expand_dims(x, -1)
    if rounding == "up":
        passed = b.gt(wide, c.constant(powers[:-1], kind))
    elif rounding in ("down", "nearest"):
        passed = b.ge(wide, c.constant(powers[1:] * (0.75 if rounding == "nearest" else 1), kind))
    else:
        c.fail(f"round_mode '{rounding}' is not supported")
    found = b.gather(c.constant(powers, kind), b.sum(b.cast(passed, "i32"), axis=-1), axis=0)
    largest = powers[-1] * (1.5 if rounding == "nearest" else 1)
    beyond = np.inf if saturate or rounding == "down" else largest
    outside = b.eq(x, np.inf) if np.isinf(beyond) else b.gt(x, beyond)
    return b.where(b.logical_or(outside, b.isnan(x)), np.nan, found)
