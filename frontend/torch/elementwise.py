"""Elementwise operators: arithmetic, functions, comparisons, choices, conversions.

In: operands of one or of several element types, and numbers. Out: values of the types that PyTorch
gives: operands are converted to the type in which PyTorch computes.
"""

import math
from typing import Any

from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import element_type_of, shape_of
from mgn.dialects.types import ELEMENT_TYPES, ElementType, Family
from mgn.frontend.torch.table import TABLE, Call, Operand, Unsupported, as_element, aten

F32, BOOL = ELEMENT_TYPES["f32"], ELEMENT_TYPES["bool"]

_SAME = "cos erf exp expm1 log log1p rsqrt sigmoid silu sin sqrt tan tanh"
FLOAT_FUNCTIONS = {
    **{name: name for name in _SAME.split()},
    "hardsigmoid": "hard_sigmoid",
    "hardswish": "hard_swish",
    "reciprocal": "recip",
}
"""Functions whose results are floats: integers are converted first."""

FUNCTIONS = {"abs": "abs", "neg": "neg", "relu": "relu"}
"""Functions of any number."""

ROUNDINGS = {"ceil": "ceil", "floor": "floor", "round": "round"}
"""Functions that leave integers as they are."""

COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")

LOGICAL = {"and": "logical_and", "or": "logical_or"}

CATEGORIES = {
    Family.BOOL: 0,
    Family.UNSIGNED: 1,
    Family.SIGNED: 1,
    Family.FLOAT: 2,
}
"""Kinds of numbers, in the order in which one stands for all of another."""


def category_of(value: Operand) -> int:
    """The kind of a number or a tensor."""
    if isinstance(value, SSAValue):
        return CATEGORIES[element_type_of(value).family]
    return 0 if isinstance(value, bool) else 1 if isinstance(value, int) else 2


def common_element(*operands: Operand) -> ElementType:
    """The type in which PyTorch computes with operands: that of tensors with axes, unless a scalar
    is of another kind; then that of scalars, then that of numbers.
    """
    values = [item for item in operands if isinstance(item, SSAValue)]
    found: ElementType | None = None
    for group in (
        [item for item in values if shape_of(item)],
        [item for item in values if not shape_of(item)],
    ):
        joined = None
        for item in group:
            own = element_type_of(item)
            joined = own if joined is None else _joined(joined, own)
        if joined is not None and (
            found is None or CATEGORIES[joined.family] > CATEGORIES[found.family]
        ):
            found = joined
    number = max((category_of(item) for item in operands if item not in values), default=-1)
    if found is None or number > CATEGORIES[found.family]:
        return (BOOL, ELEMENT_TYPES["i64"], F32)[number]
    return found


def _joined(first: ElementType, second: ElementType) -> ElementType:
    """The narrowest type that holds all numbers of two, as PyTorch has it."""
    if first == second:
        return first
    low, high = sorted((first, second), key=lambda item: (CATEGORIES[item.family], item.bits))
    if low.family is high.family and low.bits == high.bits:
        return F32  # f16 and bf16
    if high.family is Family.UNSIGNED and low.family is Family.SIGNED:
        return ELEMENT_TYPES[f"i{min(2 * high.bits, 64)}"]
    return high


def in_element(b: Emitter, value: Operand, element: ElementType) -> Operand:
    """An operand in an element type; a number as one that this type holds."""
    if isinstance(value, SSAValue):
        return as_element(b, value, element)
    if element.is_float:
        return float(value)
    return bool(value) if element is BOOL else int(value)


def call_in(b: Emitter, name: str, element: ElementType, *operands: Operand) -> SSAValue:
    """An operation, its operands in an element type."""
    values = [in_element(b, item, element) for item in operands]
    if not any(isinstance(item, SSAValue) for item in values):
        assert not isinstance(values[0], SSAValue)
        values[0] = b.constant(values[0], element)
    return b.call(name, *values)


def as_value(b: Emitter, value: Operand, element: ElementType) -> SSAValue:
    """An operand as a tensor of an element type."""
    found = in_element(b, value, element)
    return found if isinstance(found, SSAValue) else b.constant(found, element)


def _enter_function(name: str, operation: str, is_float: bool, rounds: bool = False) -> None:
    @aten(name)
    def build(b: Emitter, call: Call, x: SSAValue) -> SSAValue:
        if rounds and not element_type_of(x).is_float:
            return x
        return b.call(operation, as_element(b, x, call.element) if is_float else x)


for _name, _operation in FLOAT_FUNCTIONS.items():
    _enter_function(_name, _operation, is_float=True)
for _name, _operation in FUNCTIONS.items():
    _enter_function(_name, _operation, is_float=False)
for _name, _operation in ROUNDINGS.items():
    _enter_function(_name, _operation, is_float=False, rounds=True)


def _enter_comparison(name: str) -> None:
    @aten(f"{name}.Tensor", f"{name}.Scalar")
    def build(b: Emitter, call: Call, x: SSAValue, y: Operand) -> SSAValue:
        element = common_element(x, y)
        if element is BOOL and name not in ("eq", "ne"):
            element = ELEMENT_TYPES["i32"]
        return call_in(b, name, element, x, y)


for _name in COMPARISONS:
    _enter_comparison(_name)


def _enter_logical(name: str, operation: str) -> None:
    @aten(f"logical_{name}")
    def logical(b: Emitter, call: Call, x: SSAValue, y: SSAValue) -> SSAValue:
        return b.call(operation, truth(b, x), truth(b, y))

    @aten(f"bitwise_{name}.Tensor", f"bitwise_{name}.Scalar", f"__{name}__.Tensor")
    def bitwise(b: Emitter, call: Call, x: SSAValue, y: Operand) -> SSAValue:
        if call.element is not BOOL:
            raise Unsupported("bits of integers")
        return call_in(b, operation, BOOL, x, y)


for _name, _operation in LOGICAL.items():
    _enter_logical(_name, _operation)


def truth(b: Emitter, x: SSAValue) -> SSAValue:
    """Whether each element differs from 0."""
    return x if element_type_of(x) is BOOL else b.ne(x, 0)


@aten("logical_not", "bitwise_not")
def logical_not(b: Emitter, call: Call, x: SSAValue) -> SSAValue:
    """Not; of integers, only as truths."""
    if call.element is not BOOL:
        raise Unsupported("bits of integers")
    return b.logical_not(truth(b, x))


@aten("logical_xor", "bitwise_xor.Tensor")
def logical_xor(b: Emitter, call: Call, x: SSAValue, y: SSAValue) -> SSAValue:
    """One of the two."""
    if call.element is not BOOL:
        raise Unsupported("bits of integers")
    return b.ne(truth(b, x), truth(b, y))


# ---- arithmetic


@aten("add.Tensor", "add.Scalar")
def add(b: Emitter, call: Call, x: Operand, y: Operand, alpha: float = 1) -> SSAValue:
    """x + alpha·y; of truths, whether one is."""
    if call.element is BOOL:
        return call_in(b, "logical_or", BOOL, x, y)
    if alpha != 1:
        y = call_in(b, "mul", call.element, y, alpha)
    return call_in(b, "add", call.element, x, y)


@aten("sub.Tensor", "sub.Scalar")
def sub(b: Emitter, call: Call, x: Operand, y: Operand, alpha: float = 1) -> SSAValue:
    """x - alpha·y."""
    if alpha != 1:
        y = call_in(b, "mul", call.element, y, alpha)
    return call_in(b, "sub", call.element, x, y)


@aten("rsub.Tensor", "rsub.Scalar")
def rsub(b: Emitter, call: Call, x: Operand, y: Operand, alpha: float = 1) -> SSAValue:
    """y - alpha·x."""
    return sub(b, call, y, x, alpha)


@aten("mul.Tensor", "mul.Scalar")
def mul(b: Emitter, call: Call, x: Operand, y: Operand) -> SSAValue:
    """The product; of truths, whether both are."""
    name = "logical_and" if call.element is BOOL else "mul"
    return call_in(b, name, call.element, x, y)


@aten("div.Tensor", "div.Scalar")
def div(b: Emitter, call: Call, x: Operand, y: Operand) -> SSAValue:
    """The quotient, a float also of integers."""
    return call_in(b, "div", call.element, x, y)


@aten("div.Tensor_mode", "div.Scalar_mode")
def div_rounded(
    b: Emitter, call: Call, x: Operand, y: Operand, rounding_mode: str | None = None
) -> SSAValue:
    """The quotient, rounded to an integer."""
    if rounding_mode is None:
        return div(b, call, x, y)
    left, right = as_value(b, x, call.element), as_value(b, y, call.element)
    quotient = b.div(left, right)
    if rounding_mode == "trunc":
        return truncated(b, quotient) if call.element.is_float else quotient
    zero = b.constant(0, call.element)
    if not call.element.is_float:  # the least integer less a remainder is none
        rest = b.mod(left, right)
        return _one_less(b, quotient, rest, b.ne(b.lt(left, zero), b.lt(right, zero)))
    rest = b.mul(b.sign(left), b.mod(b.abs(left), b.abs(right)))
    whole = b.round(b.div(b.sub(left, rest), right))
    found = _one_less(b, whole, rest, b.ne(b.lt(rest, zero), b.lt(right, zero)))
    return b.where(b.eq(right, zero), quotient, found)


def _one_less(b: Emitter, whole: SSAValue, rest: SSAValue, differ: SSAValue) -> SSAValue:
    """A truncated quotient as the one rounded down: one less with a rest and other signs."""
    element = element_type_of(whole)
    less = b.logical_and(differ, b.ne(rest, b.constant(0, element)))
    return b.sub(whole, b.cast(less, element))


@aten("floor_divide")
def floor_divide(b: Emitter, call: Call, x: Operand, y: Operand) -> SSAValue:
    """The quotient, rounded down."""
    return div_rounded(b, call, x, y, "floor")


@aten("remainder.Tensor", "remainder.Scalar")
def remainder(b: Emitter, call: Call, x: Operand, y: Operand) -> SSAValue:
    """What is left of a division, with the divisor's sign."""
    return call_in(b, "mod", call.element, x, y)


@aten("maximum", "minimum")
def extremum(b: Emitter, call: Call, x: SSAValue, y: SSAValue) -> SSAValue:
    """The larger or the smaller one."""
    if call.element is BOOL:
        name = "logical_or" if "maximum" in call.name else "logical_and"
        return call_in(b, name, BOOL, x, y)
    return call_in(b, "max" if "maximum" in call.name else "min", call.element, x, y)


POWERS = {-1.0: "recip", -0.5: "rsqrt", 0.5: "sqrt"}
"""Exponents of functions."""


@aten("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar")
def power(b: Emitter, call: Call, x: Operand, y: Operand) -> SSAValue:
    """A power; small exponents that are known as products."""
    if isinstance(y, SSAValue):
        return call_in(b, "pow", call.element, x, y)
    base = as_value(b, x, call.element)
    if call.element.is_float and y in POWERS:
        return b.call(POWERS[float(y)], base)
    if y == 1:
        return base
    if y == 2:
        return b.mul(base, base)
    if y == 3:
        return b.mul(b.mul(base, base), base)
    return call_in(b, "pow", call.element, base, y)


@aten("addcmul")
def addcmul(
    b: Emitter, call: Call, x: SSAValue, y: SSAValue, z: SSAValue, value: float = 1
) -> SSAValue:
    """x + value·y·z."""
    return add(b, call, x, call_in(b, "mul", call.element, y, z), value)


def fused_multiply_add(b: Emitter, call: Call, x: SSAValue, y: SSAValue, z: SSAValue) -> SSAValue:
    """x·y + z, as PyTorch's optimisers are traced."""
    return add(b, call, call_in(b, "mul", call.element, x, y), z)


@aten("addcdiv")
def addcdiv(
    b: Emitter, call: Call, x: SSAValue, y: SSAValue, z: SSAValue, value: float = 1
) -> SSAValue:
    """x + value·y / z."""
    return add(b, call, x, call_in(b, "div", call.element, y, z), value)


@aten("lerp.Scalar", "lerp.Tensor")
def lerp(b: Emitter, call: Call, x: SSAValue, y: SSAValue, weight: Operand) -> SSAValue:
    """x + weight·(y - x)."""
    apart = call_in(b, "sub", call.element, y, x)
    return b.add(x, call_in(b, "mul", call.element, apart, weight))


def truncated(b: Emitter, x: SSAValue) -> SSAValue:
    """x without what is behind the point."""
    return b.where(b.lt(x, 0), b.ceil(x), b.floor(x))


@aten("trunc")
def trunc(b: Emitter, call: Call, x: SSAValue) -> SSAValue:
    """x without what is behind the point."""
    return truncated(b, x) if element_type_of(x).is_float else x


# ---- questions and choices


@aten("isnan", "isinf", "isfinite")
def is_kind(b: Emitter, call: Call, x: SSAValue) -> SSAValue:
    """What kind of a number each element is."""
    if not element_type_of(x).is_float:
        return b.full(shape_of(x), "isfinite" in call.name, T=BOOL)
    if "isnan" in call.name:
        return b.isnan(x)
    name = "eq" if "isinf" in call.name else "lt"
    return b.call(name, b.abs(x), math.inf)


@aten("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where(b: Emitter, call: Call, condition: SSAValue, x: Operand, y: Operand) -> SSAValue:
    """x where a condition holds, else y."""
    left, right = (in_element(b, item, call.element) for item in (x, y))
    if not isinstance(left, SSAValue) and not isinstance(right, SSAValue):
        left = b.constant(left, call.element)
    return b.where(truth(b, condition), left, right)


@aten("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(b: Emitter, call: Call, x: SSAValue, mask: SSAValue, value: Operand) -> SSAValue:
    """A value where the mask holds, else x."""
    return where(b, call, mask, value, x)


# ---- conversions


@aten(
    "alias",
    "clone",
    "contiguous",
    "detach",
    "lift_fresh_copy",
    "_to_copy",
    "to.dtype",
    "to.dtype_layout",
    "_assert_tensor_metadata",
    "_assert_async",
    "_assert_async.msg",
)
def converted(b: Emitter, call: Call, x: SSAValue, *rest: Any, **named: Any) -> SSAValue:
    """x, in the type of the result."""
    return x


TABLE["prims.convert_element_type.default"] = converted
TABLE["prims.fma.default"] = fused_multiply_add


@aten("copy")
def copy(b: Emitter, call: Call, x: SSAValue, source: SSAValue, *rest: Any) -> SSAValue:
    """Another value in the type and shape of x."""
    value = as_element(b, source, call.element)
    return value if shape_of(value) == call.shape else b.broadcast_to(value, call.shape)
