"""The pointwise template where rows of the result are far apart in an operand: heads, panels.

In the order of the result, rows of 128 bytes are read from places a whole row of the operand apart.
No processor fetches these ahead. So a work-item takes a few rows that are neighbours in the
operand, along `axis` of the result, and walks down all of them together. Its reads are contiguous;
its writes go to as many places as it has rows.
"""

from math import prod

from mgn.dialects import kernel
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.index import Index, delinearised, lanes
from mgn.passes.lower_kernels.core.product import tile_start
from mgn.passes.lower_kernels.core.template import Job, Launch


def lower_interleaved(job: Job, shape: tuple[int, ...]) -> Launch:
    """Writes a pointwise kernel whose items walk down rows that are neighbours along an axis."""
    code = job.code
    axis, width, together, block = (
        job.entry(name) for name in ("axis", "width", "together", "block")
    )
    inner, along, beside = shape[-1], shape[-2], shape[axis]
    across, down = ceil_div(beside, together), ceil_div(along, block)
    others = tuple(size for n, size in enumerate(shape[:-2]) if n != axis)
    items = prod(others) * across * down
    item = code.counter(kernel.GlobalIdOp, 0, items)
    outer = list(delinearised(item // (across * down), others))
    first = tile_start(code, item % across, together, beside)
    start = tile_start(code, item // across % down, block, along)
    evaluator = job.evaluator(width)

    def one_vector(step: Index, place: Index, vector: Index) -> None:
        row = code.known(start + step, along)
        neighbour = code.known(first + place, beside)
        column = vector * width + lanes(width)
        index = (*outer[:axis], neighbour, *outer[axis:], row, column)
        job.write_at(evaluator, lambda _: index)

    def one_row(step: Index, place: Index) -> None:
        code.each(0, inner // width, lambda vector: one_vector(step, place, vector))

    def one_step(step: Index) -> None:
        code.each(0, together, lambda place: one_row(step, place))

    code.each(0, block, one_step)
    return Launch((items,))
