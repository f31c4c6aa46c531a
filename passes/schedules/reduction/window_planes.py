"""The schedule of a reduction of windows on a CPU: bands of rows, copied with their padding.

In: the planes that windows slide over, a request. Out: the numbers of a schedule: rows of a band,
vectors of places that a work-item holds at a time, and how many bands it takes.
"""

from math import prod

from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.window_planes import Band, WindowPlanes
from mgn.passes.schedules.core.packed_blocking import evenly
from mgn.passes.schedules.core.schedule import Request

BAND_ELEMENTS = 8192
"""Elements of a copy that the nearest cache should hold."""

MOST_HELD = 8
"""Vectors of places whose sums are in registers."""

ITEMS_A_UNIT = 8
"""Work-items that each compute unit should have."""

WASTED = 1.3
"""How many more lanes vectors in rows of places may take than vectors over rows, before these are
better though their results pass through memory.
"""


def planes_numbers(request: Request, planes: WindowPlanes) -> dict[str, int]:
    """The numbers of a schedule."""
    rows, columns = planes.places
    channels, units = prod(planes.outer), request.number("units", 2)
    band = rows
    while band > 1 and Band(planes, band).size > BAND_ELEMENTS:
        band = ceil_div(band, 2)
    while band > 4 and channels * ceil_div(rows, band) < ITEMS_A_UNIT * units:
        band = ceil_div(band, 2)
    band = evenly(rows, band)
    width = request.number("lanes", 16)
    while width > columns:
        width //= 2
    in_rows = rows * ceil_div(columns, width) * width
    lanes = request.number("lanes", 16)
    stride = Band(planes, band).stride
    over = int(width < lanes and in_rows * lanes > WASTED * rows * stride * width)
    tasks = channels * ceil_div(rows, band)
    block = max(1, min(16, tasks // (ITEMS_A_UNIT * units)))
    numbers = {"band": band, "block": block, "over_rows": over, "write_width": width}
    if over:
        vectors = ceil_div(band * stride, lanes)
        return {**numbers, "width": lanes, "tile_rows": 1, "tile_vectors": evenly(vectors, 4)}
    vectors = evenly(ceil_div(columns, width), 4)
    down = evenly(band, min(MOST_HELD // vectors, band))
    return {**numbers, "width": width, "tile_rows": down, "tile_vectors": vectors}
