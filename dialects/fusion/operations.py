"""The operations of the `fusion` dialect: a kernel, the end of its body, and its launch.

In: the kind, the inputs and the body of a kernel. Out: operations, whose form `forms.py` checks.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from xdsl.dialects.builtin import (
    DictionaryAttr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Block, Dialect, ParametrizedAttribute, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    opt_prop_def,
    param_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.fusion.forms import KernelBody, verify_form
from mgn.dialects.isolation import Isolated
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.mgn.structure import ConstantOp, HoldsProgram


class KernelKind(StrEnum):
    """Which template writes a kernel's loops."""

    __hash__ = str.__hash__

    POINTWISE = "pointwise"
    REDUCTION = "reduction"
    SCAN = "scan"
    CONTRACTION = "contraction"
    ATTENTION = "attention"
    ATTENTION_GRADIENT = "attention_gradient"
    GATHER = "gather"
    SCATTER = "scatter"
    UPDATE = "update"
    ORDER = "order"
    RECURRENCE = "recurrence"
    ROW_BLOCKS = "row_blocks"


@irdl_attr_definition
class ScheduleAttr(ParametrizedAttribute):
    """The parameters of a template: `#fusion.schedule<{variant = "tiles", slices = 8 : i64}>`."""

    name = "fusion.schedule"
    entries: DictionaryAttr = param_def()

    @staticmethod
    def of(**entries: int | str) -> "ScheduleAttr":
        """A schedule from plain numbers and words."""
        return ScheduleAttr(
            DictionaryAttr(
                {
                    name: IntegerAttr(value, i64) if isinstance(value, int) else StringAttr(value)
                    for name, value in entries.items()
                }
            )
        )

    @property
    def values(self) -> Mapping[str, Any]:
        """The entries as plain numbers and words."""
        return {
            name: item.value.data if isinstance(item, IntegerAttr) else item.data  # pyright: ignore
            for name, item in self.entries.data.items()
        }


@irdl_op_definition
class FusionReturnOp(IRDLOperation):
    """Ends a kernel's body with the values it writes: `fusion.return %1 : tensor<4x8xf32>`."""

    name = "fusion.return"
    values = var_operand_def(TensorType)
    traits = traits_def(IsTerminator())
    assembly_format = "attr-dict ($values^ `:` type($values))?"

    def __init__(self, values: Sequence[SSAValue]) -> None:
        super().__init__(operands=[list(values)])

    def verify_(self) -> None:
        if not isinstance(self.parent_op(), FusedKernelOp):
            raise VerifyException("fusion.return: must end a fusion.kernel")


@irdl_op_definition
class FusedKernelOp(IRDLOperation, HoldsProgram):
    """One device kernel: reads its inputs from memory, computes its body, writes its results to
    memory.

    `arranged` has facts for its schedule: the layout of its operands (`right = "panels"`,
    `rounded = 1`), the input type of a matrix unit (`matrix = "tf32"`), and that the maxima of rows
    only stabilise exponentials (`maximum = "stabilises"`). By `combined = "in place"` a scatter
    combines integers where what was there before lies. A kernel that names no unit does without.
    The verifier checks what is said of panels, of the unit, of maxima and of scatters.
    """

    name = "fusion.kernel"
    inputs = var_operand_def(TensorType)
    outputs = var_result_def(TensorType)
    kind = prop_def(StringAttr)
    arranged = opt_prop_def(ScheduleAttr)
    schedule = opt_prop_def(ScheduleAttr)
    body = region_def("single_block")
    traits = traits_def(Pure(), Isolated())

    def __init__(
        self,
        kind: KernelKind | str,
        inputs: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        body: Region,
        schedule: ScheduleAttr | None = None,
        arranged: ScheduleAttr | None = None,
    ) -> None:
        properties = {"kind": StringAttr(str(kind)), "schedule": schedule, "arranged": arranged}
        super().__init__(
            operands=[list(inputs)],
            result_types=[list(result_types)],
            properties=properties,
            regions=[body],
        )

    @property
    def block(self) -> Block:
        return self.body.block

    @property
    def kernel_kind(self) -> KernelKind:
        return KernelKind(self.kind.data)

    @property
    def written(self) -> Sequence[SSAValue]:
        """The values of the body that become the results."""
        last = self.block.last_op
        if not isinstance(last, FusionReturnOp):
            raise VerifyException("fusion.kernel: body must end in fusion.return")
        return last.operands

    def verify_(self) -> None:
        if self.kind.data not in set(KernelKind):
            raise VerifyException(f"fusion.kernel: unknown kind '{self.kind.data}'")
        if [value.type for value in self.inputs] != [value.type for value in self.block.args]:
            raise VerifyException("fusion.kernel: inputs and body arguments differ in type")
        if [value.type for value in self.written] != [value.type for value in self.outputs]:
            raise VerifyException("fusion.kernel: results and returned values differ in type")
        if not self.outputs:
            raise VerifyException("fusion.kernel: must write something")
        for op in self.block.ops:
            if not isinstance(op, TensorOp | ConstantOp | FusionReturnOp):
                raise VerifyException(f"fusion.kernel: {op.name} cannot be part of a kernel")
        operations = [op for op in self.block.ops if isinstance(op, TensorOp)]
        arranged, schedule = (
            {} if item is None else item.entries.data for item in (self.arranged, self.schedule)
        )
        verify_form(KernelBody(self.kind.data, operations, self.written, arranged, schedule))

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.kind.data} (")
        printer.print_list(
            list(zip(self.block.args, self.inputs, strict=True)),
            lambda pair: _print_binding(printer, *pair),
        )
        printer.print_string(") -> (")
        printer.print_list([value.type for value in self.outputs], printer.print_attribute)
        printer.print_string(") ")
        for word, entries in (("arranged", self.arranged), ("schedule", self.schedule)):
            if entries is not None:
                printer.print_string(f"{word} ")
                printer.print_attribute(entries.entries)
                printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)

    @classmethod
    def parse(cls, parser: Parser) -> "FusedKernelOp":
        kind = parser.parse_identifier("a kernel kind")

        def parse_binding() -> tuple[Any, Any, Any]:
            argument = parser.parse_argument(expect_type=False)
            parser.parse_punctuation("=")
            operand = parser.parse_unresolved_operand()
            parser.parse_punctuation(":")
            return operand, argument, parser.parse_type()

        bindings = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_binding)
        parser.parse_punctuation("->")
        types = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        arranged = _parse_entries(parser, "arranged")
        schedule = _parse_entries(parser, "schedule")
        operands = [parser.resolve_operand(operand, type) for operand, _, type in bindings]
        body = parser.parse_region([argument.resolve(type) for _, argument, type in bindings])
        return cls(kind, operands, types, body, schedule, arranged)


@irdl_op_definition
class LaunchOp(IRDLOperation):
    """A lowered kernel applied to tensors: `%y = fusion.launch @kernel_0(%x) : (tensor<4xf32>) ->
    tensor<4xf32>`.
    """

    name = "fusion.launch"
    kernel = prop_def(SymbolRefAttr)
    inputs = var_operand_def(TensorType)
    outputs = var_result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$kernel `(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs)"

    def __init__(
        self, kernel: str, inputs: Sequence[SSAValue], result_types: Sequence[Attribute]
    ) -> None:
        super().__init__(
            operands=[list(inputs)],
            result_types=[list(result_types)],
            properties={"kernel": SymbolRefAttr(kernel)},
        )

    @property
    def kernel_name(self) -> str:
        return self.kernel.root_reference.data


def _parse_entries(parser: Parser, word: str) -> ScheduleAttr | None:
    """The entries after an optional word."""
    if not parser.parse_optional_keyword(word):
        return None
    entries = parser.parse_attribute()
    if not isinstance(entries, DictionaryAttr):
        parser.raise_error(f"what follows '{word}' is a dictionary")
    return ScheduleAttr(entries)


def _print_binding(printer: Printer, argument: SSAValue, operand: SSAValue) -> None:
    printer.print_ssa_value(argument)
    printer.print_string(" = ")
    printer.print_ssa_value(operand)
    printer.print_string(" : ")
    printer.print_attribute(operand.type)


Fusion = Dialect("fusion", [FusedKernelOp, FusionReturnOp, LaunchOp], [ScheduleAttr])
