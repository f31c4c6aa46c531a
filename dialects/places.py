"""Places of operations in a program's text, and the pass of a training step that they belong to.

In: the location of an operation. Out: the place, and whether the operation belongs to the forward
pass, as the program was written, to the backward pass, which computes its gradients, or to the
update, which training adds behind them.

The pass is a name around a place, as MLIR has it: `loc("backward"("net.mgn":3:7))` is an operation
that computes a gradient of what stands in line 3.
"""

from collections.abc import Iterable
from functools import lru_cache

from xdsl.dialects.builtin import (
    FileLineColLoc,
    LocationAttr,
    NameLoc,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Operation

FORWARD, BACKWARD, UPDATE = PHASES = ("forward", "backward", "update")
"""The parts of a training step, in their order."""


def text_place(location: object) -> FileLineColLoc | None:
    """The place in a text; None where it is not known."""
    while isinstance(location, NameLoc):
        location = location.location
    return location if isinstance(location, FileLineColLoc) else None


@lru_cache(1 << 12)
def in_phase(location: LocationAttr | None, phase: str) -> NameLoc:
    """The same place, in a part of a training step."""
    return NameLoc(StringAttr(phase), text_place(location) or UnknownLoc())


def phase_of(location: object) -> str:
    """The part of a training step that an operation belongs to."""
    name = location.desc.data if isinstance(location, NameLoc) else FORWARD
    return name if name in PHASES else FORWARD


def phases_of(operations: Iterable[Operation]) -> tuple[str, ...]:
    """The parts that some operations belong to, as far as it is known of them, in order."""
    found = {phase_of(op.location) for op in operations if not isinstance(op.location, UnknownLoc)}
    return tuple(phase for phase in PHASES if phase in found)
