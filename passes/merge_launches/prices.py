"""What a kernel takes as a launch of its own and as a stage of a resident launch.

In: a `kernel.func`, the bytes of its arguments, and a device. Out: seconds. The kernel's own loops
say how often each operation runs: a loop whose bounds are not known counts `UNKNOWN_STEPS` times.

A GPU has a resident group on each compute unit. A CPU has one in all, so that one core does what
others would help with in launches of their own.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

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
from mgn.dialects.kernel.residency import local_bytes, most_local
from mgn.passes.merge_launches.registers import IN_ALL, registers_of

UNKNOWN_STEPS = 16
"""Steps of a loop whose bounds are known at run time alone."""

FULL_ITEMS, MOST_GROUPS = 1024, 32
"""Work-items of a compute unit beyond which more do not make a kernel faster, and the most
work-groups that it has at a time.
"""

BEGIN = 1.2e-6
"""What passes on a device between two launches, of which the second waits for the first."""

LATENCY, PHASE = 0.75e-6, 0.4e-6
"""What the shortest kernel takes, and each barrier outside of loops: what was read before it has to
have come.
"""

STEP, COPIES_STEP = 0.25e-6, 0.15e-6
"""What a step of a loop takes that waits for its group, and one that waits for copies which are on
their way while it computes.
"""

ROUND = 0.55
"""The share of its waiting that each round of work-groups takes behind the first: a compute unit
begins a group's next one while others of its groups still work.
"""

COMPUTING, MULTIPLYING = 0.8, 2.0
"""What computing takes beside the device's rates, as small kernels do it: by the work-items that a
compute unit has, and on matrix units.
"""

NEAR, FAR = 1e-9, 5e-9
"""What a resident launch takes for each operation of its kernels when it first comes to them: their
instructions come from the device's memory. The first is for kernels of up to `MOST_INLINED`
operations together, the second for more. A launch of a single kernel takes nothing for them. The
time of the driver's compiler, some 0.5 ms for an operation, is no part of these.
"""

CROWDED = 0.1
"""The share of what it takes to move its bytes that a stage loses: a compute unit has up to 2048
work-items of launches of their own, each with reads on their way, and 1024 of a resident one.
"""

UNEVEN = 0.8
"""The share that a stage loses where some of its work-groups have more to do than others, and more
of them than run at a time. A launch gives the next group to the first free unit. A stage deals all
groups out beforehand.
"""

ITEM_SECONDS = 0.5e-9
"""What a stage takes longer for each work-item of a resident group."""

FUNCTION = 20
"""Operations that a function such as exp takes a CPU."""

_ARITHMETIC = (arith.AddfOp, arith.SubfOp, arith.MulfOp, arith.DivfOp)


@dataclass(frozen=True)
class KernelCost:
    """What a kernel takes: a work-group waits for `waiting` seconds, and the device computes for
    `computing` and `multiplying` at its rates. There are so many `groups` of `own` work-items, of
    so many registers each and of `local` bytes together, which read and write `moved` bytes in all.
    It is `uneven` where its work-groups have loops of different lengths.
    """

    waiting: float
    computing: float
    multiplying: float
    groups: int
    own: int
    registers: int
    local: int
    moved: float
    uneven: bool

    @property
    def items(self) -> int:
        return self.groups * self.own

    def alone(self, device: Device) -> float:
        """The device's time for it as a launch of its own."""
        at_a_time = min(FULL_ITEMS // self.own, IN_ALL // (self.registers * self.own), MOST_GROUPS)
        if self.local:
            at_a_time = min(at_a_time, most_local(device) // self.local)
        return BEGIN + self._seconds(max(at_a_time, 1), device)

    def fits(self, items: int) -> bool:
        """Whether a group of so many work-items has the registers for it."""
        return self.registers * items <= IN_ALL

    def as_stage(self, items: int, blocks: int, device: Device) -> float:
        """The time inside a resident launch of one group of `items` on each compute unit, which has
        room for so many of the kernel's work-groups.
        """
        loss = UNEVEN * (self.uneven and self.groups > blocks * device.compute_units)
        seconds = self._seconds(blocks, device) * (1.0 + loss)
        return seconds + CROWDED * self._moving(device) + ITEM_SECONDS * items

    def _seconds(self, at_a_time: int, device: Device) -> float:
        """The time where a compute unit has so many work-groups at a time."""
        each = -(-self.groups // device.compute_units)
        rounds = -(-each // at_a_time)
        share = min(min(at_a_time, each) * self.own / FULL_ITEMS, 1.0) ** 0.5
        busiest = each * device.compute_units / self.groups
        computing = COMPUTING * self.computing / share + MULTIPLYING * self.multiplying
        waiting = self.waiting * (1.0 + ROUND * (rounds - 1))
        return waiting + max(computing * busiest, self._moving(device))

    def _moving(self, device: Device) -> float:
        """The time in which the device moves its bytes."""
        return self.moved / device.bandwidth


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

    def alone(self, device: Device) -> float:
        """The time for it as a launch of its own."""
        return self.launch + self.seconds / self.cores

    def fits(self, items: int) -> bool:
        """A core keeps in memory what it has no registers for."""
        return True

    def as_stage(self, items: int, blocks: int, device: Device) -> float:
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
    return KernelCost(
        waiting=LATENCY + _waiting(func.body.block),
        computing=counted.operations * items / rate,
        multiplying=counted.products * items / max(device.matrix_rates.values(), default=rate),
        groups=items // prod(func.local_sizes),
        own=prod(func.local_sizes),
        registers=registers_of(func),
        local=local_bytes(func),
        moved=moved,
        uneven=_is_uneven(func),
    )


def _is_uneven(func: FuncOp) -> bool:
    """Whether how long a loop is depends on the work-group."""
    own: set[SSAValue] = set()
    for op in _usual(func.body.block):
        if isinstance(op, scf.ForOp) and not own.isdisjoint(op.operands[:2]):
            return True
        if isinstance(op, GroupIdOp) or not own.isdisjoint(op.operands):
            own.update(result for result in op.results if isinstance(result.type, IndexType))
    return False


def _usual_blocks(op: Operation) -> list[Block]:
    """What an operation holds. Where something is done one way or another, the way without loops is
    the usual one: the other is mostly for rows with a NaN. A way that does and gives nothing is no
    other way.
    """
    blocks = [block for region in op.regions for block in region.blocks]
    if isinstance(op, scf.IfOp):
        ways = [block for block in blocks if op.results or block.first_op is not block.last_op]
        short = [block for block in ways if not _has_loops(block)]
        return short if 0 < len(short) < len(blocks) else blocks
    return blocks


def _has_loops(block: Block) -> bool:
    return any(isinstance(op, scf.ForOp) for op in block.walk())


def _usual(block: Block) -> Iterator[Operation]:
    """The operations of a block and of what they usually do."""
    for op in block.ops:
        yield op
        for inner in _usual_blocks(op):
            yield from _usual(inner)


def _waiting(block: Block, in_loop: bool = False) -> float:
    """How long a work-item waits for its group and for copies: at each barrier outside of loops,
    and once in each step of a loop.
    """
    seconds = 0.0
    for op in block.ops:
        if isinstance(op, scf.ForOp):
            inner = _waiting(op.body.block, in_loop=True) + _wait_of(op.body.block)
            seconds += _steps(op) * inner
        elif isinstance(op, BarrierOp) and not in_loop:
            seconds += PHASE
        else:
            inner = [_waiting(found, in_loop) for found in _usual_blocks(op)]
            seconds += max(inner, default=0.0)
    return seconds


def _wait_of(body: Block) -> float:
    """How long a step of a loop waits, besides the loops in it."""
    waits = [op for op in body.ops if isinstance(op, BarrierOp | WaitCopiesOp)]
    if any(isinstance(op, WaitCopiesOp) for op in waits):
        return COPIES_STEP
    return STEP if waits else 0.0


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
        for block in _usual_blocks(op):
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
