"""The schedule of a scan: the width of its vectors of rows, and the work-items of a group."""

from mgn.dialects.mgn.operation import Kind
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.rows import row_space
from mgn.passes.schedules.schedule import Request, Schedule, Schedules

ROWS = "rows"
"""The one variant of the scan template."""

STEPS = {True: 96.0, False: 4.0}
"""Steps an element of a scan takes on a CPU and on a GPU: one waits for the one before."""

ONE_BY_ONE = 0.75
"""What an element takes by itself on a CPU, in the time of a vector."""


def scan_schedules(request: Request) -> Schedules:
    """The schedules of a scan; there is one."""
    space = row_space(request.body, Kind.SCAN)
    width, inner = 1, 1
    if space.innermost_is_kept:
        inner = next(size for size in reversed(space.kept_shape) if size != 1)
        width = request.number("lanes", 16)
        while width > inner:
            width //= 2
    walks = ceil_div(inner, width) * (space.rows // inner)
    items = min(request.number("local", 64), walks) if request.is_gpu else 1
    (node,) = request.body.of_kind(Kind.SCAN)
    cpu = not request.is_gpu
    seconds = 2.0 * STEPS[cpu] * node.count / request.device.rate(node.element.name)
    alone = max(ONE_BY_ONE * request.number("lanes", 16), 1.0) if cpu and width == 1 else 1.0
    numbers, facts = {"width": width, "items": items}, request.facts("form")
    return [Schedule(ROWS, numbers, facts, seconds, (1.0,), alone)]
