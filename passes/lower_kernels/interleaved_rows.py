"""The pointwise template where rows of the result are far apart in an operand: heads, panels.

In the order of the result, rows of 128 bytes are read a whole row of the operand apart, which no
processor fetches ahead. A work-item takes a few rows that are neighbours there, along `axis` of the
result, and walks down them side by side: what it reads lies together, what it writes in as many
places.
"""

from math import prod

from mgn.dialects import kernel
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.body import Body
from mgn.passes.kernels.index import Atom, Clamped, Index, delinearised, lanes
from mgn.passes.lower_kernels.product import tile_start
from mgn.passes.lower_kernels.squares import is_plain, plain_loads
from mgn.passes.lower_kernels.template import Job, Launch

TOGETHER = 256
"""Elements of neighbouring rows that are read together."""


def interleaved_axis(body: Body, shape: tuple[int, ...]) -> int | None:
    """The axis along which rows of the result are neighbours in an operand; None where the rows
    that follow each other in the result are, or where a row is long enough to be read by itself.
    """
    turned = any(node.name == "transpose" for node in body.nodes)
    if not turned or len(shape) < 3 or shape[-2] == 1 or 2 * shape[-1] > TOGETHER:
        return None
    counters, loads, _ = plain_loads(body, shape)
    for _, index in loads:
        strides = {_within(atom): stride for atom, stride in index.terms}
        if strides.get(counters[-1]) != 1 or strides.get(counters[-2], 0) <= shape[-1]:
            continue
        for axis, counter in enumerate(counters[:-2]):
            if strides.get(counter) == shape[-1] and is_plain(index, *counters[-2:]):
                return axis
    return None


def _within(atom: Atom) -> Atom:
    """The counter that is clamped to the part of a tensor that is read, as of a concatenation."""
    if isinstance(atom, Clamped) and [step for _, step in atom.inner.terms] == [1]:
        return atom.inner.terms[0][0]
    return atom


def lower_interleaved(job: Job, shape: tuple[int, ...], axis: int, width: int) -> Launch:
    """Writes a pointwise kernel whose items walk down rows that are neighbours along an axis."""
    code = job.code
    inner, along, beside = shape[-1], shape[-2], shape[axis]
    together = min(beside, TOGETHER // inner)
    block = max(1, min(along, job.number("chunk", 4096) // (together * inner)))
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
        job.write(evaluator, [(n, node, index) for n, node in enumerate(job.body.written)])

    def one_row(step: Index, place: Index) -> None:
        code.each(0, inner // width, lambda vector: one_vector(step, place, vector))

    def one_step(step: Index) -> None:
        code.each(0, together, lambda place: one_row(step, place))

    code.each(0, block, one_step)
    return Launch((items,))
