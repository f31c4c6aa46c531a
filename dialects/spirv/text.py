"""The text form of an instruction's operands, close to that of `spirv-dis`, with commas between.

In: an operation's parts, or a parser in front of them. Out: `%float, %a, %b`,
`%ptr, Function`, `%int, -7`, `%float, 0.5`. A float that is no decimal is its bits: `0x7F800000`.
"""

import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import Attribute, OpResult, SSAValue
from xdsl.parser import Parser
from xdsl.printer import Printer

from mgn.dialects.spirv.enums import ENUMS
from mgn.dialects.spirv.fields import OperandError, operand_fields, paired_operands
from mgn.dialects.spirv.opencl_std import BY_NUMBER, OPENCL_STD
from mgn.dialects.spirv.table import Field, Instruction

_FORMATS = {16: "<e", 32: "<f", 64: "<d"}
_NUMPY = {16: np.float16, 32: np.float32, 64: np.float64}


def scalar_kind(type_id: SSAValue) -> tuple[str, int] | None:
    """`("float", 32)` or `("int", 32)` for the id of such a type; None for another type."""
    if not isinstance(type_id, OpResult):  # used above its definition, while text is read
        return None
    owner: Any = type_id.op
    name = getattr(getattr(owner, "row", None), "name", None)
    if name not in ("OpTypeInt", "OpTypeFloat"):
        return None
    width = owner.literals[0] if owner.literals else 32
    return ("float" if name == "OpTypeFloat" else "int", width if isinstance(width, int) else 32)


def number_text(bits: int, kind: tuple[str, int] | None) -> str:
    """A constant's bits as the number that they are in their type."""
    if kind is None:
        return hex(bits)
    name, width = kind
    if name == "int":
        return str(bits - (1 << width) if bits >> (width - 1) else bits)
    if width not in _FORMATS or bits >> width:
        return f"0x{bits:X}"
    value = struct.unpack(_FORMATS[width], bits.to_bytes(width // 8, "little"))[0]
    if not math.isfinite(value):
        return f"0x{bits:0{width // 4}X}"
    text = str(_NUMPY[width](value))
    mantissa, exponent, power = text.partition("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}{exponent}{power}"


def number_bits(value: int | float, kind: tuple[str, int]) -> int:
    """The bits of a number in a type; an int for a float type is the bits themselves.

    OverflowError where they do not fit.
    """
    width = kind[1]
    if isinstance(value, float):
        return int.from_bytes(struct.pack(_FORMATS[width], value), "little")
    if not -(1 << (width - 1)) <= value < 1 << width:
        raise OverflowError(f"{value} does not fit {width} bits")
    return value % (1 << width)


def literal_text(field: Field, value: int | str, kind: tuple[str, int] | None) -> str:
    """A literal's text; a string is left to the printer."""
    if isinstance(value, str):
        return value
    if field.kind == "number":
        return number_text(value, kind)
    if field.kind == "extended" and value in BY_NUMBER:
        return BY_NUMBER[value].name
    return ENUMS[field.kind].text(value) if field.kind in ENUMS else str(value)


def print_operands(
    printer: Printer,
    row: Instruction,
    operands: Sequence[SSAValue],
    literals: Sequence[int | str],
) -> None:
    """Prints the operands of an instruction."""
    ids, type_id = operands, None
    separator = " "
    if row.has_type and operands:
        type_id, ids = operands[0], operands[1:]
        printer.print_string(separator)
        printer.print_operand(type_id)
        separator = ", "
    kind = None if type_id is None else scalar_kind(type_id)
    for field, value in paired_operands(row, ids, literals):
        printer.print_string(separator)
        separator = ", "
        if isinstance(value, SSAValue):
            printer.print_operand(value)
        elif field.kind == "string":
            printer.print_string_literal(str(value))
        else:
            assert isinstance(value, int | str)
            printer.print_string(literal_text(field, value, kind))


def parse_operands(
    parser: Parser, row: Instruction, id_type: Attribute
) -> tuple[list[SSAValue], list[int | str]]:
    """Parses what `print_operands` prints."""
    operands: list[SSAValue] = []
    literals: list[int | str] = []
    first = True

    def another(required: bool) -> bool:
        nonlocal first
        if first:
            first = False
            return required
        if required:
            parser.parse_punctuation(",")
            return True
        return parser.parse_optional_punctuation(",") is not None

    if row.has_type:
        another(True)
        operands.append(parser.resolve_operand(parser.parse_unresolved_operand(), id_type))
    fields = operand_fields(row)
    sent: object = None
    while True:
        try:
            field = fields.send(sent)
        except StopIteration:
            return operands, literals
        if not another(not (field.optional or field.variadic)):
            sent = None
            continue
        if field.kind == "id":
            unresolved = parser.parse_unresolved_operand()
            operands.append(parser.resolve_operand(unresolved, id_type))
            sent = True
            continue
        kind = scalar_kind(operands[0]) if row.has_type else None
        sent = _parse_literal(parser, field, kind)
        literals.append(sent)


def _parse_literal(parser: Parser, field: Field, kind: tuple[str, int] | None) -> int | str:
    if field.kind == "string":
        return parser.parse_str_literal()
    if field.kind in ENUMS:
        return _parse_members(parser, field.kind)
    if field.kind == "extended":
        name = parser.parse_optional_identifier()
        if name is None:
            return parser.parse_integer(allow_boolean=False, allow_negative=False)
        if name not in OPENCL_STD:
            parser.raise_error(f"OpenCL.std has no function {name}")
        return OPENCL_STD[name].number
    if field.kind != "number":
        return parser.parse_integer(allow_boolean=False, allow_negative=False)
    start = parser.pos
    value = parser.parse_number()
    if kind is None or kind[1] not in (8, 16, 32, 64):
        parser.raise_error("a constant's type is an integer or float type above it", start)
    if isinstance(value, float) and kind[0] == "int":
        parser.raise_error("a constant of an integer type is an integer", start)
    try:
        return number_bits(value, kind)
    except (OverflowError, OperandError) as error:
        parser.raise_error(str(error), start)


def _parse_members(parser: Parser, kind: str) -> int:
    value = 0
    while True:
        start = parser.pos
        name = parser.parse_identifier()
        member = ENUMS[kind].by_name.get(name)
        if member is None:
            parser.raise_error(f"{kind} has no member {name}", start)
        value |= member.value
        if not ENUMS[kind].is_mask or parser.parse_optional_punctuation("|") is None:
            return value
