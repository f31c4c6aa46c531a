"""The schedules of a pointwise kernel: flat, or by how what it reads lies in memory.

On a CPU a work-item takes a contiguous chunk, a vector at a time. Vectors run flat over all axes.
They run along the innermost axis where a flat vector would cross rows of what the kernel reads.
Where an operand is transposed, a work-item takes squares, or rows side by side.

On a GPU a work-item takes a few vectors, which lie a work-group apart. Where an operand is
transposed, a work-group takes a tile.
"""

from enum import StrEnum
from itertools import pairwise

from mgn.passes.kernels.arithmetic import ceil_div, dividing_lanes, power_above, power_below
from mgn.passes.kernels.body import Body
from mgn.passes.kernels.loads import in_place_pairs, is_flat, is_plain, plain_loads, row_breaks
from mgn.passes.kernels.runs import run_shape
from mgn.passes.schedules.core.schedule import Request, Schedule, Schedules
from mgn.passes.schedules.transposes import (
    RAGGED_ITEMS,
    RAGGED_TILES,
    TOGETHER,
    has_vectors,
    interleaved_axis,
    row_axis,
    tile_sizes,
    tiled_axis,
    turned_bytes,
    turned_loads,
)

Shape = tuple[int, ...]


class PointwiseVariant(StrEnum):
    """A variant of the pointwise template."""

    FLAT = "flat"
    ROWS = "rows"
    SQUARES = "squares"
    SIDE_BY_SIDE = "rows side by side"
    TILES = "tiles"
    SEGMENTS = "tiles in segments"
    RAGGED = "ragged tiles"


def pointwise_schedules(request: Request) -> Schedules:
    """The schedules of a pointwise kernel; there is one."""
    shape, most = request.body.written[0].shape, request.number("lanes", 16)
    if request.is_gpu:
        variant, numbers = _on_gpu(request, shape, most)
    else:
        variant, numbers = _on_cpu(request, shape, most)
    return [Schedule(variant, numbers, request.facts("form", "lanes"))]


def _on_gpu(request: Request, shape: Shape, most: int) -> tuple[PointwiseVariant, dict[str, int]]:
    body = request.body
    if is_flat(body, shape):
        return PointwiseVariant.FLAT, _groups(request, dividing_lanes(body.written[0].count, most))
    axis = tiled_axis(body, shape)
    if axis is None:
        return PointwiseVariant.FLAT, _groups(request, dividing_lanes(_inner(shape), most))
    if has_vectors(request, shape, axis):
        rows, columns = RAGGED_TILES[sum(turned_bytes(body, turned_loads(body, shape, axis)))]
        numbers = {"tile_rows": rows, "tile_columns": columns, "items": RAGGED_ITEMS}
        return PointwiseVariant.RAGGED, {"axis": axis, **numbers}
    sizes = tile_sizes(request, shape, axis)
    variant = PointwiseVariant.SEGMENTS if sizes.segments else PointwiseVariant.TILES
    numbers = {"tile_rows": sizes.rows, "tile_columns": sizes.columns, "items": sizes.items}
    return variant, {"axis": axis, **numbers}


def _on_cpu(request: Request, shape: Shape, most: int) -> tuple[PointwiseVariant, dict[str, int]]:
    body, inner, chunk = request.body, _inner(shape), request.number("chunk", 4096)
    if is_flat(body, shape):
        return PointwiseVariant.FLAT, _chunks(request, most)
    axis = row_axis(body, shape, most)
    if axis is not None:
        block = max(1, min(ceil_div(inner, most), chunk // (most * most)))
        return PointwiseVariant.SQUARES, {"axis": axis, "width": most, "block": block}
    fitting = dividing_lanes(inner, most)
    axis = None if 2 * fitting < most else interleaved_axis(body, shape)
    if axis is not None:
        together = min(shape[axis], TOGETHER // inner)
        block = max(1, min(shape[-2], chunk // (together * inner)))
        numbers = {"width": fitting, "together": together, "block": block}
        return PointwiseVariant.SIDE_BY_SIDE, {"axis": axis, **numbers}
    axes = run_shape(body)
    fitting = dividing_lanes(axes[-1], most)
    breaks = row_breaks(body, axes)
    rows, inner = body.written[0].count // axes[-1], axes[-1]
    apart = any(place % fitting for place in breaks) or bool(breaks and 2 * fitting < most)
    long = inner >= LONG_ROW * most and (inner % most == 0 or not in_place_pairs(body))
    enough = rows >= ROWS_A_UNIT * request.number("units", 1) or rows * inner <= chunk
    if enough and len(breaks) <= MOST_BREAKS and (apart or long):
        longest = max(b - a for a, b in pairwise([0, *breaks, inner]))
        numbers = {"width": min(most, power_below(longest)), "row": inner}
        return PointwiseVariant.ROWS, {**numbers, "block": max(1, min(rows, chunk // inner))}
    if 2 * fitting >= most or body.written[0].count < most:
        return PointwiseVariant.FLAT, _chunks(request, fitting)
    row, width = _row(axes, most, _lies_in_rows(body, axes))
    rows = body.written[0].count // row
    block = max(1, min(rows, chunk // row))
    return PointwiseVariant.ROWS, {"width": width, "row": row, "block": block}


MOST_BREAKS, ROWS_A_UNIT = 8, 4
"""Places in a row at which what is read changes, each part of which is walked by itself; and rows
that each compute unit should have then.
"""

LONG_ROW = 4
"""Vectors of a row from which on rows are walked, where what is read is not in their order: a place
is then found once for each.
"""

LEAST_RUN = 4
"""Neighbours that are worth reading as a vector; of fewer, a vector has several rows of them."""


def _row(axes: Shape, most: int, lies_in_rows: bool) -> tuple[int, int]:
    """The elements of a row, along as many of the innermost axes as it takes to fill a vector, and
    the lanes of a vector; less where neighbours are read.
    """
    if lies_in_rows and axes[-1] >= LEAST_RUN:
        return axes[-1], min(most, power_below(axes[-1]))
    row = 1
    for size in reversed(axes):
        row *= size
        if row >= most:
            break
    return row, min(most, power_below(row))


def _lies_in_rows(body: Body, axes: Shape) -> bool:
    """Whether all that is read along the innermost axis are neighbours, or one element."""
    counters, loads = plain_loads(body, axes, counted=True)
    return all(
        dict(index.terms).get(counters[-1], 0) in (0, 1) and is_plain(index, counters[-1])
        for _, index in loads
    )


def _inner(shape: Shape) -> int:
    return shape[-1] if shape else 1


def _chunks(request: Request, width: int) -> dict[str, int]:
    """Vectors of a work-item's chunk on a CPU."""
    vectors = request.body.written[0].count // width
    block = max(1, min(request.number("chunk", 4096) // width, vectors or 1))
    return {"width": width, "block": block}


def _groups(request: Request, width: int) -> dict[str, int]:
    """Work-items of a group on a GPU, and how many vectors each takes."""
    vectors = request.body.written[0].count // width
    local = min(request.number("local", 256), power_above(vectors))
    unroll = request.number("unroll", 1) if vectors >= local * 1024 else 1
    return {"width": width, "items": local, "unroll": unroll}
