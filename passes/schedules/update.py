"""The schedule of an update: what is written into a part of a tensor, walked in its own order.

On a CPU a work-item takes a few rows of what is written, a vector at a time, or vectors of a few
long rows; on a GPU a vector.
"""

from enum import StrEnum

from mgn.dialects.fusion.forms import UPDATE
from mgn.passes.kernels.arithmetic import ceil_div, dividing_lanes, power_above
from mgn.passes.kernels.body import Body, Node
from mgn.passes.schedules.core.schedule import Request, Schedule, Schedules

ROWS_A_UNIT = 8
"""Rows that each compute unit should have for work-items to take whole rows."""


class UpdateVariant(StrEnum):
    """A variant of the update template."""

    PART = "part"
    ROWS = "rows"


def update_of(body: Body) -> Node:
    """The update of a body."""
    (node,) = [node for node in body.nodes if node.name == UPDATE]
    return node


def update_schedules(request: Request) -> Schedules:
    """The schedules of an update; there is one."""
    update = update_of(request.body)
    part = update.operands[1]
    lanes, units = request.number("lanes", 16), request.number("units", 1)
    inner = part.shape[-1] if part.count else 1
    width, rows = dividing_lanes(inner, lanes), part.count // inner
    passes = (0.0, *[1.0] * (len(update.operands) - 1))
    if not request.is_gpu and inner >= lanes and rows >= ROWS_A_UNIT * units:
        numbers = {"width": lanes, "block": max(1, request.number("chunk", 4096) // inner)}
        return [Schedule(UpdateVariant.ROWS, numbers, request.facts("form"), 0.0, passes)]
    vectors = part.count // width
    if request.is_gpu:
        items = min(request.number("local", 256), power_above(max(vectors, 1)))
        numbers = {"width": width, "items": items, "block": 1}
    else:
        share = ceil_div(vectors, units)
        block = max(1, min(request.number("chunk", 4096) // width, share))
        numbers = {"width": width, "items": 1, "block": block}
    return [Schedule(UpdateVariant.PART, numbers, request.facts("form"), 0.0, passes)]
