"""IR types and constants as OpenCL C: what a value is computed as, and what memory holds.

f16 and bf16 values are computed as `float` and rounded after each operation; in memory they are
`half` and `ushort`. An i1 is a `bool`, a vector of i1 an `int` vector of 0 and -1, both `uchar` in
memory.
"""

import math
import struct
from decimal import Decimal

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float64Type,
    IndexType,
    IntegerType,
    i1,
)
from xdsl.ir import Attribute

from mgn.codegen.opencl.expression import PRIMARY, UNARY, Expression
from mgn.dialects.kernel.lanes import element, is_bool, is_float, is_vector, lanes

_INTEGERS = {8: "char", 16: "short", 32: "int", 64: "long"}
_SUFFIXES = {32: "", 64: "L"}


class CTypes:
    """The C spelling of types. `index` is `int`, or `long` in a kernel that counts further."""

    def __init__(self, wide_index: bool):
        self.index_bits = 64 if wide_index else 32

    def bits(self, type: Attribute) -> int:
        """Width of one lane as it is computed."""
        type = element(type)
        if isinstance(type, IndexType):
            return self.index_bits
        if isinstance(type, IntegerType):
            return type.width.data
        return 64 if isinstance(type, Float64Type) else 32

    def scalar(self, type: Attribute) -> str:
        """The C type of one lane."""
        type = element(type)
        if is_float(type):
            return "double" if isinstance(type, Float64Type) else "float"
        if type == i1:
            return "bool"
        return _INTEGERS[self.bits(type)]

    def value(self, type: Attribute) -> str:
        """The C type of a value: `float`, `float16`, `bool`, …"""
        if not is_vector(type):
            return self.scalar(type)
        return f"{'int' if is_bool(type) else self.scalar(type)}{lanes(type)}"

    def unsigned(self, type: Attribute) -> str:
        """The unsigned C type of the same width as an integer value."""
        return f"u{self.value(type)}"

    def mask(self, type: Attribute) -> str:
        """The integer vector that a comparison of two such vectors gives."""
        bits = 32 if is_bool(type) else self.bits(type)
        return f"{_INTEGERS[bits]}{lanes(type)}"

    def memory(self, type: Attribute) -> str:
        """The C type that a buffer's pointer points to."""
        type = element(type)
        if isinstance(type, Float16Type):
            return "half"
        if isinstance(type, BFloat16Type):
            return "ushort"
        return "uchar" if type == i1 else self.scalar(type)

    def storage(self, type: Attribute) -> str:
        """The C type of an array in local or private memory: `half` cannot be declared."""
        return "ushort" if isinstance(element(type), Float16Type) else self.memory(type)

    def literal(self, type: Attribute, number: float | int) -> Expression:
        """A number as a constant of the type of one lane, exactly."""
        type = element(type)
        if is_float(type):
            return _float_literal(float(number), isinstance(type, Float64Type))
        if type == i1:
            return Expression("true" if number else "false")
        return _integer_literal(int(number), self.bits(type))

    def splat(self, type: Attribute, scalar: Expression) -> Expression:
        """A scalar in every lane of the type."""
        if not is_vector(type):
            return scalar
        return Expression(f"({self.value(type)})({scalar})", UNARY)

    def pack(self, type: Attribute, parts: list[Expression]) -> Expression:
        """A vector of scalars or shorter vectors."""
        return Expression(f"({self.value(type)})({', '.join(map(str, parts))})", UNARY)


def _integer_literal(number: int, bits: int) -> Expression:
    if number >= 1 << (bits - 1):
        number -= 1 << bits
    if bits < 32:
        return Expression(f"({_INTEGERS[bits]}){number}", UNARY)
    if number == -(1 << (bits - 1)):
        return Expression("INT_MIN" if bits == 32 else "LONG_MIN")
    return Expression(f"{number}{_SUFFIXES[bits]}", PRIMARY if number >= 0 else UNARY)


def _float_literal(number: float, double: bool) -> Expression:
    suffix = "" if double else "f"
    if not double and math.isfinite(number):
        number = struct.unpack("f", struct.pack("f", number))[0]
    if math.isnan(number):
        return Expression("(double)NAN" if double else "NAN", UNARY if double else PRIMARY)
    if math.isinf(number):
        name = "HUGE_VAL" if double else "INFINITY"
        return Expression(f"-{name}" if number < 0 else name, UNARY if number < 0 else PRIMARY)
    negative = math.copysign(1.0, number) < 0
    text = repr(number)
    if "e" in text or len(text) > 12 or Decimal(text) != Decimal(number):
        text = number.hex()
    return Expression(text + suffix, UNARY if negative else PRIMARY)
