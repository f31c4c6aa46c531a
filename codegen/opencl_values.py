"""Steps that the rows share: rounding, signedness, numeric conversion, masks.

In: a value or an expression, and an IR type. Out: an expression of that type.
"""

from xdsl.dialects.builtin import (
    Float16Type,
)
from xdsl.ir import Attribute, SSAValue

from mgn.codegen.expression import Expression, call, cast
from mgn.codegen.writer import Writer
from mgn.dialects.kernel.lanes import element, is_small_float, is_vector, lanes


def rounded(writer: Writer, type: Attribute, expression: Expression) -> Expression:
    """The expression rounded to the type, where it was computed in `float` for less."""
    if not is_small_float(type):
        return expression
    if isinstance(element(type), Float16Type):
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
