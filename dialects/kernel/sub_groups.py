"""Operations of a sub-group: work-items that run together and can exchange registers."""

from typing import ClassVar

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    IndexType,
    IntegerType,
    StringAttr,
    VectorType,
    f32,
)
from xdsl.ir import Attribute, Operation, SSAValue
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
from xdsl.traits import NoMemoryEffect, Pure
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.kernel.function import verify_converged
from mgn.dialects.kernel.types import Combine, CombineAttr

MMA_SHAPES: dict[str, tuple[Attribute, int, int, int]] = {
    "m16n8k16_bf16": (BFloat16Type(), 8, 4, 4),
    "m16n8k16_f16": (Float16Type(), 8, 4, 4),
    "m16n8k8_tf32": (Float32Type(), 4, 2, 4),
}
"""Matrix instruction → element type of a and b, then the lanes of a, b and the accumulator that
each of the 32 work-items holds. Accumulators are f32."""


class _PlaceInSubGroup(IRDLOperation):
    """A figure of the sub-group, of type index."""

    result = result_def(IndexType)
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__(result_types=[IndexType()])


@irdl_op_definition
class SubGroupSizeOp(_PlaceInSubGroup):
    """How many work-items the sub-group has: `%n = kernel.sub_group_size`."""

    name = "kernel.sub_group_size"
    traits = traits_def(Pure())


@irdl_op_definition
class SubGroupIdOp(_PlaceInSubGroup):
    """The sub-group's number in its work-group: `%n = kernel.sub_group_id`."""

    name = "kernel.sub_group_id"
    traits = traits_def(Pure())


@irdl_op_definition
class SubGroupLaneOp(_PlaceInSubGroup):
    """The work-item's number in its sub-group: `%n = kernel.sub_group_lane`."""

    name = "kernel.sub_group_lane"
    traits = traits_def(Pure())


@irdl_op_definition
class SubGroupReduceOp(IRDLOperation):
    """The combination of all work-items' values, in every one.

    Example: `%y = kernel.sub_group_reduce add %x : f32`.
    Errors: a type other than f32, f64, i32, i64; a place inside a branch.
    """

    name = "kernel.sub_group_reduce"
    T: ClassVar = VarConstraint("T", AnyAttr())
    kind = prop_def(CombineAttr)
    value = operand_def(T)
    result = result_def(T)
    traits = traits_def(NoMemoryEffect())
    assembly_format = "$kind $value attr-dict `:` type($value)"

    def __init__(self, kind: Combine | str, value: SSAValue | Operation):
        value = SSAValue.get(value)
        super().__init__(
            operands=[value],
            properties={"kind": CombineAttr(Combine(kind))},
            result_types=[value.type],
        )

    def verify_(self) -> None:
        _verify_exchanged(self.value.type)
        verify_converged(self)


class _ExchangeOp(IRDLOperation):
    """The value that the work-item in `lane` holds."""

    T: ClassVar = VarConstraint("T", AnyAttr())
    value = operand_def(T)
    lane = operand_def(IndexType)
    result = result_def(T)
    assembly_format = "$value `,` $lane attr-dict `:` type($value)"

    def __init__(self, value: SSAValue | Operation, lane: SSAValue | Operation):
        value = SSAValue.get(value)
        super().__init__(operands=[value, lane], result_types=[value.type])

    def verify_(self) -> None:
        _verify_exchanged(self.value.type)
        verify_converged(self)


@irdl_op_definition
class SubGroupShuffleOp(_ExchangeOp):
    """A value from any work-item of the sub-group: `kernel.sub_group_shuffle %x, %lane : f32`."""

    name = "kernel.sub_group_shuffle"
    traits = traits_def(NoMemoryEffect())


@irdl_op_definition
class SubGroupBroadcastOp(_ExchangeOp):
    """One work-item's value in all; the lane is the same in all.

    Example: `%y = kernel.sub_group_broadcast %x, %lane : f32`.
    """

    name = "kernel.sub_group_broadcast"
    traits = traits_def(NoMemoryEffect())


@irdl_op_definition
class MmaOp(IRDLOperation):
    """A sub-group of 32 multiplies two small matrices and adds.

    The fragment layouts are those of PTX `mma.sync`.
    ```
    %d = kernel.mma m16n8k16_bf16 %a, %b, %c : vector<8xbf16>, vector<4xbf16>, vector<4xf32>
    ```
    Errors: an unknown shape, fragments of another type or length, a place inside a branch.
    """

    name = "kernel.mma"
    C: ClassVar = VarConstraint("C", AnyAttr())
    shape = prop_def(StringAttr)
    a = operand_def(VectorType)
    b = operand_def(VectorType)
    acc = operand_def(C)
    result = result_def(C)
    traits = traits_def(NoMemoryEffect())

    def __init__(
        self,
        shape: str,
        a: SSAValue | Operation,
        b: SSAValue | Operation,
        acc: SSAValue | Operation,
    ):
        acc = SSAValue.get(acc)
        super().__init__(
            operands=[a, b, acc],
            properties={"shape": StringAttr(shape)},
            result_types=[acc.type],
        )

    def verify_(self) -> None:
        if self.shape.data not in MMA_SHAPES:
            known = ", ".join(MMA_SHAPES)
            raise VerifyException(f"no matrix instruction {self.shape.data}; there are {known}")
        element, *lanes = MMA_SHAPES[self.shape.data]
        expected = [
            VectorType(type, [n]) for type, n in zip((element, element, f32), lanes, strict=True)
        ]
        for what, value, type in zip("abc", (self.a, self.b, self.acc), expected, strict=True):
            if value.type != type:
                raise VerifyException(f"{self.shape.data} takes {type} as {what}, not {value.type}")
        verify_converged(self)

    @classmethod
    def parse(cls, parser: Parser) -> "MmaOp":
        shape = parser.parse_identifier()
        operands = parser.parse_comma_separated_list(
            parser.Delimiter.NONE, parser.parse_unresolved_operand
        )
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        start = parser.pos
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        operation = cls(shape, *parser.resolve_operands(operands, types, start))
        operation.attributes |= attributes
        return operation

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.shape.data} ")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_list(self.operands, lambda value: printer.print_attribute(value.type))


def _verify_exchanged(type: Attribute) -> None:
    """Hardware exchanges 32-bit and 64-bit registers of floats and integers."""
    floats = isinstance(type, Float32Type) or str(type) == "f64"
    integers = isinstance(type, IntegerType) and type.width.data in (32, 64)
    if not (floats or integers):
        raise VerifyException(f"a sub-group exchanges f32, f64, i32 and i64, not {type}")
