"""SPIR-V assembly from a `spirv.module`: the text that `spirv-as` reads and `spirv-dis` writes.

In: a module that verifies. Out: one line for each instruction, results aligned before `=`.
"""

import math
import re
import struct

from xdsl.ir import SSAValue

from mgn.dialects.spirv import InstructionOp, ModuleOp
from mgn.dialects.spirv.fields import paired_operands
from mgn.dialects.spirv.text import literal_text, scalar_kind

_INDENT = 15
"""The column of `=`, as in the output of `spirv-dis`."""

_EXPONENTS = {16: ("<e", "0x1.{}p+16"), 32: ("<f", "0x1.{}p+128"), 64: ("<d", "0x1.{}p+1024")}
_MANTISSAS = {16: 10, 32: 23, 64: 52}


def assembly(module: ModuleOp) -> str:
    """The module's text, with a header in comments."""
    names = _names(module)
    lines = [
        "; SPIR-V",
        f"; Version: {module.version[0]}.{module.version[1]}",
        "; Generator: mgn",
        f"; Bound: {len(names) + 1}",
        "; Schema: 0",
        *(_line(operation, names) for operation in module.instructions),
    ]
    return "\n".join(lines) + "\n"


def _names(module: ModuleOp) -> dict[SSAValue, str]:
    """A name for each id: its hint where no other id has it, or else its number."""
    names: dict[SSAValue, str] = {}
    taken: set[str] = set()
    for operation in module.instructions:
        for result in operation.results:
            hint = re.sub(r"\W", "_", result.name_hint or "")
            number = str(len(names) + 1)
            name = hint if hint and not hint.isdigit() else number
            name = f"{name}_{number}" if name in taken else name
            taken.add(name)
            names[result] = f"%{name}"
    return names


def _line(operation: InstructionOp, names: dict[SSAValue, str]) -> str:
    row = operation.row
    words = [row.name]
    kind = None
    if row.has_type:
        words.append(names[operation.operands[0]])
        kind = scalar_kind(operation.operands[0])
    for field, value in paired_operands(row, operation.ids, operation.literals):
        if isinstance(value, SSAValue):
            words.append(names[value])
        elif field.kind == "string":
            escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
            words.append(f'"{escaped}"')
        elif field.kind == "number" and kind is not None:
            assert isinstance(value, int)
            words.append(float_text(value, kind[1]) if kind[0] == "float" else str(value))
        else:
            assert isinstance(value, int | str)
            words.append(literal_text(field, value, kind))
    head = f"{names[operation.results[0]]} = " if operation.results else ""
    return f"{head:>{_INDENT + 2}}{' '.join(words)}"


def float_text(bits: int, width: int) -> str:
    """A float constant exactly: hexadecimal, where infinities and NaNs have an exponent too far."""
    code, beyond = _EXPONENTS[width]
    value = struct.unpack(code, bits.to_bytes(width // 8, "little"))[0]
    sign = "-" if bits >> (width - 1) else ""
    if math.isfinite(value):
        return sign + abs(value).hex()
    mantissa = bits & ((1 << _MANTISSAS[width]) - 1)
    digits = -(-_MANTISSAS[width] // 4)
    fraction = f"{mantissa << (4 * digits - _MANTISSAS[width]):0{digits}x}".rstrip("0")
    return sign + beyond.format(fraction) if fraction else sign + beyond.replace(".{}", "")
