"""The schedule of an update: what is written into a part of a tensor, walked in its own order.

On a CPU a work-item takes a few rows of what is written, a vector at a time; on a GPU a vector.
"""

from mgn.dialects.fusion.forms import UPDATE
from mgn.passes.kernels.arithmetic import ceil_div, dividing_lanes, power_above
from mgn.passes.kernels.body import Body, Node
from mgn.passes.schedules.core.schedule import Request, Schedule, Schedules

PART = "part"
"""The one variant of the update template."""


def update_of(body: Body) -> Node:
    """The update of a body."""
    (node,) = [node for node in body.nodes if node.name == UPDATE]
    return node


def update_schedules(request: Request) -> Schedules:
    """The schedules of an update; there is one."""
    update = update_of(request.body)
    part = update.operands[1]
    width = dividing_lanes(part.shape[-1], request.number("lanes", 16)) if part.count else 1
    vectors = part.count // width
    if request.is_gpu:
        items = min(request.number("local", 256), power_above(max(vectors, 1)))
        numbers = {"width": width, "items": items, "block": 1}
    else:
        share = ceil_div(vectors, request.number("units", 1))
        block = max(1, min(request.number("chunk", 4096) // width, share))
        numbers = {"width": width, "items": 1, "block": block}
    passes = (0.0, *[1.0] * (len(update.operands) - 1))
    return [Schedule(PART, numbers, request.facts("form"), 0.0, passes)]
