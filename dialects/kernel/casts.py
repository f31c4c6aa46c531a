"""Casts lane by lane: upstream `arith` casts scalars, and of vectors only floats to floats.

In: a value and an element type. Out: `convert` makes the right operation, `arith` or `kernel.cast`.
"""

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerType, StringAttr, VectorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.kernel.types import verify_vector

SCALAR_CASTS: dict[str, type[IRDLOperation]] = {
    "fptosi": arith.FPToSIOp,
    "fptoui": arith.FPToUIOp,
    "sitofp": arith.SIToFPOp,
    "uitofp": arith.UIToFPOp,
    "trunci": arith.TruncIOp,
    "extsi": arith.ExtSIOp,
    "extui": arith.ExtUIOp,
    "index_cast": arith.IndexCastOp,
}
"""Kind of cast → the upstream operation that does it on scalars only."""

_FROM_FLOAT = ("fptosi", "fptoui")
_TO_FLOAT = ("sitofp", "uitofp")


@irdl_op_definition
class CastOp(IRDLOperation):
    """A numeric cast of each lane: `%y = kernel.cast sitofp %x : vector<4xi32> -> vector<4xf32>`.

    The kinds are those of `arith`. Errors: an unknown kind, differing lane counts, an element type
    that the kind does not take or give.
    """

    name = "kernel.cast"
    kind = prop_def(StringAttr)
    input = operand_def(VectorType)
    result = result_def(VectorType)
    traits = traits_def(Pure())

    def __init__(self, kind: str, value: SSAValue | Operation, result_type: VectorType):
        super().__init__(
            operands=[value],
            properties={"kind": StringAttr(kind)},
            result_types=[result_type],
        )

    def verify_(self) -> None:
        kind, source, target = self.kind.data, self.input.type, self.result.type
        if kind not in SCALAR_CASTS:
            raise VerifyException(f"no cast {kind}; there are {', '.join(SCALAR_CASTS)}")
        verify_vector(source, "the operand")
        verify_vector(target, "the result")
        assert isinstance(source, VectorType)
        if source.get_shape() != target.get_shape():
            raise VerifyException(f"{kind} from {source} to {target} changes the lane count")
        for type, is_float in ((source, kind in _FROM_FLOAT), (target, kind in _TO_FLOAT)):
            if isinstance(type.element_type, IntegerType | IndexType) == is_float:
                raise VerifyException(f"{kind} does not go from {source} to {target}")

    @classmethod
    def parse(cls, parser: Parser) -> "CastOp":
        kind = parser.parse_identifier()
        operand = parser.parse_unresolved_operand()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        source = parser.parse_type()
        parser.parse_punctuation("->")
        target = parser.parse_type()
        if not isinstance(target, VectorType):
            parser.raise_error(f"expected a vector type, not {target}")
        operation = cls(kind, parser.resolve_operand(operand, source), target)
        operation.attributes |= attributes
        return operation

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.kind.data} ")
        printer.print_operand(self.input)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.input.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)


def convert(kind: str, value: SSAValue | Operation, element: Attribute) -> Operation:
    """A cast of a scalar or of each lane to an element type; `extf` and `truncf` too."""
    value = SSAValue.get(value)
    lanes = value.type.get_shape() if isinstance(value.type, VectorType) else None
    target = element if lanes is None else VectorType(element, lanes)
    if kind in ("extf", "truncf"):
        operation = arith.ExtFOp if kind == "extf" else arith.TruncFOp
        return operation.build(operands=[value], result_types=[target])
    if isinstance(target, VectorType):
        return CastOp(kind, value, target)
    return SCALAR_CASTS[kind].build(operands=[value], result_types=[target])
