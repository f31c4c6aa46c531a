"""States: tensors that live on the device from one run to the next, read and written in order.

mgn.state @"steps" : tensor<i32> = zeros()
mgn.graph @count() -> ("before" : tensor<i32>) {
  %before = mgn.read_state @"steps" : tensor<i32>
  %one = mgn.constant dense<1> : tensor<i32>
  %after = mgn.add(%before, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
  mgn.write_state @"steps", %after : tensor<i32>
  mgn.return %before : tensor<i32>
}

A read gives what the last write before it wrote, or what the run found. The effects of both
operations keep every pass from moving, joining or dropping them. `thread-states` then turns the
graph into one without effects: what a state holds is an argument of it, what is written a result.
"""

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.mgn.declared import DeclaredOp, ReadsDeclaredOp, parse_tensor
from mgn.dialects.types import Family, element_of


@irdl_op_definition
class StateOp(DeclaredOp):
    """A tensor that outlives a run, known by its external name: `mgn.state @"k" : tensor<4xf32>`.

    Without an initialiser it begins with zeros. Errors: a block format, which nothing can write.
    """

    name = "mgn.state"

    def verify_(self) -> None:
        super().verify_()
        if element_of(self.type).family is Family.BLOCK:
            raise VerifyException("mgn.state: a state cannot have a block format")


@irdl_op_definition
class ReadStateOp(ReadsDeclaredOp):
    """What a state holds here: `%k = mgn.read_state @"k" : tensor<4xf32>`."""

    name = "mgn.read_state"
    traits = traits_def(MemoryReadEffect())

    @property
    def state_name(self) -> str:
        """The external name of the state."""
        return self.external_name


@irdl_op_definition
class WriteStateOp(IRDLOperation):
    """Gives a state another value: `mgn.write_state @"k", %v : tensor<4xf32>`."""

    name = "mgn.write_state"
    symbol = prop_def(SymbolRefAttr)
    value = operand_def(TensorType)
    traits = traits_def(MemoryWriteEffect())

    def __init__(self, name: str, value: SSAValue) -> None:
        super().__init__(operands=[value], properties={"symbol": SymbolRefAttr(name)})

    @property
    def state_name(self) -> str:
        """The external name of the state."""
        return self.symbol.root_reference.data

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.state_name)
        printer.print_string(", ")
        printer.print_ssa_value(self.value)
        printer.print_string(" : ")
        printer.print_attribute(self.value.type)

    @classmethod
    def parse(cls, parser: Parser) -> "WriteStateOp":
        name = parser.parse_symbol_name().data
        parser.parse_punctuation(",")
        operand = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        return cls(name, parser.resolve_operand(operand, parse_tensor(parser)))


def states_of(module: ModuleOp) -> dict[str, StateOp]:
    """The states of a module by external name, in order."""
    return {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, StateOp)}


def state_accesses(graph: Operation) -> Iterator[tuple[str, TensorType]]:
    """The name and the type of each read and each write of a state in a graph, in order."""
    for op in graph.walk():
        if isinstance(op, ReadStateOp):
            yield op.state_name, op.result.type
        elif isinstance(op, WriteStateOp):
            assert isinstance(op.value.type, TensorType)
            yield op.state_name, op.value.type
