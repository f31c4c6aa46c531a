"""The base of all instructions: its parts, its text form, and the check of its operands.

In: a row of `table.INSTRUCTIONS`. Out: what the class of that instruction inherits.
A result has the type `!spirv.id`; an instruction that has a result type takes it as its first
operand, as in the specification. Everything that is not an id is in the property `literals`.
"""

from collections.abc import Sequence
from typing import ClassVar

from xdsl.ir import (
    Attribute,
    Data,
    Operation,
    OpResult,
    OpTraits,
    ParametrizedAttribute,
    SSAValue,
    TypeAttribute,
)
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.spirv.fields import OperandError, check_operands
from mgn.dialects.spirv.table import Instruction
from mgn.dialects.spirv.text import parse_operands, print_operands


@irdl_attr_definition
class IdType(ParametrizedAttribute, TypeAttribute):
    """An id of SPIR-V: a value, a type, a label, a function."""

    name = "spirv.id"


@irdl_attr_definition
class LiteralsAttr(Data[tuple[int | str, ...]]):
    """The operands of an instruction that are not ids, in order: `#spirv.literals<[6, "f"]>`."""

    name = "spirv.literals"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[int | str, ...]:
        def item() -> int | str:
            text = parser.parse_optional_str_literal()
            return parser.parse_integer() if text is None else text

        with parser.in_angle_brackets():
            return tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, item))

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string("[")
            for number, item in enumerate(self.data):
                printer.print_string(", " if number else "")
                if isinstance(item, str):
                    printer.print_string_literal(item)
                else:
                    printer.print_string(str(item))
            printer.print_string("]")


ID = IdType()


class InstructionOp(Operation):
    """An instruction: `%sum = OpFAdd %float, %a, %b` inside a `spirv.module`.

    Errors: operands that the table does not give it.
    """

    name = "spirv.instruction"
    row: ClassVar[Instruction]
    traits = OpTraits(lambda: ())

    @property
    def type_id(self) -> SSAValue | None:
        """The type of the result."""
        operands = self.operands if self.row.has_type else ()
        return operands[0] if operands else None

    @property
    def ids(self) -> Sequence[SSAValue]:
        """The operands that are ids, without the type of the result."""
        return self.operands[1:] if self.row.has_type else self.operands

    @property
    def literals(self) -> tuple[int | str, ...]:
        """The operands that are not ids."""
        literals = self.properties.get("literals")
        return literals.data if isinstance(literals, LiteralsAttr) else ()

    @property
    def result(self) -> OpResult:
        """The id that the instruction defines."""
        return self.results[0]

    def number(self, position: int = 0) -> int:
        """A literal that is a number. VerifyException where there is none."""
        literals = self.literals
        value = literals[position] if position < len(literals) else None
        if not isinstance(value, int):
            raise VerifyException(f"{self.row.name} has no number in place {position}")
        return value

    def verify_(self) -> None:
        if len(self.results) != self.row.has_result:
            raise VerifyException(f"{self.row.name} has {len(self.results)} results")
        if self.row.has_type and not self.operands:
            raise VerifyException(f"{self.row.name} lacks the type of its result")
        for value in (*self.operands, *self.results):
            if value.type is not ID and value.type != ID:
                raise VerifyException(f"{self.row.name} takes and gives ids only")
        try:
            check_operands(self.row, self.ids, self.literals)
        except OperandError as error:
            raise VerifyException(str(error)) from None

    @classmethod
    def made(cls, operands: Sequence[SSAValue], literals: Sequence[int | str]) -> "InstructionOp":
        """The operation of these operands, with the id that it defines."""
        properties: dict[str, Attribute] = {}
        if literals:
            properties["literals"] = LiteralsAttr(tuple(literals))
        return cls.create(
            operands=operands,
            result_types=[ID] if cls.row.has_result else [],
            properties=properties,
        )

    @classmethod
    def parse(cls, parser: Parser) -> "InstructionOp":
        operands, literals = parse_operands(parser, cls.row, ID)
        return cls.made(operands, literals)

    def print(self, printer: Printer) -> None:
        print_operands(printer, self.row, self.operands, self.literals)


def defining(value: SSAValue) -> InstructionOp | None:
    """The instruction that defines an id."""
    owner = value.owner
    return owner if isinstance(owner, InstructionOp) else None


def type_of(value: SSAValue) -> InstructionOp | None:
    """The type instruction of a value's type; None for a type, a label and so on."""
    owner = defining(value)
    if owner is None or owner.type_id is None:
        return None
    return defining(owner.type_id)
