"""What a kernel takes as a launch of its own and as a stage of a resident launch.

In: a `kernel.func`, the bytes of its arguments, and a device. Out: seconds. The kernel's own loops
say how often each operation runs: a loop whose bounds are not known counts `UNKNOWN_STEPS` times.

A GPU has a resident group on each compute unit. A CPU has one in all, so that one core does what
others would help with in launches of their own.
"""

from dataclasses import dataclass
from math import prod
from typing import cast

from xdsl.dialects import arith, math, memref, scf, vector
from xdsl.dialects.builtin import Float32Type, IndexType, IntegerAttr, MemRefType
from xdsl.ir import Block, Operation, SSAValue

from mgn.dialects.kernel import (
    BarrierOp,
    Device,
    FuncOp,
    GatherOp,
    GroupIdOp,
    GroupMmaHeldOp,
    GroupMmaOp,
    MmaOp,
    WaitCopiesOp,
    element_bytes,
    space_of,
)
from mgn.dialects.kernel.buffers import byte_size
from mgn.dialects.kernel.lanes import element, lanes
from mgn.dialects.kernel.matrix_units import CopyChunkOp
from mgn.passes.merge_launches.registers import IN_ALL, registers_of

UNKNOWN_STEPS = 16
"""Steps of a loop whose bounds are known at run time alone."""

FULL_ITEMS = 1024
"""Work-items of a compute unit beyond which more do not make a kernel faster."""

CROWDING = 0.1
"""The share of its time that a kernel loses where a resident launch gives a compute unit half of
the work-items that it would have.
"""

BEGIN = 2e-6
"""What passes on a device between two launches, of which the second waits for the first."""

LOSS = 0.08
"""The share of its time that a kernel loses as a stage: all wait for the slowest group."""

UNEVEN = 0.8
"""The share that a kernel loses besides where some of its work-groups have more to do than others,
and there are more of them than run at a time: a device gives the next one to the first unit that is
free, and a stage deals them out beforehand.
"""

ITEM_SECONDS = 0.5e-9
"""What a stage takes longer for each work-item of a resident group."""

STEP, READ = 0.3e-6, 0.1e-6
"""What a step of a loop takes that waits for its group, and one that waits for memory alone: the
compiler has the reads of some of these on their way at a time.
"""

LATENCY = 1.5e-6
"""What the shortest kernel takes, and the shortest stage."""

FUNCTION = 20
"""Operations that a function such as exp takes a CPU."""

_ARITHMETIC = (arith.AddfOp, arith.SubfOp, arith.MulfOp, arith.DivfOp)


@dataclass(frozen=True)
class KernelCost:
    """What a kernel takes: `seconds` on an idle device, without its launch. It has so many
    work-items, of so many registers each, which read and write `moved` bytes in all. It is `uneven`
    where its work-groups have loops of different lengths.
    """

    seconds: float
    items: int
    registers: int
    moved: float
    uneven: bool

    @property
    def alone(self) -> float:
        """The device's time for it as a launch of its own."""
        return BEGIN + self.seconds

    def fits(self, items: int) -> bool:
        """Whether a group of so many work-items has the registers for it."""
        return self.registers * items <= IN_ALL

    def as_stage(self, items: int, device: Device) -> float:
        """The time inside a resident launch of one group of `items` on each compute unit."""
        room = device.compute_units * items
        wanted = min(self.items, device.compute_units * FULL_ITEMS)
        loss = LOSS + CROWDING * max(wanted / room - 1.0, 0.0)
        loss += UNEVEN * (self.uneven and self.items > room)
        return self.seconds * (1.0 + loss) + ITEM_SECONDS * items


@dataclass(frozen=True)
class CoreCost:
    """What a kernel takes a CPU: `seconds` of one core, which so many `cores` share in a launch of
    its own. It has so many work-items, which read and write `moved` bytes in all.
    """

    seconds: float
    cores: int
    launch: float
    items: int
    moved: float

    @property
    def alone(self) -> float:
        """The time for it as a launch of its own."""
        return self.launch + self.seconds / self.cores

    def fits(self, items: int) -> bool:
        """A core keeps in memory what it has no registers for."""
        return True

    def as_stage(self, items: int, device: Device) -> float:
        """The time inside a resident launch, of one group."""
        return self.seconds + ITEM_SECONDS * items


def kernel_cost(func: FuncOp, device: Device) -> KernelCost | CoreCost:
    """The price of a kernel by what its loops read and compute."""
    counted = _Counter(device.lanes(4), FUNCTION) if device.is_cpu else _Counter()
    counted.block(func.body.block, 1)
    items = prod(func.global_sizes)
    held = sum(byte_size(argument.type) for argument in func.arguments)
    moved = min(counted.bytes * items, held)
    if device.is_cpu:
        cores = min(device.compute_units, max(items // prod(func.local_sizes), 1))
        computing = counted.operations * items * device.compute_units / device.rate("f32")
        seconds = max(computing, cores * device.seconds_to_move(moved))
        return CoreCost(seconds, cores, device.launch_cost, items, moved)
    rate = device.rate("f32")
    seconds = counted.operations * items / rate
    if counted.products:
        products = counted.products * items
        matrix_rate = max(device.matrix_rates.values(), default=rate)
        seconds += products / matrix_rate
    seconds = max(seconds / _share(items, device), moved / device.bandwidth)
    waits = LATENCY + _waiting(func.body.block)
    return KernelCost(seconds + waits, items, registers_of(func), moved, _is_uneven(func))


def _is_uneven(func: FuncOp) -> bool:
    """Whether how long a loop is depends on the work-group."""
    own: set[SSAValue] = set()
    for op in func.walk():
        if isinstance(op, scf.ForOp) and not own.isdisjoint(op.operands[:2]):
            return True
        if isinstance(op, GroupIdOp) or not own.isdisjoint(op.operands):
            own.update(result for result in op.results if isinstance(result.type, IndexType))
    return False


def _waiting(block: Block) -> float:
    """How long a work-item waits for what it or its group has read: in each step of a loop once.
    Where something is done one way or another, the way without loops is the usual one.
    """
    seconds = 0.0
    for op in block.ops:
        if isinstance(op, scf.ForOp):
            seconds += _steps(op) * (_waiting(op.body.block) + _wait_of(op.body.block))
        elif op.regions:
            inner = [_waiting(found) for region in op.regions for found in region.blocks]
            either = isinstance(op, scf.IfOp) and len(inner) > 1
            seconds += (min if either else max)(inner, default=0.0)
    return seconds


def _wait_of(block: Block) -> float:
    """How long a step waits, besides the loops in it."""
    wait = 0.0
    for op in block.ops:
        if isinstance(op, BarrierOp | WaitCopiesOp):
            return STEP
        buffer = op.memref if isinstance(op, memref.LoadOp) else None
        buffer = op.base if isinstance(op, vector.LoadOp) else buffer
        if buffer is not None and space_of(cast(MemRefType, buffer.type)) is None:
            wait = READ
        elif op.regions and not isinstance(op, scf.ForOp):
            inner = [_wait_of(found) for region in op.regions for found in region.blocks]
            wait = max(wait, *inner)
    return wait


def _share(items: int, device: Device) -> float:
    """The share of its rate that a device reaches with so many work-items."""
    return max(min(items / (device.compute_units * FULL_ITEMS), 1.0), 1e-3) ** 0.5


@dataclass
class _Counter:
    """Bytes, operations and operations of matrix units of one work-item. An operation on few values
    counts as one on `least`, and a function as so many; a GPU has units of their own for them.
    """

    least: int = 1
    function: int = 0
    bytes: float = 0.0
    operations: float = 0.0
    products: float = 0.0

    def block(self, block: Block, times: float) -> None:
        for op in block.ops:
            self._operation(op, times)

    def _operation(self, op: Operation, times: float) -> None:
        if isinstance(op, scf.ForOp):
            self.block(op.body.block, times * _steps(op))
            return
        for region in op.regions:
            for block in region.blocks:
                self.block(block, times)
        if isinstance(op, vector.FMAOp):
            self.operations += 2 * max(lanes(op.res.type), self.least) * times
        elif isinstance(op, _ARITHMETIC):
            self.operations += max(lanes(op.results[0].type), self.least) * times
        elif op.dialect_name() == math.Math.name:
            self.operations += self.function * max(lanes(op.results[0].type), self.least) * times
        elif isinstance(op, MmaOp):
            self.products += (64 if _is_tf32(op) else 128) * times
        elif isinstance(op, GroupMmaOp):
            self.products += 2 * 64 * 16 * op.columns * op.steps.value.data / 128 * times
        elif isinstance(op, GroupMmaHeldOp):
            self.products += 2 * 64 * 8 * len(op.sums) * 16 * len(op.held) / 128 * times
        elif isinstance(op, (memref.LoadOp, memref.StoreOp)):
            self._moved(op.memref, 1, times)
        elif isinstance(op, vector.LoadOp):
            self._moved(op.base, lanes(op.result.type), times)
        elif isinstance(op, vector.StoreOp):
            self._moved(op.base, lanes(op.vector.type), times)
        elif isinstance(op, GatherOp):
            self._moved(op.base, lanes(op.result.type), times)
        elif isinstance(op, CopyChunkOp):
            self._moved(op.source, op.count.value.data, times)

    def _moved(self, buffer: SSAValue, count: int, times: float) -> None:
        type = buffer.type
        if isinstance(type, MemRefType) and space_of(type) is None:
            self.bytes += count * element_bytes(type.element_type) * times


def _is_tf32(op: MmaOp) -> bool:
    return isinstance(element(op.a.type), Float32Type)


def _steps(loop: scf.ForOp) -> float:
    bounds = [_constant(value) for value in (loop.lb, loop.ub, loop.step)]
    first, end, step = bounds
    if first is None or end is None or not step:
        return UNKNOWN_STEPS
    return max(-(-(end - first) // step), 0)


def _constant(value: SSAValue) -> int | None:
    owner = value.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    return None
