"""What a work-item knows of its place, and how a work-group shares memory."""

from collections.abc import Sequence

from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType, UnitAttr, i64
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryAllocEffect, MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.kernel.function import FuncOp, verify_converged
from mgn.dialects.kernel.types import (
    EventType,
    Space,
    space_of,
    verify_buffer,
    verify_copy_to_local,
)


class PlaceOp(IRDLOperation):
    """A figure of the launch in one dimension (0, 1 or 2), of type index: `kernel.global_id 0`."""

    dimension = prop_def(IntegerAttr.constr(i64))
    result = result_def(IndexType)
    assembly_format = "$dimension attr-dict"

    def __init__(self, dimension: int = 0):
        super().__init__(
            properties={"dimension": IntegerAttr(dimension, i64)}, result_types=[IndexType()]
        )

    def verify_(self) -> None:
        if self.dimension.value.data not in (0, 1, 2):
            raise VerifyException(f"dimension must be 0, 1 or 2, not {self.dimension.value.data}")


@irdl_op_definition
class GlobalIdOp(PlaceOp):
    """The work-item's number in the launch: `%i = kernel.global_id 0`."""

    name = "kernel.global_id"
    traits = traits_def(Pure())


@irdl_op_definition
class LocalIdOp(PlaceOp):
    """The work-item's number in its work-group: `%i = kernel.local_id 0`."""

    name = "kernel.local_id"
    traits = traits_def(Pure())


@irdl_op_definition
class GroupIdOp(PlaceOp):
    """The work-group's number in the launch: `%i = kernel.group_id 0`."""

    name = "kernel.group_id"
    traits = traits_def(Pure())


@irdl_op_definition
class GlobalSizeOp(PlaceOp):
    """How many work-items the launch has: `%n = kernel.global_size 0`."""

    name = "kernel.global_size"
    traits = traits_def(Pure())


@irdl_op_definition
class LocalSizeOp(PlaceOp):
    """How many work-items a work-group has: `%n = kernel.local_size 0`."""

    name = "kernel.local_size"
    traits = traits_def(Pure())


@irdl_op_definition
class NumGroupsOp(PlaceOp):
    """How many work-groups the launch has: `%n = kernel.num_groups 0`."""

    name = "kernel.num_groups"
    traits = traits_def(Pure())


@irdl_op_definition
class LocalAllocOp(IRDLOperation):
    """Memory that a work-group shares.

    ```
    %m = kernel.local_alloc : memref<256xf32, #kernel.space<local>>
    ```
    Errors: a type outside the local space, or a place that is not the kernel's outermost block.
    """

    name = "kernel.local_alloc"
    memref = result_def(MemRefType)
    traits = traits_def(MemoryAllocEffect())
    assembly_format = "attr-dict `:` type($memref)"

    def __init__(self, type: MemRefType):
        super().__init__(result_types=[type])

    def verify_(self) -> None:
        verify_buffer(self.memref.type, "kernel.local_alloc")
        if space_of(self.memref.type) is not Space.LOCAL:
            raise VerifyException("kernel.local_alloc makes #kernel.space<local> memory")
        if not isinstance(self.parent_op(), FuncOp):
            raise VerifyException("kernel.local_alloc belongs in the kernel's outermost block")


@irdl_op_definition
class PrefetchOp(IRDLOperation):
    """A hint that the cache line of an element will be read soon, through the cache of a level, or
    with `write`, that it will be written.

    ```
    kernel.prefetch %x[%i] level 1 : memref<4096xf32>
    ```
    The element need not exist. Errors: a level other than 1, the nearest, and 2.
    """

    name = "kernel.prefetch"
    memref = operand_def(MemRefType)
    index = operand_def(IndexType)
    level = prop_def(IntegerAttr.constr(i64))
    write = opt_prop_def(UnitAttr)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = (
        "$memref `[` $index `]` `level` $level (`write` $write^)? attr-dict `:` type($memref)"
    )

    def __init__(self, memref: SSAValue | Operation, index: SSAValue | Operation, level: int):
        super().__init__(operands=[memref, index], properties={"level": IntegerAttr(level, i64)})

    def verify_(self) -> None:
        verify_buffer(self.memref.type, "kernel.prefetch")
        if self.level.value.data not in (1, 2):
            raise VerifyException("kernel.prefetch knows the levels 1 and 2")


@irdl_op_definition
class AwaitStagesOp(IRDLOperation):
    """Where a stage of a resident launch waits for the stages before it: `kernel.await_stages`.

    What a kernel reads before that, such as weights, is under way while its group waits. A stage
    waits before its kernel where the launch may write any of it. In a launch of its own a kernel
    does not wait. Error: a place that is not the kernel's outermost block.
    """

    name = "kernel.await_stages"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "attr-dict"

    def verify_(self) -> None:
        if not isinstance(self.parent_op(), FuncOp):
            raise VerifyException("kernel.await_stages belongs in the kernel's outermost block")


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """Every work-item of the group reaches this before any goes on; local and global memory are
    then seen by all: `kernel.barrier`. Error: a place inside a branch that may divide the group.
    """

    name = "kernel.barrier"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()

    def verify_(self) -> None:
        verify_converged(self)


@irdl_op_definition
class AsyncCopyOp(IRDLOperation):
    """The work-group copies elements from global to local memory, as `async_work_group_copy` does.

    ```
    %e = kernel.async_copy %x[%i], %m[%j] count 256
        : memref<4096xf32>, memref<256xf32, #kernel.space<local>>
    ```
    Neither side may be touched before `kernel.async_wait`. Errors: another direction, differing
    element types, a count that is not positive or longer than the target, a place inside a branch.
    """

    name = "kernel.async_copy"
    source = operand_def(MemRefType)
    source_index = operand_def(IndexType)
    target = operand_def(MemRefType)
    target_index = operand_def(IndexType)
    count = prop_def(IntegerAttr.constr(i64))
    event = result_def(EventType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$source `[` $source_index `]` `,` $target `[` $target_index `]` `count` $count attr-dict"
        " `:` type($source) `,` type($target)"
    )

    def __init__(
        self,
        source: SSAValue | Operation,
        source_index: SSAValue | Operation,
        target: SSAValue | Operation,
        target_index: SSAValue | Operation,
        count: int,
    ):
        super().__init__(
            operands=[source, source_index, target, target_index],
            properties={"count": IntegerAttr(count, i64)},
            result_types=[EventType()],
        )

    def verify_(self) -> None:
        target = self.target.type
        verify_copy_to_local(self.name, self.source.type, target)
        assert isinstance(target, MemRefType)
        count = self.count.value.data
        if not 0 < count <= target.get_shape()[0]:
            raise VerifyException(f"kernel.async_copy of {count} elements into {target}")
        verify_converged(self)


@irdl_op_definition
class AsyncWaitOp(IRDLOperation):
    """The work-group waits until copies are complete: `kernel.async_wait %e0, %e1`."""

    name = "kernel.async_wait"
    events = var_operand_def(EventType())
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$events attr-dict"

    def __init__(self, events: Sequence[SSAValue | Operation]):
        super().__init__(operands=[list(events)])

    def verify_(self) -> None:
        if not self.events:
            raise VerifyException("kernel.async_wait waits for at least one event")
        verify_converged(self)
