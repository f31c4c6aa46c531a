"""Operations that count in local memory: how often work-items name a cell."""

from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.kernel.function import verify_converged
from mgn.dialects.kernel.types import Space, space_of, verify_buffer

MOST_BITS = 16
"""The most bits that cells of a sub-group differ in."""


def _verify_counts(name: str, type: Attribute) -> None:
    verify_buffer(type, name)
    assert isinstance(type, MemRefType)
    if space_of(type) is not Space.LOCAL or type.element_type != i32:
        raise VerifyException(f"{name} counts in local i32, not {type}")


@irdl_op_definition
class CountOp(IRDLOperation):
    """Adds 1 to a cell of local memory, whoever else does so at the same time.

    Example: `kernel.count %m[%i] : memref<256xi32, #kernel.space<local>>`.
    Error: memory other than i32 of the local space.
    """

    name = "kernel.count"
    memref = operand_def(MemRefType)
    index = operand_def(IndexType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$memref `[` $index `]` attr-dict `:` type($memref)"

    def __init__(self, memref: SSAValue | Operation, index: SSAValue | Operation):
        super().__init__(operands=[memref, index])

    def verify_(self) -> None:
        _verify_counts(self.name, self.memref.type)


@irdl_op_definition
class CountInOrderOp(IRDLOperation):
    """The work-items of a sub-group of 32 take the number in a cell of local memory and add 1 to
    it, one after the other in their order: so those that name one cell get neighbouring numbers.

    Example: `%n = kernel.count_in_order %m[%i] bits 8 : memref<2048xi32, #kernel.space<local>>`.
    The cells of a sub-group differ in their lowest `bits` bits alone, and no other sub-group
    touches them between barriers. Errors: memory other than i32 of the local space, bits outside of
    1 to 16, a place inside a branch.
    """

    name = "kernel.count_in_order"
    memref = operand_def(MemRefType)
    index = operand_def(IndexType)
    bits = prop_def(IntegerAttr.constr(i64))
    result = result_def(i32)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$memref `[` $index `]` `bits` $bits attr-dict `:` type($memref)"

    def __init__(self, memref: SSAValue | Operation, index: SSAValue | Operation, bits: int):
        super().__init__(
            operands=[memref, index],
            properties={"bits": IntegerAttr(bits, i64)},
            result_types=[i32],
        )

    def verify_(self) -> None:
        _verify_counts(self.name, self.memref.type)
        if not 1 <= self.bits.value.data <= MOST_BITS:
            raise VerifyException(f"kernel.count_in_order tells 1 to {MOST_BITS} bits apart")
        verify_converged(self)
