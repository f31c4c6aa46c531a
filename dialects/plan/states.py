"""The buffers of states: tensors that outlive a run, which finds them and may leave others.

In: the states of a graph. Out: operations whose results launches read, and copies and launches
write.

    %k = plan.state @"layers.0.k" tensor<8x16xf32> : memref<128xf32>
    %k1 = plan.next %k : memref<128xf32>

Both are one place in memory. `%k` is what the run finds there, `%k1` what it leaves: from the step
on that writes `%k1`, nothing reads `%k`.
"""

from typing import cast

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import HasParent
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.plan.buffers import ArenaProgram, NamedOp
from mgn.dialects.plan.steps import parse_defined


@irdl_op_definition
class StateOp(NamedOp):
    """What a run finds in a state: `%k = plan.state @"k" tensor<4xf32> : memref<4xf32>`."""

    name = "plan.state"


@irdl_op_definition
class NextOp(IRDLOperation):
    """What a run leaves in a state: `%k1 = plan.next %k : memref<4xf32>`.

    Every run writes it whole. A state has one at most.
    """

    name = "plan.next"
    state = operand_def(MemRefType)
    result = result_def(MemRefType)
    traits = traits_def(HasParent(ArenaProgram))

    def __init__(self, state: SSAValue) -> None:
        super().__init__(operands=[state], result_types=[state.type])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.state)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> "NextOp":
        op = cls(parse_defined(parser))
        parser.parse_punctuation(":")
        if parser.parse_type() != op.result.type:
            parser.raise_error("a state keeps its type")
        op.attributes.update(parser.parse_optional_attr_dict())
        return op

    @property
    def holder(self) -> StateOp:
        """The state."""
        return cast(StateOp, self.state.owner)

    def verify_(self) -> None:
        if not isinstance(self.state.owner, StateOp):
            raise VerifyException("plan.next: only a state has a next value")
