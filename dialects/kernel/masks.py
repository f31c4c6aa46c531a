"""Comparison and selection lane by lane: upstream `arith` compares and selects scalars only.

In: two vectors, or a vector of i1 and two vectors. Out: a vector of i1, or the chosen lanes.
`compare_floats`, `compare_integers` and `select` make the right operation for scalars and vectors.
"""

from typing import ClassVar

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerType, StringAttr, VectorType, i1
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    VarConstraint,
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

INTEGER_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
"""Predicates of integer comparison, in MLIR's numbering."""

FLOAT_PREDICATES = (
    *("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord"),
    *("ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
)
"""Predicates of float comparison, in MLIR's numbering; `u…` holds where one side is a NaN."""


class _CompareOp(IRDLOperation):
    """A comparison of each lane; the mask is a vector of i1."""

    T: ClassVar = VarConstraint("T", AnyAttr())
    PREDICATES: ClassVar[tuple[str, ...]]

    predicate = prop_def(StringAttr)
    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(VectorType)

    def __init__(self, predicate: str, lhs: SSAValue | Operation, rhs: SSAValue | Operation):
        lhs = SSAValue.get(lhs)
        assert isinstance(lhs.type, VectorType)
        super().__init__(
            operands=[lhs, rhs],
            properties={"predicate": StringAttr(predicate)},
            result_types=[VectorType(i1, lhs.type.get_shape())],
        )

    def verify_(self) -> None:
        if self.predicate.data not in self.PREDICATES:
            known = ", ".join(self.PREDICATES)
            raise VerifyException(f"no predicate {self.predicate.data}; there are {known}")
        type = self.lhs.type
        verify_vector(type, "the operand")
        if not isinstance(type, VectorType):
            raise VerifyException(f"{self.name} compares vectors, not {type}")
        integers = isinstance(type.element_type, IntegerType | IndexType)
        if integers != (self.PREDICATES is INTEGER_PREDICATES):
            raise VerifyException(f"{self.name} does not compare {type.element_type}")
        if self.result.type != VectorType(i1, type.get_shape()):
            raise VerifyException(f"comparing {type} does not give {self.result.type}")

    @classmethod
    def parse(cls, parser: Parser) -> "_CompareOp":
        predicate = parser.parse_identifier()
        parser.parse_punctuation(",")
        lhs = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        rhs = parser.parse_unresolved_operand()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type = parser.parse_type()
        if not isinstance(type, VectorType):
            parser.raise_error(f"expected a vector type, not {type}")
        operands = [parser.resolve_operand(operand, type) for operand in (lhs, rhs)]
        operation = cls(predicate, *operands)
        operation.attributes |= attributes
        return operation

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.predicate.data}, ")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.lhs.type)


@irdl_op_definition
class CompareIntegersOp(_CompareOp):
    """Integer comparison of each lane: `%m = kernel.cmpi slt, %a, %b : vector<4xi32>`."""

    name = "kernel.cmpi"
    PREDICATES: ClassVar[tuple[str, ...]] = INTEGER_PREDICATES
    traits = traits_def(Pure())


@irdl_op_definition
class CompareFloatsOp(_CompareOp):
    """Float comparison of each lane: `%m = kernel.cmpf oge, %a, %b : vector<4xf32>`."""

    name = "kernel.cmpf"
    PREDICATES: ClassVar[tuple[str, ...]] = FLOAT_PREDICATES
    traits = traits_def(Pure())


@irdl_op_definition
class SelectOp(IRDLOperation):
    """Each lane of one vector or the other: `%v = kernel.select %m, %a, %b : vector<4xf32>`.

    Error: a mask of another lane count.
    """

    name = "kernel.select"
    T: ClassVar = VarConstraint("T", AnyAttr())
    cond = operand_def(VectorType)
    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(T)
    traits = traits_def(Pure())

    def __init__(
        self,
        cond: SSAValue | Operation,
        lhs: SSAValue | Operation,
        rhs: SSAValue | Operation,
    ):
        lhs = SSAValue.get(lhs)
        super().__init__(operands=[cond, lhs, rhs], result_types=[lhs.type])

    def verify_(self) -> None:
        type = self.result.type
        verify_vector(type, "the result")
        if not isinstance(type, VectorType):
            raise VerifyException(f"kernel.select chooses lanes of vectors, not of {type}")
        if self.cond.type != VectorType(i1, type.get_shape()):
            raise VerifyException(f"{self.cond.type} selects lanes of {type}")

    @classmethod
    def parse(cls, parser: Parser) -> "SelectOp":
        operands = parser.parse_comma_separated_list(
            parser.Delimiter.NONE, parser.parse_unresolved_operand
        )
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        start = parser.pos
        type = parser.parse_type()
        if not isinstance(type, VectorType) or len(operands) != 3:
            parser.raise_error("expected three operands and a vector type", start)
        types = [VectorType(i1, type.get_shape()), type, type]
        operation = cls(*parser.resolve_operands(operands, types, start))
        operation.attributes |= attributes
        return operation

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)


def compare_integers(
    predicate: str, lhs: SSAValue | Operation, rhs: SSAValue | Operation
) -> arith.CmpiOp | CompareIntegersOp:
    """`arith.cmpi` of scalars, `kernel.cmpi` of vectors."""
    if isinstance(SSAValue.get(lhs).type, VectorType):
        return CompareIntegersOp(predicate, lhs, rhs)
    return arith.CmpiOp(lhs, rhs, predicate)


def compare_floats(
    predicate: str, lhs: SSAValue | Operation, rhs: SSAValue | Operation
) -> arith.CmpfOp | CompareFloatsOp:
    """`arith.cmpf` of scalars, `kernel.cmpf` of vectors."""
    if isinstance(SSAValue.get(lhs).type, VectorType):
        return CompareFloatsOp(predicate, lhs, rhs)
    return arith.CmpfOp(lhs, rhs, predicate)


def select(
    cond: SSAValue | Operation, lhs: SSAValue | Operation, rhs: SSAValue | Operation
) -> arith.SelectOp | SelectOp:
    """`arith.select` on a scalar condition, `kernel.select` on a vector of conditions."""
    if isinstance(SSAValue.get(cond).type, VectorType):
        return SelectOp(cond, lhs, rhs)
    return arith.SelectOp(cond, lhs, rhs)
