"""Launches are moved up in a program, with the operations that say where their buffers lie.

In: launches of a run, and another order of them. Out: the program in that order.
"""

from collections.abc import Mapping, Sequence

from xdsl.ir import Block, Operation, SSAValue

from mgn.dialects.plan.buffers import ViewOp
from mgn.dialects.plan.states import NextOp
from mgn.dialects.plan.steps import LaunchOp

Places = dict[Operation, int]
"""Where operations stand in their block; those that were moved, where the one behind them did."""


def places_in(block: Block) -> Places:
    """Where all operations of a block stand."""
    return {op: number for number, op in enumerate(block.ops)}


def is_movable(launch: LaunchOp, first: LaunchOp, places: Mapping[Operation, int]) -> bool:
    """Whether a launch may stand before all from `first` on, as far as its buffers are there."""

    def is_there(value: SSAValue) -> bool:
        owner = value.owner
        if not isinstance(owner, Operation) or isinstance(owner, ViewOp):
            return True
        if isinstance(owner, NextOp):
            return is_there(owner.state)
        return places[owner] < places[first]

    return all(map(is_there, launch.arguments))


def put_in_order(run: Sequence[LaunchOp], order: Sequence[int], places: Places) -> list[LaunchOp]:
    """Moves up those launches of a run which stand behind one that follows them in an order."""
    launches, least = [run[number] for number in order], len(run)
    for number in reversed(range(len(run) - 1)):
        least = min(least, order[number + 1])
        if order[number] > least:
            _move_before(launches[number], launches[number + 1], places)
    return launches


def _move_before(launch: LaunchOp, other: LaunchOp, places: Places) -> None:
    block = other.parent_block()
    assert block is not None
    owners = [value.owner for value in launch.arguments]
    late = [
        owner
        for owner in dict.fromkeys(owners)
        if isinstance(owner, ViewOp | NextOp) and places[owner] > places[other]
    ]
    for op in (*late, launch):
        op.detach()
        block.insert_op_before(op, other)
        places[op] = places[other]
