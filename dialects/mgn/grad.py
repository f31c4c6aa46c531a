"""Gradients as the language asks for them: an operation that names a scalar and what it depends on.

%g, %h = mgn.grad %loss of %x, %w : tensor<f32>, tensor<4x8xf32>, tensor<8xf32>

A result is the derivative of the scalar by one of the values behind `of`, with its type: what the
operations between the two make of it. All reads of one parameter, and all reads of a state between
two writes, are one value. What the scalar does not depend on has a gradient of zeros.

The operation means what its block says, so it is the first to be replaced: by `differentiate`, with
the operations that compute its results.
"""

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.shapes import ShapeError
from mgn.dialects.types import element_of, spelling

EXPANDERS: list[Callable[[Block], bool]] = []
"""What replaces the gradients of a block; `dialects/mgn/gradients/reverse.py` enters itself."""


@irdl_op_definition
class GradOp(IRDLOperation):
    """The gradient of a float scalar: `%g = mgn.grad %loss of %x : tensor<f32>, tensor<4xf32>`."""

    name = "mgn.grad"
    of = operand_def(TensorType)
    values = var_operand_def(TensorType)
    outputs = var_result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(self, of: SSAValue, values: Sequence[SSAValue]) -> None:
        super().__init__(
            operands=[of, list(values)], result_types=[[value.type for value in values]]
        )

    def verify_(self) -> None:
        try:
            check_grad(self.of, self.values)
        except ShapeError as error:
            raise VerifyException(f"mgn.{error}") from error
        if [item.type for item in self.outputs] != [item.type for item in self.values]:
            raise VerifyException("mgn.grad: a gradient has the type of its value")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.of)
        printer.print_string(" of ")
        printer.print_list(self.values, printer.print_ssa_value)
        printer.print_string(" : ")
        printer.print_list([value.type for value in self.operands], printer.print_attribute)

    @classmethod
    def parse(cls, parser: Parser) -> "GradOp":
        of = parser.parse_unresolved_operand()
        parser.parse_keyword("of")
        values = [parser.parse_unresolved_operand()]
        while parser.parse_optional_punctuation(",") is not None:
            values.append(parser.parse_unresolved_operand())
        parser.parse_punctuation(":")
        types = [parser.parse_type()]
        while parser.parse_optional_punctuation(",") is not None:
            types.append(parser.parse_type())
        found = parser.resolve_operands([of, *values], types, parser.pos)
        return cls(found[0], found[1:])


def check_grad(of: SSAValue, values: Sequence[SSAValue]) -> None:
    """ShapeError where a value is no scalar to be differentiated, or none to do so by."""
    if not values:
        raise ShapeError("grad: names a value or more")
    scalar = of.type
    if not isinstance(scalar, TensorType) or scalar.get_shape():
        raise ShapeError(f"grad: differentiates a scalar, not {spelling(scalar)}; sum or mean it")
    if not element_of(scalar).is_float:
        raise ShapeError(f"grad: differentiates floats, not {element_of(scalar).name}")
    for value in values:
        if not element_of(value.type).is_float:
            raise ShapeError(f"grad: {element_of(value.type).name} values have no gradient")


def grads_of(graph: Operation) -> list[GradOp]:
    """The gradients that a graph asks for, in order."""
    return [op for op in graph.walk() if isinstance(op, GradOp)]
