"""The operation that combines numbers in memory, in whatever order work-items come."""

from xdsl.dialects.builtin import IndexType, MemRefType, i32
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, traits_def
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.kernel.types import Combine, CombineAttr, Space, space_of, verify_buffer


@irdl_op_definition
class CombineAtOp(IRDLOperation):
    """Combines a number with that in a cell of memory, whoever else does so at the same time. The
    work-items come in any order, which changes nothing: the largest stays, or the sum.

    Example: `kernel.combine_at max %v, %m[%i] : memref<256xi32>`.
    Numbers are signed; a sum wraps. Errors: a kind other than add and max, memory other than i32,
    or private.
    """

    name = "kernel.combine_at"
    kind = prop_def(CombineAttr)
    value = operand_def(i32)
    memref = operand_def(MemRefType)
    index = operand_def(IndexType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$kind $value `,` $memref `[` $index `]` attr-dict `:` type($memref)"

    def __init__(
        self,
        kind: Combine | str,
        value: SSAValue | Operation,
        memref: SSAValue | Operation,
        index: SSAValue | Operation,
    ):
        super().__init__(
            operands=[value, memref, index], properties={"kind": CombineAttr(Combine(kind))}
        )

    def verify_(self) -> None:
        type = self.memref.type
        verify_buffer(type, self.name)
        assert isinstance(type, MemRefType)
        if space_of(type) is Space.PRIVATE or type.element_type != i32:
            raise VerifyException(f"{self.name} combines in global or local i32, not {type}")
        if self.kind.data not in (Combine.ADD, Combine.MAX):
            raise VerifyException(f"{self.name} knows add and max, not {self.kind.data}")
