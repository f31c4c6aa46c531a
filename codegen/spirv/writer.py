"""SPIR-V words from a `spirv.module`, one instruction at a time.

In: a module that verifies. Out: the bytes of the binary (`serialise`), little-endian. Ids are
numbered from 1 in the order of their definitions, so that equal modules have equal bytes.
"""

import struct
from array import array
from dataclasses import dataclass
from functools import lru_cache

from xdsl.ir import SSAValue

from mgn.codegen.spirv.error import SpirvError
from mgn.dialects.spirv import InstructionOp, ModuleOp
from mgn.dialects.spirv.fields import OperandError, paired_operands
from mgn.dialects.spirv.table import INSTRUCTIONS, Field
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
    row, operands = operation.row, tuple(operation.operands)
    try:
        words = [ids[value] for value in operands]
        if not operation.properties:
            if row.has_result:
                words.insert(1 if row.has_type else 0, ids[operation.results[0]])
            return words
        given = words[row.has_type :]
        del words[row.has_type :]
        if row.has_result:
            words.append(ids[operation.results[0]])
        kind = scalar_kind(operands[0]) if row.has_type else None
        for order in _orders(row.name, len(given), operation.literals, kind):
            words.append(order if order >= 0 else given[~order])
    except KeyError:
        raise SpirvError(f"{row.name} uses a value from outside the module", offset) from None
    except OperandError as error:
        raise SpirvError(str(error), offset) from None
    return words


@lru_cache(maxsize=1 << 14)
def _orders(
    name: str, ids: int, literals: tuple[int | str, ...], kind: tuple[str, int] | None
) -> tuple[int, ...]:
    """The words of an instruction's operands in their order, with ~n for the n-th of the ids."""
    words: list[int] = []
    places = [_Place(~number) for number in range(ids)]
    for field, value in paired_operands(INSTRUCTIONS[name], places, literals):
        words += [value.word] if isinstance(value, _Place) else literal_words(field, value, kind)
    return tuple(words)


@dataclass(frozen=True)
class _Place:
    """Stands for an id."""

    word: int


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
