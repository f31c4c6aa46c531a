"""The schedule of a reduction of windows on a GPU: the tile of places that a work-item has.

In: the windows that slide, a request. Out: the numbers of a schedule. A work-item has a few places
below one another, whose windows share lines, and a vector of places beside one another where lines
are of whole vectors. Neighbouring work-items have neighbouring vectors.
"""

from mgn.passes.kernels.arithmetic import ceil_div, dividing_lanes
from mgn.passes.kernels.rows import RowSpace
from mgn.passes.kernels.sliding_windows import SlidingWindows
from mgn.passes.schedules.core.packed_blocking import evenly
from mgn.passes.schedules.core.schedule import Request

ITEMS, LEAST_ITEMS = 256, 32
"""Work-items of a group, and of one where there are few in all."""

MOST_ROWS, MOST_PLACES = 8, 16
"""Places below one another that a work-item has at most, and in all."""

MOST_READ = 64
"""Elements of the source that a work-item of several places reads at most, each in a register."""

GROUPS_A_UNIT = 4
"""Groups that each compute unit should have before work-items have several places."""


def sliding_numbers(request: Request, space: RowSpace, windows: SlidingWindows) -> dict[str, int]:
    """The numbers of a schedule."""
    down = windows.places[-2] if windows.axes > 1 else 1
    least = GROUPS_A_UNIT * ITEMS * request.number("units", 1)
    across = dividing_lanes(windows.line, request.number("lanes", 4))
    across = dividing_lanes(windows.places[-1], across)
    while across > 1 and space.rows // across < least:
        across //= 2
    across = min(request.number("window_columns", across), windows.places[-1])
    rows = max(min(MOST_ROWS, MOST_PLACES // across, down), 1)

    def is_too_large(rows: int, across: int) -> bool:
        few = space.rows // (down * across) * ceil_div(down, rows) < least
        return few or windows.lines_read(rows) * windows.line_read(across) > MOST_READ

    while rows > 1 and is_too_large(rows, across):
        rows = ceil_div(rows, 2)
    rows = min(request.number("window_rows", evenly(down, rows)), down)
    items = min(ITEMS, request.number("local", ITEMS))
    while items > LEAST_ITEMS and items // 2 * request.number("units", 1) >= space.rows // across:
        items //= 2
    return {"window_rows": rows, "window_columns": across, "items": items}
