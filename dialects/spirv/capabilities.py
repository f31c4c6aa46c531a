"""Which capabilities an instruction needs, and which a module declares.

In: instructions. Out: sets of capability names. One of the alternatives that an instruction lists
must be declared, by itself or by a capability that implies it.
"""

from collections.abc import Iterable, Iterator

from mgn.dialects.spirv.enums import ENUMS, IMPLIED
from mgn.dialects.spirv.instruction import InstructionOp

_INTEGERS = {8: "Int8", 16: "Int16", 64: "Int64"}


def needed_capabilities(operation: InstructionOp) -> Iterator[tuple[str, ...]]:
    """For each need of an instruction, the capabilities that meet it."""
    name, literals = operation.row.name, operation.literals
    if operation.row.capability is not None:
        yield (operation.row.capability,)
    if name == "OpTypeInt" and literals[0] in _INTEGERS:
        yield (_INTEGERS[int(literals[0])],)
    elif name == "OpTypeFloat" and literals[0] == 64:
        yield ("Float64",)
    elif name == "OpTypeFloat" and literals[0] == 16:
        yield ("Float16Buffer", "Float16")
    elif name == "OpTypeVector" and literals[0] in (8, 16):
        yield ("Vector16",)
    elif name == "OpMemoryModel":
        yield from (("Kernel",), ("Addresses",)) if literals[0] else (("Kernel",),)


def declared_capabilities(instructions: Iterable[InstructionOp]) -> set[str]:
    """The capabilities that a module declares, with those that they imply."""
    pending = [
        ENUMS["Capability"].by_value[operation.number()].name
        for operation in instructions
        if operation.row.name == "OpCapability"
    ]
    found: set[str] = set()
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending.extend(IMPLIED.get(name, ()))
    return found
