"""What a kernel's value is, lane by lane: questions that every target of kernels asks.

In: the type of a scalar or of a vector, or a value. Out: the type of one lane, how many there are,
what family it is of, and the number in every lane of a constant.
"""

from math import copysign

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    VectorType,
    i1,
)
from xdsl.ir import Attribute, SSAValue

SMALL_FLOATS = (Float16Type, BFloat16Type)
FLOATS = (*SMALL_FLOATS, Float32Type, Float64Type)


def element(type: Attribute) -> Attribute:
    """The type of one lane."""
    return type.element_type if isinstance(type, VectorType) else type


def lanes(type: Attribute) -> int:
    """How many lanes a value has; a scalar has one."""
    return type.get_shape()[0] if isinstance(type, VectorType) else 1


def is_vector(type: Attribute) -> bool:
    """Whether it is a vector."""
    return isinstance(type, VectorType)


def is_float(type: Attribute) -> bool:
    """Whether the lanes are floats."""
    return element(type).__class__ in FLOATS


def is_small_float(type: Attribute) -> bool:
    """Whether values of the type are computed in 32 bits and rounded: f16 and bf16."""
    return element(type).__class__ in SMALL_FLOATS


def is_bool(type: Attribute) -> bool:
    """Whether the lanes are i1."""
    lane = element(type)
    return lane is i1 or lane == i1


def constant_number(value: SSAValue) -> float | int | None:
    """The number in every lane of a constant; None for any other value."""
    operation = value.owner
    if not isinstance(operation, arith.ConstantOp):
        return None
    data = operation.value
    if isinstance(data, IntegerAttr | FloatAttr):
        return data.value.data
    if isinstance(data, DenseIntOrFPElementsAttr) and data.is_splat():
        number = data.get_values()[0]
        return None if isinstance(number, tuple) else number
    return None


def compares_zeros(name: str, number: float | None) -> bool:
    """Whether `maximum` or `minimum` of x and a constant takes more than a comparison with it.

    It does where nothing is known of the constant, where that is nan, and where it is the zero
    that loses against the other one: -0 in a maximum, +0 in a minimum.
    """
    if number is None or number != number:
        return True
    return number == 0 and (copysign(1.0, number) < 0) == (name == "maximum")
