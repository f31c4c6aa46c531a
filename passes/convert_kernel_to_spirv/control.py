"""Rows of `scf` and of the operations of `kernel` that place and synchronise work-items.

A loop becomes a header that tests, a body, a block that counts and a block behind it; values that
it carries, and the results of a branch, are phis.
"""

from typing import Any

from xdsl.dialects import scf
from xdsl.dialects.builtin import IndexType, MemRefType
from xdsl.ir import Block, Operation, SSAValue

from mgn.dialects import kernel
from mgn.dialects.spirv.shapes import Shape
from mgn.passes.convert_kernel_to_spirv.conversions import resized
from mgn.passes.convert_kernel_to_spirv.converter import Converter, Row
from mgn.passes.convert_kernel_to_spirv.library import SIZE
from mgn.passes.convert_kernel_to_spirv.memory import address
from mgn.passes.convert_kernel_to_spirv.module_builder import member

PLACES: dict[type[Operation], str] = {
    kernel.GlobalIdOp: "GlobalInvocationId",
    kernel.LocalIdOp: "LocalInvocationId",
    kernel.GroupIdOp: "WorkgroupId",
    kernel.GlobalSizeOp: "GlobalSize",
    kernel.LocalSizeOp: "WorkgroupSize",
    kernel.NumGroupsOp: "NumWorkgroups",
}
"""Built-in variables of three sizes."""

SUB_GROUP_PLACES: dict[type[Operation], str] = {
    kernel.SubGroupSizeOp: "SubgroupSize",
    kernel.SubGroupIdOp: "SubgroupId",
    kernel.SubGroupLaneOp: "SubgroupLocalInvocationId",
}
"""Built-in variables of 32 bits."""

REDUCTIONS: dict[str, tuple[str, str]] = {
    "add": ("OpGroupFAdd", "OpGroupIAdd"),
    "max": ("OpGroupFMax", "OpGroupSMax"),
    "min": ("OpGroupFMin", "OpGroupSMin"),
}
"""Reductions of floats and of integers."""

ATOMICS = {"add": "OpAtomicIAdd", "max": "OpAtomicSMax"}
"""Combinations of a number with one in memory."""

WORD = Shape("int", 32)
DEVICE = 1
WORKGROUP = 2
SUBGROUP = 3
"""Numbers of scopes, section 3.27."""

SEQUENTIAL_AND_ALL_MEMORY = 0x10 | 0x100 | 0x200
"""Memory semantics, section 3.25: sequentially consistent, work-group and global memory."""


def _for(c: Converter, operation: scf.ForOp) -> None:
    b = c.builder
    counter, *carried = operation.body.block.args
    shape = c.shape(counter.type)
    lower, upper, step, *initial = c.values(operation)
    header, body, advance, behind = (b.label() for _ in range(4))
    before = b.current_label
    b.branch(header)
    b.place(header)
    count = b.phi(b.type(shape))
    c.set(counter, count.result)
    phis = [b.phi(b.type(c.shape(argument.type))) for argument in carried]
    for argument, phi in zip(carried, phis, strict=True):
        c.set(argument, phi.result)
    more = b.emit("OpSLessThan", Shape("bool", 1), count.result, upper)
    control = member("LoopControl", "Unroll" if "unroll" in operation.attributes else "None")
    b.emit_operation("OpLoopMerge", None, behind.result, advance.result, literals=[control])
    b.branch_on(more, body, behind)
    b.place(body)
    c.block(operation.body.block)
    yielded = _yielded(c, operation.body.block)
    b.branch(advance)
    b.place(advance)
    following = b.emit("OpIAdd", shape, count.result, step)
    if isinstance(counter.type, IndexType):
        b.no_signed_wrap(following)
    b.branch(header)
    for phi, first, again in zip(
        (count, *phis), (lower, *initial), (following, *yielded), strict=True
    ):
        phi.operands = [phi.operands[0], first, before, again, advance.result]
    b.place(behind)
    for result, phi in zip(operation.results, phis, strict=True):
        c.set(result, phi.result)


def _if(c: Converter, operation: scf.IfOp) -> None:
    b = c.builder
    yes, behind = b.label(), b.label()
    no = b.label() if operation.false_region.blocks else behind
    b.emit_operation("OpSelectionMerge", None, behind.result, literals=[0])
    b.branch_on(c.value(operation.cond), yes, no)
    ways = [_branch(c, operation.true_region.block, yes, behind)]
    if no is not behind:
        ways.append(_branch(c, operation.false_region.block, no, behind))
    b.place(behind)
    for position, result in enumerate(operation.results):
        pairs = [item for values, label in ways for item in (values[position], label)]
        c.set(result, b.phi(b.type(c.shape(result.type)), *pairs).result)


def _branch(c: Converter, block: Block, label: Any, behind: Any) -> tuple[list[SSAValue], SSAValue]:
    """One side of a branch: what it yields, and the block that it ends in."""
    c.builder.place(label)
    c.block(block)
    end = c.builder.current_label
    c.builder.branch(behind)
    return _yielded(c, block), end


def _yielded(c: Converter, block: Block) -> list[SSAValue]:
    last = block.last_op
    return c.values(last) if isinstance(last, scf.YieldOp) else []


def _nothing(c: Converter, operation: Operation) -> None:
    """A terminator: the operation around it has emitted what it does."""


def _place(c: Converter, operation: Any) -> SSAValue:
    b, sizes = c.builder, Shape("int", SIZE.bits, 3)
    variable = b.built_in(PLACES[operation.__class__], sizes)
    triple = b.emit("OpLoad", sizes, variable, literals=[member("MemoryAccess", "Aligned"), 32])
    dimension = operation.dimension.value.data
    size = b.emit("OpCompositeExtract", SIZE, triple, literals=[dimension])
    return resized(c, size, SIZE, c.shape(operation.result.type), is_unsigned=True)


def _sub_group_place(c: Converter, operation: Any) -> SSAValue:
    b = c.builder
    variable = b.built_in(SUB_GROUP_PLACES[operation.__class__], WORD)
    word = b.emit("OpLoad", WORD, variable, literals=[member("MemoryAccess", "Aligned"), 4])
    return resized(c, word, WORD, c.shape(operation.result.type), is_unsigned=True)


def _sub_group_reduce(c: Converter, operation: kernel.SubGroupReduceOp) -> SSAValue:
    b, shape = c.builder, c.shape(operation.value.type)
    name = REDUCTIONS[str(operation.kind.data)][shape.kind == "int"]
    scope = b.constant(WORD, SUBGROUP)
    reduce = [member("GroupOperation", "Reduce")]
    return b.emit(name, shape, scope, c.value(operation.value), literals=reduce)


def _lane(c: Converter, operation: Any) -> SSAValue:
    lane = c.value(operation.lane)
    return resized(c, lane, c.shape(operation.lane.type), WORD, is_unsigned=True)


def _sub_group_shuffle(c: Converter, operation: kernel.SubGroupShuffleOp) -> SSAValue:
    c.builder.extension("SPV_INTEL_subgroups")
    shape = c.shape(operation.value.type)
    lane = _lane(c, operation)
    return c.builder.emit("OpSubgroupShuffleINTEL", shape, c.value(operation.value), lane)


def _sub_group_broadcast(c: Converter, operation: kernel.SubGroupBroadcastOp) -> SSAValue:
    shape, scope = c.shape(operation.value.type), c.builder.constant(WORD, SUBGROUP)
    lane = _lane(c, operation)
    return c.builder.emit("OpGroupBroadcast", shape, scope, c.value(operation.value), lane)


def _count(c: Converter, operation: kernel.CountOp) -> None:
    place = address(c, operation.memref, c.value(operation.index))
    scope, relaxed = c.builder.constant(WORD, WORKGROUP), c.builder.constant(WORD, 0)
    c.builder.emit("OpAtomicIIncrement", WORD, place, scope, relaxed)


def _combine_at(c: Converter, operation: kernel.CombineAtOp) -> None:
    place = address(c, operation.memref, c.value(operation.index))
    type = operation.memref.type
    assert isinstance(type, MemRefType)
    scope = c.builder.constant(WORD, DEVICE if kernel.space_of(type) is None else WORKGROUP)
    relaxed, value = c.builder.constant(WORD, 0), c.value(operation.value)
    c.builder.emit(ATOMICS[operation.kind.data], WORD, place, scope, relaxed, value)


def _barrier(c: Converter, operation: kernel.BarrierOp) -> None:
    scope = c.builder.constant(WORD, WORKGROUP)
    semantics = c.builder.constant(WORD, SEQUENTIAL_AND_ALL_MEMORY)
    c.builder.emit_operation("OpControlBarrier", None, scope, scope, semantics)


def _async_copy(c: Converter, operation: kernel.AsyncCopyOp) -> SSAValue:
    b, event = c.builder, c.builder.event()
    target = address(c, operation.target, c.value(operation.target_index))
    source = address(c, operation.source, c.value(operation.source_index))
    scope = b.constant(WORD, WORKGROUP)
    count, stride = b.constant(SIZE, operation.count.value.data), b.constant(SIZE, 1)
    none = b.null(event)
    return b.emit("OpGroupAsyncCopy", event, scope, target, source, count, stride, none)


def _async_wait(c: Converter, operation: kernel.AsyncWaitOp) -> None:
    b = c.builder
    scope, one = b.constant(WORD, WORKGROUP), b.constant(WORD, 1)
    for event in operation.events:
        variable = b.variable("Function", b.event(), "copied")
        b.emit_operation("OpStore", None, variable, c.value(event))
        b.emit_operation("OpGroupWaitEvents", None, scope, one, variable)


def _prefetch(c: Converter, operation: kernel.PrefetchOp) -> None:
    """Nothing: SPIR-V's own hint is a function call to Intel's CPU compiler."""


def _of_nvidia(c: Converter, operation: Operation) -> None:
    raise c.error(operation, "needs an NVIDIA device, which takes no SPIR-V")


OF_NVIDIA: tuple[type[Operation], ...] = (
    kernel.MmaOp,
    kernel.LoadMatrixOp,
    kernel.RoundTf32Op,
    kernel.PackOp,
    kernel.UnpackOp,
    kernel.CopyChunkOp,
    kernel.CommitCopiesOp,
    kernel.WaitCopiesOp,
    kernel.GroupMmaOp,
    kernel.GroupMmaHeldOp,
    kernel.WaitProductsOp,
    kernel.PublishCopiesOp,
    kernel.CountInOrderOp,
    kernel.AddInOrderOp,
)

CONTROL_ROWS: dict[type[Operation], Row] = {
    scf.ForOp: _for,
    scf.IfOp: _if,
    scf.YieldOp: _nothing,
    kernel.ReturnOp: _nothing,
    **dict.fromkeys(PLACES, _place),
    **dict.fromkeys(SUB_GROUP_PLACES, _sub_group_place),
    kernel.BarrierOp: _barrier,
    kernel.AwaitStagesOp: _nothing,
    kernel.CountOp: _count,
    kernel.CombineAtOp: _combine_at,
    kernel.AsyncCopyOp: _async_copy,
    kernel.AsyncWaitOp: _async_wait,
    kernel.PrefetchOp: _prefetch,
    kernel.SubGroupReduceOp: _sub_group_reduce,
    kernel.SubGroupShuffleOp: _sub_group_shuffle,
    kernel.SubGroupBroadcastOp: _sub_group_broadcast,
    **dict.fromkeys(OF_NVIDIA, _of_nvidia),
}
