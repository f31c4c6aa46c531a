"""SPIR-V words from a `spirv.module`, one instruction at a time.

In: a module that verifies. Out: the bytes of the binary (`serialise`), little-endian. Ids are
numbered from 1 in the order of their definitions, so that equal modules have equal bytes.
"""

import struct
from array import array

from xdsl.ir import SSAValue

from mgn.codegen.spirv_error import SpirvError
from mgn.dialects.spirv import InstructionOp, ModuleOp
from mgn.dialects.spirv.fields import OperandError, paired_operands
from mgn.dialects.spirv.table import Field
from mgn.dialects.spirv.text import scalar_kind

MAGIC = 0x07230203
GENERATOR = 0
"""The number of an unregistered generator."""

HEADER_WORDS = 5
MOST_WORDS = 0xFFFF
"""The longest instruction."""


def serialise(module: ModuleOp) -> bytes:
    """The module as a SPIR-V binary. SpirvError where an instruction does not fit its words."""
    ids: dict[SSAValue, int] = {}
    operations = list(module.instructions)
    for operation in operations:
        for result in operation.results:
            ids[result] = len(ids) + 1
    major, minor = module.version
    words = array("I", (MAGIC, major << 16 | minor << 8, GENERATOR, len(ids) + 1, 0))
    for operation in operations:
        body = _operand_words(operation, ids, 4 * len(words))
        if len(body) >= MOST_WORDS:
            raise SpirvError(f"{operation.row.name} has {len(body)} operands", 4 * len(words))
        words.append((len(body) + 1) << 16 | operation.row.opcode)
        words.extend(body)
    return struct.pack(f"<{len(words)}I", *words)


def _operand_words(operation: InstructionOp, ids: dict[SSAValue, int], offset: int) -> list[int]:
    row, operands = operation.row, operation.operands
    try:
        words = [ids[value] for value in operands]
        if row.has_result:
            words.insert(1 if row.has_type else 0, ids[operation.results[0]])
        if not operation.properties:
            return words
        del words[row.has_type + row.has_result :]
        kind = scalar_kind(operands[0]) if row.has_type else None
        for field, value in paired_operands(row, operation.ids, operation.literals):
            if isinstance(value, SSAValue):
                words.append(ids[value])
            else:
                words += literal_words(field, value, kind)
    except KeyError:
        raise SpirvError(f"{row.name} uses a value from outside the module", offset) from None
    except OperandError as error:
        raise SpirvError(str(error), offset) from None
    return words


def literal_words(field: Field, value: object, kind: tuple[str, int] | None) -> list[int]:
    """The words of a literal: a string ends in a zero byte, a number has its type's width."""
    if isinstance(value, str):
        data = value.encode() + b"\0"
        data += b"\0" * (-len(data) % 4)
        return list(struct.unpack(f"<{len(data) // 4}I", data))
    assert isinstance(value, int)
    if field.kind == "number" and kind is not None and kind[1] > 32:
        return [value & 0xFFFFFFFF, value >> 32]
    return [value]
