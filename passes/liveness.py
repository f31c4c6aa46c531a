"""When each value of a launched graph is first written and last read, and who may share memory.

In: the body of an `mgn.graph` that holds launches. Out: one `Slot` for each block of memory that is
needed; values that a kernel may compute in place share one.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from mgn.dialects.fusion import LaunchOp
from mgn.dialects.kernel.buffers import buffer_type, byte_size

Pairs = Mapping[str, frozenset[tuple[int, int]]]
"""Kernel name to the argument positions (read, written) that may share memory."""


@dataclass
class Slot:
    """A block of `size` bytes, in use from step `first` to step `last`."""

    size: int
    first: int
    last: int


def tensor_bytes(value: SSAValue) -> int:
    """Bytes that a tensor takes in a buffer."""
    return byte_size(buffer_type(cast(TensorType[Attribute], value.type)))


def assign_slots(
    launches: Sequence[LaunchOp],
    kept: Sequence[SSAValue],
    in_place: Pairs,
    elsewhere: Container[SSAValue] = (),
) -> dict[SSAValue, Slot]:
    """The slot of each launch's result but those that lie elsewhere. Step i is the i-th launch;
    `kept` values live on.
    """
    last_read = _last_reads(launches)
    for value in kept:
        last_read[value] = len(launches)
    slots: dict[SSAValue, Slot] = {}
    for step, launch in enumerate(launches):
        pairs = in_place.get(launch.kernel_name)
        taken = _reusable(launch, step, slots, last_read, pairs, elsewhere)
        for position, result in enumerate(launch.outputs):
            if result in elsewhere:
                continue
            last = last_read.get(result, step)
            slot = taken.get(position)
            if slot is None:
                slots[result] = Slot(tensor_bytes(result), step, last)
                continue
            slot.last = last
            slots[result] = slot
    return slots


def _last_reads(launches: Sequence[LaunchOp]) -> dict[SSAValue, int]:
    return {value: step for step, launch in enumerate(launches) for value in launch.inputs}


def _reusable(
    launch: LaunchOp,
    step: int,
    slots: Mapping[SSAValue, Slot],
    last_read: Mapping[SSAValue, int],
    pairs: frozenset[tuple[int, int]] | None,
    elsewhere: Container[SSAValue],
) -> dict[int, Slot]:
    """Result number to the slot of an input that ends here and that the kernel may write over."""
    taken: dict[int, Slot] = {}
    used: set[int] = set()
    inputs = list(launch.inputs)
    for read, written in sorted(pairs or ()):
        position = written - len(inputs)
        if read >= len(inputs) or not 0 <= position < len(launch.outputs):
            continue
        value = inputs[read]
        slot = slots.get(value)
        if slot is None or position in taken or id(slot) in used:
            continue
        if launch.outputs[position] in elsewhere:
            continue
        if last_read[value] > step or inputs.count(value) > 1:
            continue
        if tensor_bytes(launch.outputs[position]) != tensor_bytes(value):
            continue
        taken[position] = slot
        used.add(id(slot))
    return taken
