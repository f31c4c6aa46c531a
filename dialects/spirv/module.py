"""`spirv.module`: the instructions of one SPIR-V module, in the order of the binary.

    spirv.module version 1.0 {
      OpCapability Addresses
      %float = OpTypeFloat 32
      …
    }

Ids are values; an id may be used above its definition, as in SPIR-V. The verifier checks what
spans several instructions (`structure.py`); each instruction checks itself.
"""

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Block, Region
from xdsl.irdl import IRDLOperation, irdl_op_definition, prop_def, region_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.isolation import Isolated
from mgn.dialects.spirv.instruction import InstructionOp
from mgn.dialects.spirv.structure import verify_structure


@irdl_op_definition
class ModuleOp(IRDLOperation):
    """A module: `spirv.module version 1.0 { … }`.

    Errors: an order that the specification does not allow, a type declared twice, a capability
    that is used and not declared, a block without its end, a value used where it is not known.
    """

    name = "spirv.module"
    major = prop_def(IntegerAttr.constr(i32))
    minor = prop_def(IntegerAttr.constr(i32))
    body = region_def("single_block")
    traits = traits_def(Isolated(), NoTerminator())

    def __init__(self, instructions: Sequence[InstructionOp], version: tuple[int, int] = (1, 0)):
        super().__init__(
            properties=_version(*version), regions=[Region(Block(ops=list(instructions)))]
        )

    @property
    def version(self) -> tuple[int, int]:
        return self.major.value.data, self.minor.value.data

    @property
    def instructions(self) -> Iterator[InstructionOp]:
        """The instructions in order."""
        for operation in self.body.block.ops:
            assert isinstance(operation, InstructionOp)
            yield operation

    def verify_(self) -> None:
        major, minor = self.version
        if major != 1 or not 0 <= minor <= 4:
            raise VerifyException(f"SPIR-V {major}.{minor} is none of 1.0 to 1.4")
        for operation in self.body.block.ops:
            if not isinstance(operation, InstructionOp):
                raise VerifyException(f"{operation.name} inside a spirv.module")
        verify_structure(list(self.instructions))

    @classmethod
    def parse(cls, parser: Parser) -> "ModuleOp":
        parser.parse_keyword("version")
        start = parser.pos
        text = str(parser.parse_number())
        major, _, minor = text.partition(".")
        if not (major.isdigit() and minor.isdigit()):
            parser.raise_error("expected a version such as 1.0", start)
        body = parser.parse_region()
        return cls.build(regions=[body], properties=_version(int(major), int(minor)))

    def print(self, printer: Printer) -> None:
        printer.print_string(f" version {self.version[0]}.{self.version[1]} ")
        with printer.in_braces():
            with printer.indented():
                for operation in self.instructions:
                    _print_line(printer, operation)
            printer.print_string("\n")


def _version(major: int, minor: int) -> dict[str, IntegerAttr]:
    return {"major": IntegerAttr(major, i32), "minor": IntegerAttr(minor, i32)}


def _print_line(printer: Printer, operation: InstructionOp) -> None:
    """An instruction without the dialect's name, as it is read inside a module."""
    printer.print_string("\n")
    for result in operation.results:
        printer.print_ssa_value(result)
        printer.print_string(" = ")
    printer.print_string(operation.row.name)
    operation.print(printer)
