"""What the host's program does, in order: kernels that run, copies, and the results it names.

In: buffers (see `buffers.py`). Out: operations without results.

    plan.prepare @kernel_1(%w, %d)
    plan.launch @kernel_3(%x, %d, %y)
    plan.copy %x to %t
    plan.output "logits" %y tensor<32x16xf32>
"""

from abc import ABC
from collections.abc import Sequence
from typing import Self, cast

from xdsl.dialects.builtin import MemRefType, StringAttr, SymbolRefAttr, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import HasParent
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.kernel.buffers import buffer_type
from mgn.dialects.plan.buffers import ArenaProgram


def parse_defined(parser: Parser) -> SSAValue:
    """A buffer by its name alone; it must stand above, so its type need not be written again."""
    operand = parser.parse_unresolved_operand()
    values = parser.ssa_values.get(operand.operand_name)
    if values is None or operand.index >= len(values):
        parser.raise_error("a buffer must be defined above its use", operand.span)
    return values[operand.index]


class StageHolder(IRDLOperation, ABC):
    """Base of `plan.resident`, in which launches stand too."""

    name = "plan.resident"


class KernelCallOp(IRDLOperation, ABC):
    """Base of the operations that run a kernel on all of its arguments, in their order."""

    kernel = prop_def(SymbolRefAttr)
    arguments = var_operand_def(MemRefType)
    traits = traits_def(HasParent(ArenaProgram, StageHolder))

    def __init__(self, kernel: str, arguments: Sequence[SSAValue]) -> None:
        super().__init__(
            operands=[list(arguments)],
            properties={"kernel": SymbolRefAttr(kernel)},
        )

    @property
    def kernel_name(self) -> str:
        """The launched `kernel.func`'s symbol."""
        return self.kernel.root_reference.data

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.kernel_name)
        with printer.in_parens():
            printer.print_list(self.arguments, printer.print_ssa_value)
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        kernel = parser.parse_symbol_name().data
        arguments = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parse_defined(parser)
        )
        op = cls(kernel, arguments)
        op.attributes.update(parser.parse_optional_attr_dict())
        return op


@irdl_op_definition
class LaunchOp(KernelCallOp):
    """Runs a kernel in every run: `plan.launch @k(%x, %w, %y)`."""

    name = "plan.launch"


@irdl_op_definition
class PrepareOp(KernelCallOp):
    """Runs a kernel when parameters have changed: `plan.prepare @k(%w, %d)`.

    It reads parameters, constants and what was prepared before it; it writes derived buffers, each
    of which is written once. All stand before the launches, as they run.
    """

    name = "plan.prepare"


@irdl_op_definition
class CopyOp(IRDLOperation):
    """Copies a buffer into a view of the arena: `plan.copy %x to %t`."""

    name = "plan.copy"
    source = operand_def(MemRefType)
    target = operand_def(MemRefType)
    traits = traits_def(HasParent(ArenaProgram))

    def __init__(self, source: SSAValue, target: SSAValue) -> None:
        super().__init__(operands=[source, target])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        printer.print_string(" to ")
        printer.print_ssa_value(self.target)
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> "CopyOp":
        source = parse_defined(parser)
        parser.parse_keyword("to")
        op = cls(source, parse_defined(parser))
        op.attributes.update(parser.parse_optional_attr_dict())
        return op

    def verify_(self) -> None:
        if self.source.type != self.target.type:
            raise VerifyException("plan.copy: source and target differ in type")


@irdl_op_definition
class OutputOp(IRDLOperation):
    """Names a result of the graph: `plan.output "logits" %t tensor<32x32xf32>`."""

    name = "plan.output"
    label = prop_def(StringAttr)
    tensor = prop_def(TensorType)
    source = operand_def(MemRefType)
    traits = traits_def(HasParent(ArenaProgram))

    def __init__(self, label: str, source: SSAValue, tensor: TensorType[Attribute]) -> None:
        super().__init__(
            operands=[source], properties={"label": StringAttr(label), "tensor": tensor}
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.label.data)
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        printer.print_string(" ")
        printer.print_attribute(self.tensor)
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> "OutputOp":
        label = parser.parse_str_literal()
        source = parse_defined(parser)
        tensor = parser.parse_type()
        if not isinstance(tensor, TensorType):
            parser.raise_error("an output's type must be a tensor")
        op = cls(label, source, cast(TensorType[Attribute], tensor))
        op.attributes.update(parser.parse_optional_attr_dict())
        return op

    def verify_(self) -> None:
        expected = buffer_type(self.tensor)
        if self.source.type != expected:
            raise VerifyException(f"plan.output: {self.tensor} lies in {expected}")
