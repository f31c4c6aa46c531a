"""Products by a group of 128 work-items whose operands the matrix unit reads from local memory.

A tile lies there as the unit expects it, in lines of 128 bytes whose 16-byte chunks are exchanged:
chunk c of line l is at place c ^ (l % 8). The lines of a tile are its rows (of the right operand:
its columns), with the shared axis along them; or, `transposed`, steps of the shared axis, 64 rows
along a line, the next 64 a whole part further. Numbers of 32 bits, of which the unit takes the tf32
in them and no other bit, are never transposed.
"""

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    BFloat16Type,
    DenseArrayBase,
    Float16Type,
    Float32Type,
    IndexType,
    IntegerAttr,
    MemRefType,
    VectorType,
    f32,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    RangeOf,
    RangeVarConstraint,
    base,
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
from mgn.dialects.kernel.types import element_bytes, verified_local_element

GROUP_ROWS = 64
GROUP_ITEMS = 128
GROUP_BYTES = 32
"""Rows of a product, the work-items that share it, and the bytes of the shared axis that one
instruction multiplies."""


@irdl_op_definition
class GroupMmaOp(IRDLOperation):
    """128 work-items start to add the product of two tiles in local memory, as `wgmma` does.

    ```
    %d:2 = kernel.group_mma %m[%i, %j] steps 4 parts [0, 8192] adds %a, %b
        : memref<16384xbf16, …>, vector<4xf32>, vector<4xf32> -> vector<4xf32>, vector<4xf32>
    ```
    The left tile has 64 rows, the right one 8 columns for each result, both 32 bytes of the shared
    axis for each of `steps`. `parts` is, for each operand, 0 or, where it is transposed, the bytes
    of a part. Each result is held as `kernel.mma` holds it, sub-group n of the four with rows from
    16 n on; until `kernel.wait_products` only another product may add to it. Errors: memory that is
    not local, other elements than bf16, f16 and f32, a transposed tile of f32, sums that are not
    vector<4xf32>, a place inside a branch.
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
        element = _verified_element(self, self.memory)
        _verify_sums(self, self.sums, self.results_)
        if len(self.parts.get_values()) != 2 or self.steps.value.data < 1:
            raise VerifyException("kernel.group_mma has two parts, and at least one step")
        if element_bytes(element) == 4 and any(self.part_bytes):
            raise VerifyException(f"kernel.group_mma takes no transposed {element}")
        verify_converged(self)


@irdl_op_definition
class GroupMmaHeldOp(IRDLOperation):
    """128 work-items start to add the product of rows that they hold and a tile in local memory.

    ```
    %d:2 = kernel.group_mma_held %f, %g times %m[%j] part 8192 adds %a, %b
        : vector<4xi32>, vector<4xi32> times memref<16384xbf16, …> adds vector<4xf32>, vector<4xf32>
        -> vector<4xf32>, vector<4xf32>
    ```
    Each of the fragments is the left operand of `kernel.mma` for 16 rows and a step of the shared
    axis, sub-group n of the four with rows from 16 n on. The tile and the sums are those of
    `kernel.group_mma`; the fragments stay as they are until `kernel.wait_products`, too. Errors:
    memory that is not local, other elements than bf16 and f16, no fragment or another one, sums
    that are not vector<4xf32>, a place inside a branch.
    """

    name = "kernel.group_mma_held"
    held = var_operand_def(VectorType)
    memory = operand_def(MemRefType)
    right = operand_def(IndexType)
    sums = var_operand_def(VectorType)
    results_ = var_result_def(VectorType)
    part = prop_def(IntegerAttr.constr(i64))
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$held `times` $memory `[` $right `]` `part` $part `adds` $sums attr-dict `:` type($held)"
        " `times` type($memory) `adds` type($sums) `->` type($results_)"
    )

    def __init__(
        self,
        held: Sequence[SSAValue],
        memory: SSAValue | Operation,
        right: SSAValue | Operation,
        sums: Sequence[SSAValue],
        part: int,
    ):
        super().__init__(
            operands=[list(held), memory, right, list(sums)],
            result_types=[[value.type for value in sums]],
            properties={"part": IntegerAttr(part, i64)},
        )

    def verify_(self) -> None:
        element = _verified_element(self, self.memory)
        if element_bytes(element) == 4:
            raise VerifyException(f"{self.name} takes no {element}")
        fragment = VectorType(i32, [4])
        if not self.held or any(value.type != fragment for value in self.held):
            raise VerifyException(f"{self.name} takes fragments of {fragment}, one at least")
        _verify_sums(self, self.sums, self.results_)
        verify_converged(self)


def _verified_element(op: Operation, memory: SSAValue) -> Attribute:
    """The element type of the tiles of a product, which is one that groups multiply."""
    element = verified_local_element(op.name, memory.type)
    if not isinstance(element, BFloat16Type | Float16Type | Float32Type):
        raise VerifyException(f"{op.name} takes no {element}")
    return element


def _verify_sums(op: Operation, sums: Sequence[SSAValue], results: Sequence[SSAValue]) -> None:
    if not 1 <= len(sums) <= 32:
        raise VerifyException(f"{op.name} has from 8 to 256 columns")
    held = VectorType(f32, [4])
    for value in (*sums, *results):
        if value.type != held:
            raise VerifyException(f"{op.name} adds {held}, not {value.type}")
    if len(sums) != len(results):
        raise VerifyException(f"{op.name} gives as many sums as it takes")


@irdl_op_definition
class WaitProductsOp(IRDLOperation):
    """The work-items wait until at most so many of their latest products are under way.

    ```
    kernel.wait_products 1
    %d:2 = kernel.wait_products 0 of %a, %b : vector<4xf32>, vector<4xf32>
    ```
    The results are the sums, which may be read now. Errors: a negative number; sums that are asked
    for while products are under way; a place inside a branch.
    """

    name = "kernel.wait_products"
    SUMS: ClassVar = RangeVarConstraint("SUMS", RangeOf(base(VectorType)))
    pending = prop_def(IntegerAttr.constr(i64))
    sums = var_operand_def(SUMS)
    results_ = var_result_def(SUMS)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$pending (`of` $sums^)? attr-dict (`:` type($sums)^)?"

    def __init__(self, pending: int, sums: Sequence[SSAValue] = ()):
        super().__init__(
            operands=[list(sums)],
            result_types=[[value.type for value in sums]],
            properties={"pending": IntegerAttr(pending, i64)},
        )

    def verify_(self) -> None:
        if self.pending.value.data < 0:
            raise VerifyException("kernel.wait_products takes a number of products, from 0 on")
        if self.sums and self.pending.value.data:
            raise VerifyException("kernel.wait_products gives sums when no product is under way")
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
