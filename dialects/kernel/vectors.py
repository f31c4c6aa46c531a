"""Vector operations that upstream `vector` lacks, and a reduction constructor that verifies."""

from collections.abc import Sequence

from xdsl.dialects import vector
from xdsl.dialects.builtin import IndexType, IntegerType, MemRefType, VectorType
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, Pure
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.kernel.types import verify_buffer, verify_vector


@irdl_op_definition
class FromElementsOp(IRDLOperation):
    """A vector of scalars, lane 0 first: `%v = kernel.from_elements %a, %b : vector<2xf32>`.

    Errors: another number of scalars than lanes, a scalar of another type than the lanes.
    """

    name = "kernel.from_elements"
    elements = var_operand_def()
    result = result_def(VectorType)
    traits = traits_def(Pure())

    def __init__(self, elements: Sequence[SSAValue | Operation]):
        values = [SSAValue.get(element) for element in elements]
        super().__init__(
            operands=[values], result_types=[VectorType(values[0].type, [len(values)])]
        )

    def verify_(self) -> None:
        type = self.result.type
        verify_vector(type, "the result")
        if len(self.elements) != type.get_shape()[0]:
            raise VerifyException(f"{len(self.elements)} elements for {type}")
        for element in self.elements:
            if element.type != type.element_type:
                raise VerifyException(f"an element of type {element.type} in {type}")

    @classmethod
    def parse(cls, parser: Parser) -> "FromElementsOp":
        elements = parser.parse_comma_separated_list(
            parser.Delimiter.NONE, parser.parse_unresolved_operand
        )
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type = parser.parse_type()
        if not isinstance(type, VectorType):
            parser.raise_error(f"expected a vector type, not {type}")
        operands = [parser.resolve_operand(element, type.element_type) for element in elements]
        return cls.build(operands=[operands], result_types=[type], attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.elements, printer.print_operand)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)


@irdl_op_definition
class GatherOp(IRDLOperation):
    """Elements of a buffer, each lane at an index of its own.

    ```
    %v = kernel.gather %x[%indices] : memref<4096xf32>, vector<16xi32> -> vector<16xf32>
    ```
    Errors: indices that are not integers or index, differing lane counts or element types.
    """

    name = "kernel.gather"
    base = operand_def(MemRefType)
    indices = operand_def(VectorType)
    result = result_def(VectorType)
    traits = traits_def(MemoryReadEffect())
    assembly_format = (
        "$base `[` $indices `]` attr-dict `:` type($base) `,` type($indices) `->` type($result)"
    )

    def __init__(self, base: SSAValue | Operation, indices: SSAValue | Operation):
        base, indices = SSAValue.get(base), SSAValue.get(indices)
        assert isinstance(base.type, MemRefType) and isinstance(indices.type, VectorType)
        super().__init__(
            operands=[base, indices],
            result_types=[VectorType(base.type.element_type, indices.type.get_shape())],
        )

    def verify_(self) -> None:
        base, indices, result = self.base.type, self.indices.type, self.result.type
        assert isinstance(base, MemRefType) and isinstance(indices, VectorType)
        verify_buffer(base, "the buffer")
        verify_vector(result, "the result")
        if not isinstance(indices.element_type, IndexType | IntegerType):
            raise VerifyException(f"indices must be integers, not {indices.element_type}")
        if indices.get_shape() != result.get_shape():
            raise VerifyException(f"{indices} indexes {result}")
        if base.element_type != result.element_type:
            raise VerifyException(f"{result} is gathered from {base}")


def reduction(
    kind: vector.CombiningKindFlag | str,
    value: SSAValue | Operation,
    acc: SSAValue | Operation | None = None,
) -> vector.ReductionOp:
    """`vector.reduction` of a vector to a scalar of its element type."""
    value = SSAValue.get(value)
    assert isinstance(value.type, VectorType)
    flag = vector.CombiningKindFlag(kind)
    return vector.ReductionOp.build(
        operands=[value, acc],
        result_types=[value.type.element_type],
        properties={"kind": vector.CombiningKindAttr(flag)},
    )
