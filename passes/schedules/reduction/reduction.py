"""The schedules of a reduction: groups of a GPU, or a CPU's walks along rows or across them."""

from enum import StrEnum

from mgn.dialects.stabilising_maximum import MAXIMUM
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.rows import RowSpace, elements_in_line, lanes_along, row_space
from mgn.passes.kernels.runs import line_of_rows
from mgn.passes.kernels.sliding_windows import sliding_windows
from mgn.passes.kernels.window_planes import planes_of_reduction
from mgn.passes.schedules.core.schedule import Request, Schedule, Schedules
from mgn.passes.schedules.reduction.row_groups import grouping
from mgn.passes.schedules.reduction.sliding_tiles import sliding_numbers
from mgn.passes.schedules.reduction.window_planes import planes_numbers

SHORT = 255
"""Elements of rows up to which two are walked side by side: one's vectors have too little to do
while its lanes are combined.
"""


class ReductionVariant(StrEnum):
    """A variant of the reduction template."""

    GROUPS = "groups"
    ALONG = "along rows"
    ACROSS = "across rows"
    PLANES = "planes"
    SLIDING = "sliding tiles"


def reduction_schedules(request: Request) -> Schedules:
    """The schedules of a reduction; there is one."""
    space = row_space(request.body)
    facts = request.facts("form", "lanes", "sub_group", "ahead", MAXIMUM)
    if request.is_gpu and (windows := sliding_windows(request.body, space)) is not None:
        variant = ReductionVariant.SLIDING
        numbers = sliding_numbers(request, space, windows)
    elif request.is_gpu:
        variant, numbers = ReductionVariant.GROUPS, grouping(request, space).entries
    elif (planes := planes_of_reduction(request.body, space)) is not None:
        variant, numbers = ReductionVariant.PLANES, planes_numbers(request, planes)
    elif space.innermost_is_kept:
        variant, numbers = ReductionVariant.ACROSS, _across_rows(request, space)
    else:
        variant, numbers = ReductionVariant.ALONG, _along_rows(request, space)
    return [Schedule(variant, numbers, facts)]


def _along_rows(request: Request, space: RowSpace) -> dict[str, int]:
    """Vectors along rows: how many rows are walked side by side, and whether what a stage computes
    is stored for the next, and into which lines results cut a row.
    """
    in_line = elements_in_line(request.body, space)
    width = lanes_along(space, in_line, request.number("lanes", 16))
    together = 2 if space.rows > 1 and space.length <= SHORT else 1
    walks = ceil_div(space.rows, together)
    chunk = request.number("chunk", 4096) // max(together * space.length, 1)
    numbers = {
        "width": width,
        "side_by_side": together,
        "block": max(1, min(walks, chunk)),
        "stored": int(space.length <= request.number("stash", 8192)),
    }
    line = line_of_rows(request.body, space) if in_line == space.length else space.length
    return numbers if line == space.length or line < width else {**numbers, "line": line}


def _across_rows(request: Request, space: RowSpace) -> dict[str, int]:
    """Vectors of rows that are neighbours: how many a work-item walks side by side."""
    inner = next(size for size in reversed(space.kept_shape) if size != 1)
    width = request.number("lanes", 16)
    while width > inner:
        width //= 2
    outer, vectors = space.rows // inner, ceil_div(inner, width)
    together = _together(vectors, outer, request.number("units", 2))
    return {"width": width, "side_by_side": together}


def _together(vectors: int, outer: int, units: int) -> int:
    """How many vectors a work-item walks side by side: four, unless cores would then stand idle."""
    for count in (4, 2):
        if outer * ceil_div(vectors, count) >= 4 * units:
            return count
    return 1
