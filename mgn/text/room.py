"""How many tokens the caches of a decoder have room for.

In: the IR of a graph `decode`. Out: the fewest places of a state that it writes one place of, where
the place is a state that counts the tokens; None where there is no such state.

    k <- dynamic_update_slice(k, row, [0, position, 0])    # k: f32[2, 96, 8], row: f32[2, 1, 8]: 96
    position <- position + 1
"""

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue

from mgn.dialects.mgn.states import ReadStateOp, WriteStateOp

_PASSED_ON = frozenset({"mgn.reshape", "mgn.cast", "mgn.squeeze", "mgn.expand_dims"})
"""Operations whose result is their operand's number."""


@dataclass(frozen=True)
class Room:
    """The places of the smallest cache, and the state that is it."""

    places: int
    state: str


def room_of(module: ModuleOp) -> Room | None:
    """The room of a graph's caches."""
    writes = [op for op in module.walk() if isinstance(op, WriteStateOp)]
    counters = {name for op in writes if (name := _counter_of(op)) is not None}
    found = [room for op in writes if (room := _room_of(op, counters)) is not None]
    return min(found, key=lambda room: room.places, default=None)


def _counter_of(write: WriteStateOp) -> str | None:
    """The state that is written, where it becomes one more than it was."""
    added = _owner(write.value)
    if added is None or added.name != "mgn.add":
        return None
    read = {_state_of(operand) for operand in added.operands}
    return write.state_name if write.state_name in read else None


def _room_of(write: WriteStateOp, counters: set[str]) -> Room | None:
    """The places of a state, where a part of it is written at a counter."""
    update = _owner(write.value)
    if update is None or update.name != "mgn.dynamic_update_slice":
        return None
    whole, part, *starts = update.operands
    assert isinstance(whole.type, TensorType) and isinstance(part.type, TensorType)
    sizes = zip(whole.type.get_shape(), part.type.get_shape(), strict=True)
    if len(starts) != whole.type.get_num_dims():
        return None
    places = [
        size
        for (size, taken), start in zip(sizes, starts, strict=True)
        if taken < size and _state_of(start) in counters
    ]
    return Room(min(places), write.state_name) if places else None


def _state_of(value: SSAValue) -> str | None:
    """The state whose value this is."""
    op = _owner(value)
    while op is not None and op.name in _PASSED_ON:
        op = _owner(op.operands[0])
    return op.state_name if isinstance(op, ReadStateOp) else None


def _owner(value: SSAValue) -> Operation | None:
    return value.owner if isinstance(value.owner, Operation) else None
