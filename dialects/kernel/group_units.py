"""Products by a group of 128 work-items whose operands the matrix unit reads from local memory.

A tile lies there as the unit expects it, in lines of 128 bytes whose 16-byte chunks are exchanged:
chunk c of line l is at place c ^ (l % 8). The lines of a tile are its rows (of the right operand:
its columns), with the shared axis along them; or, `transposed`, steps of the shared axis, 64 rows
along a line, the next 64 a whole part further.
"""

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    BFloat16Type,
    DenseArrayBase,
    Float16Type,
    IndexType,
    IntegerAttr,
    MemRefType,
    VectorType,
    f32,
    i64,
)
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.kernel.function import verify_converged
from mgn.dialects.kernel.types import Space, space_of, verify_buffer

GROUP_ROWS = 64
GROUP_ITEMS = 128
GROUP_DEPTH = 16
"""Rows of a product, the work-items that share it, and steps of one instruction."""


@irdl_op_definition
class GroupMmaOp(IRDLOperation):
    """128 work-items add the product of two tiles in local memory, as `wgmma` does.

    ```
    %d:2 = kernel.group_mma %m[%i, %j] steps 4 parts [0, 8192] adds %a, %b
        : memref<16384xbf16, …>, vector<4xf32>, vector<4xf32> -> vector<4xf32>, vector<4xf32>
    ```
    The left tile has 64 rows, the right one 8 columns for each result, both 16 steps for each of
    `steps`. `parts` is, for each operand, 0 or, where it is transposed, the bytes of a part. Each
    result is held as `kernel.mma` holds it, sub-group n of the four with rows from 16 n on.
    Errors: memory that is not local, other
    elements than bf16 and f16, sums that are not vector<4xf32>, a place inside a branch.
    """

    name = "kernel.group_mma"
    memory = operand_def(MemRefType)
    left = operand_def(IndexType)
    right = operand_def(IndexType)
    sums = var_operand_def(VectorType)
    results_ = var_result_def(VectorType)
    steps = prop_def(IntegerAttr.constr(i64))
    parts = prop_def(DenseArrayBase.constr(i64))
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$memory `[` $left `,` $right `]` `steps` $steps `parts` $parts `adds` $sums attr-dict"
        " `:` type($memory) `,` type($sums) `->` type($results_)"
    )

    def __init__(
        self,
        memory: SSAValue | Operation,
        left: SSAValue | Operation,
        right: SSAValue | Operation,
        sums: Sequence[SSAValue],
        steps: int,
        parts: tuple[int, int],
    ):
        super().__init__(
            operands=[memory, left, right, list(sums)],
            result_types=[[value.type for value in sums]],
            properties={
                "steps": IntegerAttr(steps, i64),
                "parts": DenseArrayBase.from_list(i64, list(parts)),
            },
        )

    @property
    def columns(self) -> int:
        """Columns of the right tile."""
        return 8 * len(self.sums)

    @property
    def part_bytes(self) -> tuple[int, int]:
        """The bytes of a part of either operand; 0 where lines run along the shared axis."""
        left, right = self.parts.get_values()
        return int(left), int(right)

    def verify_(self) -> None:
        verify_buffer(self.memory.type, "the memory")
        assert isinstance(self.memory.type, MemRefType)
        if space_of(self.memory.type) is not Space.LOCAL:
            raise VerifyException("kernel.group_mma reads local memory")
        if not isinstance(self.memory.type.element_type, BFloat16Type | Float16Type):
            raise VerifyException(f"kernel.group_mma takes no {self.memory.type.element_type}")
        if not 1 <= len(self.sums) <= 32:
            raise VerifyException("kernel.group_mma has from 8 to 256 columns")
        held = VectorType(f32, [4])
        for value in (*self.sums, *self.results_):
            if value.type != held:
                raise VerifyException(f"kernel.group_mma adds {held}, not {value.type}")
        if len(self.sums) != len(self.results_):
            raise VerifyException("kernel.group_mma gives as many sums as it takes")
        if len(self.parts.get_values()) != 2 or self.steps.value.data < 1:
            raise VerifyException("kernel.group_mma has two parts, and at least one step")
        verify_converged(self)


@irdl_op_definition
class PublishCopiesOp(IRDLOperation):
    """What the work-item wrote to local memory is seen by the matrix unit after the next barrier:
    `kernel.publish_copies`.
    """

    name = "kernel.publish_copies"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()
