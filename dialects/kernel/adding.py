"""The operation that adds numbers in local memory, in the order of work-items."""

from xdsl.dialects.builtin import IndexType, MemRefType, f32, i32
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.kernel.function import verify_converged
from mgn.dialects.kernel.types import Space, space_of, verify_buffer


@irdl_op_definition
class AddInOrderOp(IRDLOperation):
    """The work-items of a sub-group of 32 each add a number to a cell of local memory: those that
    name one cell one after the other, in their order. Who names a cell below 0 adds nothing.

    Example: `%t = kernel.add_in_order %v, %m[%i] marks %k turn %n : memref<64xf32, …>,
    memref<64xi32, …>`. `marks` has a number for each cell, which is -1 before the first addition:
    by it work-items find whose turn it is. `%n` is the number of turns before, 0 at first, and
    the result the number after. No other sub-group touches the cells between barriers. Only on
    NVIDIA may a group have several sub-groups that come to it differently often. Errors: numbers
    other than f32, marks other than i32, memory other than local, a place inside a branch.
    """

    name = "kernel.add_in_order"
    value = operand_def(f32)
    memref = operand_def(MemRefType)
    index = operand_def(IndexType)
    marks = operand_def(MemRefType)
    turn = operand_def(i32)
    result = result_def(i32)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$value `,` $memref `[` $index `]` `marks` $marks `turn` $turn attr-dict `:` "
        "type($memref) `,` type($marks)"
    )

    def __init__(
        self,
        value: SSAValue | Operation,
        memref: SSAValue | Operation,
        index: SSAValue | Operation,
        marks: SSAValue | Operation,
        turn: SSAValue | Operation,
    ):
        super().__init__(operands=[value, memref, index, marks, turn], result_types=[i32])

    def verify_(self) -> None:
        for value, element in ((self.memref, f32), (self.marks, i32)):
            type = value.type
            verify_buffer(type, self.name)
            assert isinstance(type, MemRefType)
            if space_of(type) is not Space.LOCAL or type.element_type != element:
                raise VerifyException(f"{self.name} takes local {element}, not {type}")
        verify_converged(self)
