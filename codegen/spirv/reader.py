"""A `spirv.module` from SPIR-V words.

In: bytes from anywhere, of either byte order. Out: the module (`deserialise`), which then has to
verify; or a `SpirvError` with the offset of what is wrong. Nothing is read outside the bytes, and
the work is in proportion to their number whatever the header says.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from mgn.codegen.spirv.error import SpirvError
from mgn.codegen.spirv.writer import HEADER_WORDS, MAGIC
from mgn.dialects.spirv import BY_OPCODE, ENUMS, InstructionOp, ModuleOp, instruction
from mgn.dialects.spirv.fields import operand_fields
from mgn.dialects.spirv.opencl_std import BY_NUMBER, SET_NAME
from mgn.dialects.spirv.table import Field, Instruction

_SWAPPED = int.from_bytes(MAGIC.to_bytes(4, "little"), "big")
_SCALARS = {"OpTypeInt": "int", "OpTypeFloat": "float"}
_WIDTHS = (8, 16, 32, 64)


@dataclass
class _Decoded:
    """An instruction whose ids are still numbers."""

    row: Instruction
    offset: int
    result: int | None
    ids: list[int]
    literals: list[int | str]


def deserialise(data: bytes) -> ModuleOp:
    """The module that a binary holds. SpirvError where it is none, or uses what we do not know."""
    words = _words(data)
    version, bound = words[1], words[3]
    major, minor = version >> 16, version >> 8 & 0xFF
    if version & 0xFF0000FF or major != 1 or minor > 4:
        raise SpirvError(f"the version is {major}.{minor}, not one of 1.0 to 1.4", 4)
    if words[4] != 0:
        raise SpirvError("the schema is not 0", 16)
    decoder = _Decoder(words, bound)
    decoded: list[_Decoded] = []
    position = HEADER_WORDS
    while position < len(words):
        length = words[position] >> 16
        if length == 0:
            raise SpirvError("an instruction of no words", 4 * position)
        if position + length > len(words):
            raise SpirvError("an instruction that goes on behind the end", 4 * position)
        decoded.append(decoder.instruction(position, position + length))
        position += length
    return ModuleOp(_operations(decoded), (major, minor))


def _words(data: bytes) -> Sequence[int]:
    if len(data) < 4 * HEADER_WORDS:
        raise SpirvError("shorter than a header", len(data))
    if len(data) % 4:
        raise SpirvError("not a whole number of words", len(data) - len(data) % 4)
    magic = int.from_bytes(data[:4], "little")
    if magic not in (MAGIC, _SWAPPED):
        raise SpirvError(f"the first word is 0x{magic:08X}, not 0x{MAGIC:08X}", 0)
    order = "<" if magic == MAGIC else ">"
    return struct.unpack(f"{order}{len(data) // 4}I", data)


class _Decoder:
    """Decodes instructions in order; it remembers the widths of scalar types and the results."""

    def __init__(self, words: Sequence[int], bound: int) -> None:
        self._words = words
        self._bound = bound
        self._widths: dict[int, int] = {}
        self._defined: set[int] = set()

    def instruction(self, start: int, end: int) -> _Decoded:
        """The instruction in a range of words."""
        row = BY_OPCODE.get(self._words[start] & 0xFFFF)
        if row is None:
            number = self._words[start] & 0xFFFF
            raise SpirvError(f"unknown instruction {number}", 4 * start)
        self._row, self._position, self._end = row, start + 1, end
        type_id = self._id("the type of its result") if row.has_type else None
        result = self._id("its result") if row.has_result else None
        if result is not None and result in self._defined:
            raise SpirvError(f"%{result} is defined for the second time", 4 * start)
        ids = [] if type_id is None else [type_id]
        literals: list[int | str] = []
        fields = operand_fields(row)
        sent: object = None
        while True:
            try:
                field = fields.send(sent)
            except StopIteration:
                break
            if self._position == end and (field.optional or field.variadic):
                sent = None
            elif field.kind == "id":
                ids.append(self._id(field.name))
                sent = True
            else:
                sent = self._literal(field, type_id)
                literals.append(sent)
        if self._position != end:
            raise SpirvError(f"{row.name} is longer than its operands", 4 * self._position)
        if result is not None:
            self._defined.add(result)
            if row.name in _SCALARS and literals[0] in _WIDTHS:
                self._widths[result] = int(literals[0])
        return _Decoded(row, 4 * start, result, ids, literals)

    def _word(self, what: str) -> int:
        if self._position == self._end:
            raise SpirvError(f"{self._row.name} ends before {what}", 4 * self._position)
        self._position += 1
        return self._words[self._position - 1]

    def _id(self, what: str) -> int:
        value = self._word(what)
        if not 0 < value < self._bound:
            place = 4 * (self._position - 1)
            raise SpirvError(f"{self._row.name}: {what} is %{value}, outside the bound", place)
        return value

    def _literal(self, field: Field, type_id: int | None) -> int | str:
        place = 4 * self._position
        if field.kind == "string":
            text = self._string(field)
            if self._row.name == "OpExtInstImport" and text != SET_NAME:
                raise SpirvError(f"unknown set of instructions {text!r}", place)
            return text
        value = self._word(field.name)
        if field.kind == "number":
            width = self._widths.get(type_id or 0)
            if width is None:
                raise SpirvError(f"{self._row.name} has a type of no known width", place)
            return value | self._word(field.name) << 32 if width > 32 else value
        if field.kind == "extended" and value not in BY_NUMBER:
            raise SpirvError(f"{SET_NAME} has no function {value}", place)
        if field.kind in ENUMS:
            try:
                ENUMS[field.kind].members(value)
            except KeyError:
                raise SpirvError(f"unknown {field.kind} {value}", place) from None
        return value

    def _string(self, field: Field) -> str:
        place, data = 4 * self._position, bytearray()
        while 0 not in data[-4:]:
            data += self._word(field.name).to_bytes(4, "little")
        text, zero, padding = bytes(data).partition(b"\0")
        if not zero or padding.strip(b"\0"):
            raise SpirvError("a string that is not filled up with zeros", place)
        try:
            return text.decode()
        except UnicodeDecodeError:
            raise SpirvError("a string that is not UTF-8", place) from None


def _operations(decoded: Sequence[_Decoded]) -> list[InstructionOp]:
    """The operations: first all results, then the operands, which may come from further below."""
    operations = [instruction(item.row.name, (), item.literals) for item in decoded]
    values: dict[int, SSAValue] = {
        item.result: operation.results[0]
        for item, operation in zip(decoded, operations, strict=True)
        if item.result is not None
    }
    names: dict[int, str] = {}
    for item, operation in zip(decoded, operations, strict=True):
        try:
            operation.operands = [values[number] for number in item.ids]
        except KeyError as error:
            raise SpirvError(f"{item.row.name} uses %{error}, undefined", item.offset) from None
        if item.row.name == "OpName":
            names.setdefault(item.ids[0], str(item.literals[0]))
    for number, name in names.items():
        if SSAValue.is_valid_name(name):
            values[number].name_hint = name
    return operations
