"""The pointwise template: every element of the results on its own.

CPU: a work-item takes a contiguous chunk, a vector at a time. Vectors run flat over all axes. They
run along the innermost axis where a flat vector would cross rows of an operand. Where an operand is
transposed, a work-item takes squares (squares.py) or rows side by side (interleaved_rows.py).

GPU: a work-item takes a few vectors of 16 bytes, a work-group apart. Where an operand is
transposed, a work-group takes a tile (tiles.py).
"""

from dataclasses import replace
from itertools import pairwise
from math import prod

from mgn.dialects import kernel
from mgn.passes.kernels.arithmetic import ceil_div, power_below
from mgn.passes.kernels.index import Index, delinearised, lanes
from mgn.passes.kernels.index_maps import reshaped_index
from mgn.passes.kernels.loads import in_place_pairs, is_flat, row_breaks
from mgn.passes.kernels.runs import run_shape
from mgn.passes.lower_kernels.core.evaluate import Evaluator
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.pointwise.interleaved_rows import lower_interleaved
from mgn.passes.lower_kernels.pointwise.ragged_tiles import RaggedTiles
from mgn.passes.lower_kernels.pointwise.squares import lower_squares
from mgn.passes.lower_kernels.pointwise.tiles import Tiles
from mgn.passes.schedules.pointwise import MOST_BREAKS, PointwiseVariant


def lower_pointwise(job: Job) -> Launch:
    """Writes a pointwise kernel as its schedule says."""
    shape, in_place = job.body.written[0].shape, in_place_pairs(job.body)
    match job.variant(PointwiseVariant):
        case PointwiseVariant.FLAT:
            return (_flat_gpu if job.is_gpu else _flat)(job, shape, in_place)
        case PointwiseVariant.ROWS:
            return _rows(job, in_place)
        case PointwiseVariant.SQUARES:
            launch, width = lower_squares(job, shape), job.entry("width")
            overlaps = shape[-1] % width or shape[job.entry("axis")] % width
            return launch if overlaps else replace(launch, in_place=in_place)
        case PointwiseVariant.SIDE_BY_SIDE:
            return lower_interleaved(job, shape)
        case PointwiseVariant.TILES | PointwiseVariant.SEGMENTS:
            return replace(Tiles(job, shape).lower(), in_place=in_place)
        case PointwiseVariant.RAGGED:
            return replace(RaggedTiles(job, shape).lower(), in_place=in_place)


def _flat(job: Job, shape: tuple[int, ...], in_place: tuple[tuple[int, int], ...]) -> Launch:
    code, count = job.code, job.body.written[0].count
    width, chunk = job.entry("width"), job.entry("block")
    vectors, rest = divmod(count, width)
    items = max(ceil_div(vectors, chunk), 1)
    item = code.counter(kernel.GlobalIdOp, 0, items)
    wide, narrow = job.evaluator(width), job.evaluator(1)
    axes = shape if is_flat(job.body, shape) else run_shape(job.body)

    def write(evaluator: Evaluator, position: Index) -> None:
        index = delinearised(position, axes)
        job.write_at(evaluator, lambda node: reshaped_index(index, axes, node.shape))

    if vectors:
        code.each_own(item, chunk, vectors, lambda n: write(wide, n * width + lanes(width)))
    if rest:
        last = code.is_below(item * -1 + (items - 1), 1, 1)
        code.when(
            last,
            lambda: code.each(count - rest, count, lambda i: write(narrow, i)),
        )
    return Launch((items,), (1,), in_place)


def _flat_gpu(job: Job, shape: tuple[int, ...], in_place: tuple[tuple[int, int], ...]) -> Launch:
    code = job.code
    width, local, unroll = (job.entry(name) for name in ("width", "items", "unroll"))
    vectors = job.body.written[0].count // width
    groups = ceil_div(vectors, local * unroll)
    group = code.counter(kernel.GroupIdOp, 0, groups)
    place = code.counter(kernel.LocalIdOp, 0, local)
    evaluator = job.evaluator(width)

    for step in range(unroll):
        vector = group * (local * unroll) + place + step * local

        def one_vector(vector: Index = vector) -> None:
            number = code.known(vector, vectors)
            index = delinearised(number * width + lanes(width), shape)
            job.write_at(evaluator, lambda _: index)

        code.when(code.is_below(vector, vectors, 1), one_vector)
    return Launch((groups * local,), (local,), in_place)


def _rows(job: Job, in_place: tuple[tuple[int, int], ...]) -> Launch:
    """Along the innermost axes. A row is walked in parts, between the places at which padding or
    another part of a concatenation begins; the last vector of a part ends with it, and so overlaps.
    """
    code, axes = job.code, run_shape(job.body)
    block, inner = job.entry("block"), job.entry("row")
    first = next(n for n in range(len(axes)) if prod(axes[n:]) == inner)
    rows = prod(axes[:first])
    items = ceil_div(rows, block)
    item = code.counter(kernel.GlobalIdOp, 0, items)
    breaks = row_breaks(job.body, axes) if inner == axes[-1] else []
    edges: list[int] = [0, *(breaks if len(breaks) <= MOST_BREAKS else []), inner]

    def one_row(row: Index, start: int, size: int) -> None:
        outer = delinearised(row, axes[:first])
        width = min(job.entry("width"), power_below(size))
        evaluator = job.evaluator(width)

        def one_vector(vector: Index) -> None:
            place = (vector * width).clamp(0, size - width)
            place = code.known(place, size - width + 1) + start + lanes(width)
            index = (*outer, *delinearised(place, axes[first:]))
            job.write_at(evaluator, lambda node: reshaped_index(index, axes, node.shape))

        code.each(0, ceil_div(size, width), one_vector)

    walks = [(start, end - start) for start, end in pairwise(edges)]
    code.each_own(item, block, rows, lambda row: [one_row(row, *walk) for walk in walks])
    overlaps = any(size % min(job.entry("width"), power_below(size)) for _, size in walks)
    return Launch((items,), in_place=() if overlaps else in_place)
