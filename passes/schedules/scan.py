"""The schedule of a scan: the width of its vectors of rows, and the work-items of a group."""

from mgn.dialects.mgn.operation import Kind
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.rows import row_space
from mgn.passes.schedules.schedule import Request, Schedule, Schedules

ROWS = "rows"
"""The one variant of the scan template."""


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
    return [Schedule(ROWS, {"width": width, "items": items}, request.facts("form"))]
