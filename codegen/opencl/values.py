"""Steps that the rows share: rounding, signedness, numeric conversion, masks.

In: a value or an expression, and an IR type. Out: an expression of that type.
"""

from xdsl.dialects.builtin import (
    Float16Type,
)
from xdsl.ir import Attribute, SSAValue

from mgn.codegen.opencl.expression import Expression, call, cast
from mgn.codegen.opencl.functions import suffixed
from mgn.codegen.opencl.writer import Writer
from mgn.dialects.kernel.lanes import element, is_small_float, is_vector, lanes


def rounded(writer: Writer, type: Attribute, expression: Expression) -> Expression:
    """The expression rounded to the type, where it was computed in `float` for less."""
    if not is_small_float(type):
        return expression
    if isinstance(element(type), Float16Type):
        return call(writer.library.round_f16(lanes(type)), expression)
    if has_pairs(writer):
        return call(_nearest_bf16(writer, lanes(type)), expression)
    return call(writer.library.round_bf16(lanes(type)), expression)


def has_pairs(writer: Writer) -> bool:
    """Whether an instruction rounds two numbers to 16 bits: NVIDIA's from sm_80 on."""
    return writer.vendor == "nvidia" and writer.matrix_unit != "none"


def _nearest_bf16(writer: Writer, count: int) -> str:
    """A function that rounds numbers to bf16, two by one instruction; a NaN stays a NaN."""
    pair, name = _round_pair(writer, "bf16"), suffixed("nearest_bf16", count)
    if count == 1:
        body = f"return as_float({pair}(x, 0.0f) << 16);"
        return writer.library.add(name, "float", "float x", body)
    type, pairs = f"float{count}", range(count // 2)
    lines = [f"int p{n} = {pair}(x.s{2 * n:x}, x.s{2 * n + 1:x});" for n in pairs]
    each = ", ".join(f"as_float(p{n} << 16), as_float(p{n} & 0xffff0000)" for n in pairs)
    return writer.library.add(name, type, f"{type} x", *lines, f"return ({type})({each});")


def _round_pair(writer: Writer, name: str) -> str:
    body = (
        "int r;",
        f'asm("cvt.rn.{name}x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));',
        "return r;",
    )
    return writer.library.add(f"round_pair_{name}", "int", "float low, float high", *body)


def rounded_pairs(writer: Writer, value: SSAValue, pairs: int, name: str) -> Expression:
    """f32 numbers rounded to bf16 or f16, packed: two by one instruction, two in each `int`."""
    pair = _round_pair(writer, name)
    parts = ", ".join(f"{pair}(x.s{2 * n:x}, x.s{2 * n + 1:x})" for n in range(pairs))
    type = "int" if pairs == 1 else f"int{pairs}"
    function = writer.library.add(
        f"round_pairs_{name}_{pairs}", type, f"float{2 * pairs} x", f"return ({type})({parts});"
    )
    return call(function, writer.value(value))


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
