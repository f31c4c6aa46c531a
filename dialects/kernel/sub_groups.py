"""Operations of a sub-group: work-items that run together and can exchange registers."""

from typing import ClassVar

from xdsl.dialects.builtin import (
    Float32Type,
    IndexType,
    IntegerType,
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
from xdsl.traits import NoMemoryEffect, Pure
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.kernel.function import verify_converged
from mgn.dialects.kernel.types import Combine, CombineAttr


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


def _verify_exchanged(type: Attribute) -> None:
    """Hardware exchanges 32-bit and 64-bit registers of floats and integers."""
    floats = isinstance(type, Float32Type) or str(type) == "f64"
    integers = isinstance(type, IntegerType) and type.width.data in (32, 64)
    if not (floats or integers):
        raise VerifyException(f"a sub-group exchanges f32, f64, i32 and i64, not {type}")
