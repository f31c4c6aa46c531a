"""What a module declares by an external name: the base of parameters and states.

In: a name, a tensor type, perhaps an initialiser. Out: an operation with the text form

    mgn.param @"layers.0.w" : tensor<128x64xf32> = normal(0.0, 0.02)
    mgn.state @"layers.0.k" : tensor<128x64xf32> = zeros()

The name is a key of weight files and no symbol of the module: a graph may have the same one. One
key is not free, since safetensors holds notes of its own there.
"""

from abc import ABC
from typing import Self

from xdsl.dialects.builtin import StringAttr, SymbolNameConstraint, SymbolRefAttr, TensorType
from xdsl.irdl import IRDLOperation, opt_prop_def, prop_def, result_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.mgn.initialiser import InitialiserAttr, check_initialiser
from mgn.dialects.shapes import ShapeError
from mgn.dialects.types import check_size

NOTES = "__metadata__"
"""The key of a safetensors file that is no array's."""


class DeclaredOp(IRDLOperation, ABC):
    """Base of `mgn.param` and `mgn.state`. Errors: a tensor that is too large; an initialiser that
    cannot draw its type; the name that weight files do not give to arrays.
    """

    sym_name = prop_def(SymbolNameConstraint(), prop_name="external_name")
    type = prop_def(TensorType)
    initialiser = opt_prop_def(InitialiserAttr)

    def __init__(
        self, name: str, type: TensorType, initialiser: InitialiserAttr | None = None
    ) -> None:
        super().__init__(
            properties={
                "external_name": StringAttr(name),
                "type": type,
                "initialiser": initialiser,
            }
        )

    def verify_(self) -> None:
        if self.sym_name.data == NOTES:
            raise VerifyException(f"{self.name}: weight files keep the name '{NOTES}' for notes")
        try:
            check_size(self.type)
            if self.initialiser is not None:
                check_initialiser(self.initialiser, self.type)
        except ShapeError as error:
            raise VerifyException(f"{self.name}: {error}") from error

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        printer.print_string(" : ")
        printer.print_attribute(self.type)
        if self.initialiser is not None:
            printer.print_string(" = ")
            self.initialiser.print_call(printer)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        name = parser.parse_symbol_name().data
        parser.parse_punctuation(":")
        type = parse_tensor(parser)
        initialiser = None
        if parser.parse_optional_punctuation("="):
            initialiser = InitialiserAttr.parse_call(parser)
        return cls(name, type, initialiser)


class ReadsDeclaredOp(IRDLOperation, ABC):
    """Base of what reads a declared tensor: `%w = mgn.read @"w" : tensor<4xf32>`."""

    symbol = prop_def(SymbolRefAttr)
    result = result_def(TensorType)

    def __init__(self, name: str, type: TensorType) -> None:
        super().__init__(properties={"symbol": SymbolRefAttr(name)}, result_types=[type])

    @property
    def external_name(self) -> str:
        """What is read."""
        return self.symbol.root_reference.data

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.external_name)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        name = parser.parse_symbol_name().data
        parser.parse_punctuation(":")
        return cls(name, parse_tensor(parser))


def parse_tensor(parser: Parser) -> TensorType:
    """A type that has to be a tensor's."""
    type = parser.parse_type()
    if not isinstance(type, TensorType):
        parser.raise_error("expected a tensor type")
    return type
