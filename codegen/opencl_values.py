"""Steps that the rows share: rounding, signedness, numeric conversion, masks.

In: a value or an expression, and an IR type. Out: an expression of that type.
"""

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    Float16Type,
    FloatAttr,
    IntegerAttr,
)
from xdsl.ir import Attribute, SSAValue

from mgn.codegen import c_types
from mgn.codegen.c_types import is_small_float, is_vector, lanes
from mgn.codegen.expression import Expression, call, cast
from mgn.codegen.writer import Writer


def rounded(writer: Writer, type: Attribute, expression: Expression) -> Expression:
    """The expression rounded to the type, where it was computed in `float` for less."""
    if not is_small_float(type):
        return expression
    if isinstance(c_types.element(type), Float16Type):
        return call(writer.library.round_f16(lanes(type)), expression)
    return call(writer.library.round_bf16(lanes(type)), expression)


def unsigned(writer: Writer, value: SSAValue) -> Expression:
    """An integer value's bits as an unsigned number."""
    type = writer.types.unsigned(value.type)
    if is_vector(value.type):
        return call(f"as_{type}", writer.value(value))
    return cast(type, writer.value(value))


def signed(writer: Writer, type: Attribute, expression: Expression) -> Expression:
    """An unsigned expression as the value of an integer type."""
    if is_vector(type):
        return call(f"as_{writer.type(type)}", expression)
    return cast(writer.type(type), expression)


def converted(writer: Writer, type: Attribute, expression: Expression) -> Expression:
    """A numeric conversion to a type."""
    if is_vector(type):
        return call(f"convert_{writer.type(type)}", expression)
    return cast(writer.type(type), expression)


def as_mask(writer: Writer, type: Attribute, comparison: Expression) -> Expression:
    """A comparison of two values of a type, as an i1 or a vector of i1."""
    if not is_vector(type) or writer.types.mask(type) == f"int{lanes(type)}":
        return comparison
    return call(f"convert_int{lanes(type)}", comparison)


def mask_for(writer: Writer, type: Attribute, mask: Expression) -> Expression:
    """A vector of i1, as `select` wants it between values of a type."""
    wanted = writer.types.mask(type)
    return mask if wanted == f"int{lanes(type)}" else call(f"convert_{wanted}", mask)


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
