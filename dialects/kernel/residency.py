"""What a kernel asks of the resident work-groups that run it as a stage.

In: a `kernel.func`, the work-items of a resident group, and a device. Out: how many work-groups of
the kernel a resident group has room for, none where the kernel cannot run inside such a group. Also
what the group needs of local memory, and what the kernel reads before it waits for other stages.
"""

from math import prod

from xdsl.ir import SSAValue

from mgn.dialects.kernel.device import Device
from mgn.dialects.kernel.function import FuncOp
from mgn.dialects.kernel.types import element_bytes
from mgn.dialects.kernel.work_items import (
    AsyncCopyOp,
    AsyncWaitOp,
    AwaitStagesOp,
    BarrierOp,
    LocalAllocOp,
)

WARP = 32
MOST_BLOCKS = 15
"""NVIDIA's work-groups have 16 barriers, of which one is the whole group's."""

MOST_LOCAL = 227 * 1024
"""Bytes of local memory that several work-groups of a kernel share on NVIDIA's GPUs from Hopper on,
which have more than they say.
"""

MOST_INLINED = 2500
"""Operations of the kernels of a resident launch up to which their bodies may be inlined into its
loop. NVIDIA's compiler takes over a minute for 4,400 operations in one function, and some ten
seconds for 20,000 in functions of their own.
"""

LARGE, SMALL = 1024, 128
"""Alignments of arrays in local memory: tiles of matrix units begin at multiples of the first."""

LITTLE = 4096
"""A kernel with no more bytes of local memory has no such tiles."""


def local_arrays(func: FuncOp) -> list[tuple[LocalAllocOp, int]]:
    """The arrays in a kernel's local memory and where each begins."""
    arrays = [op for op in func.body.block.ops if isinstance(op, LocalAllocOp)]
    sizes = [_bytes(op) for op in arrays]
    alignment = LARGE if sum(sizes) > LITTLE else SMALL
    found: list[tuple[LocalAllocOp, int]] = []
    start = 0
    for op, size in zip(arrays, sizes, strict=True):
        found.append((op, start))
        start += -(-size // alignment) * alignment
    return found


def local_bytes(func: FuncOp) -> int:
    """The local memory of one work-group, each array at its alignment."""
    arrays = local_arrays(func)
    end = max((start + _bytes(op) for op, start in arrays), default=0)
    alignment = LARGE if end > LITTLE else SMALL
    return -(-end // alignment) * alignment


def _bytes(operation: LocalAllocOp) -> int:
    type = operation.memref.type
    return type.get_shape()[0] * element_bytes(type.element_type)


def operations_of(func: FuncOp) -> int:
    """The operations of a kernel's text."""
    return sum(1 for _ in func.walk())


def waits(func: FuncOp) -> bool:
    """Whether the work-items of a group wait for one another."""
    return any(isinstance(op, BarrierOp | AsyncCopyOp | AsyncWaitOp) for op in func.walk())


def read_early(func: FuncOp) -> list[int] | None:
    """The numbers of the arguments that a kernel reads before it waits for other stages; None where
    it does not say when it waits.
    """
    arguments, used = list(func.body.block.args), set[SSAValue]()
    for op in func.body.block.ops:
        if isinstance(op, AwaitStagesOp):
            return [number for number, value in enumerate(arguments) if value in used]
        used.update(value for inner in op.walk() for value in inner.operands)
    return None


def blocks_of(func: FuncOp, items: int, device: Device) -> int:
    """How many work-groups of a kernel run at a time in a resident group of so many work-items.

    A part of a group waits by a barrier of its own, which NVIDIA has for whole warps.
    """
    own, size = prod(func.local_sizes), local_bytes(func)
    if own > items:
        return 0
    if own == items:
        return 1
    if waits(func) and (device.vendor != "nvidia" or own % WARP):
        return 0
    if own % WARP:
        return 1
    room = most_local(device) // size if size else MOST_BLOCKS
    return max(min(items // own, MOST_BLOCKS, room), 1)


def most_local(device: Device) -> int:
    """Bytes of local memory that work-groups of a kernel share on a compute unit."""
    return MOST_LOCAL if device.matrix_unit == "wgmma" else device.local_memory


def resident_memory(func: FuncOp, items: int, device: Device) -> int:
    """The local memory that a resident group needs for a kernel."""
    return blocks_of(func, items, device) * local_bytes(func)
