"""One operation class for each instruction of the table.

In: `table.INSTRUCTIONS`, and the rules that its rows name. Out: `OPERATIONS`, classes by name;
`instruction` makes an operation.
"""

from collections.abc import Sequence

from xdsl.ir import SSAValue

from mgn.dialects.spirv.instruction import InstructionOp
from mgn.dialects.spirv.rules import RULES
from mgn.dialects.spirv.table import INSTRUCTIONS, Instruction


class RuledInstructionOp(InstructionOp):
    """An instruction of the table. Errors: those of its operands, and what its rule says."""

    def verify_(self) -> None:
        super().verify_()
        if self.row.rule is not None:
            RULES[self.row.rule](self)


def _class(row: Instruction) -> type[InstructionOp]:
    members = {
        "name": f"spirv.{row.name}",
        "row": row,
        "__doc__": f"`{row.name}`, section {row.section} of the specification.",
    }
    return type(row.name, (RuledInstructionOp,), members)


OPERATIONS: dict[str, type[InstructionOp]] = {
    name: _class(row) for name, row in INSTRUCTIONS.items()
}
"""Operation classes by the instruction's name."""


def instruction(
    name: str,
    operands: Sequence[SSAValue] = (),
    literals: Sequence[int | str] = (),
    hint: str | None = None,
) -> InstructionOp:
    """An instruction by name; the type of its result, where it has one, is the first operand."""
    operation = OPERATIONS[name].made(operands, literals)
    if hint is not None:
        operation.results[0].name_hint = hint
    return operation
