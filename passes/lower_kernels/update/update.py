"""The update template: a part of a tensor is written, and the rest is not touched.

The result lies where the tensor did, or is a copy of it before the kernel runs: `starts_as` says
so. A work-item takes some vectors of what is written, in its order, and stores each as far on as
the part begins.
"""

from mgn.dialects import kernel
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.body import Indices, Node
from mgn.passes.kernels.index import Counter, Index, constant, delinearised, lanes, linear, of
from mgn.passes.lower_kernels.core.evaluate import Evaluator
from mgn.passes.lower_kernels.core.movement import clamped_id
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.schedules.update import update_of


def lower_update(job: Job) -> Launch:
    """Writes an update kernel."""
    code, update = job.code, update_of(job.body)
    whole, part, *_ = update.operands
    pair = (whole.number, len(job.body.inputs))
    if not part.count:
        return Launch((1,), in_place=(pair,), starts_as=(pair,))
    width, local, block = (job.entry(name) for name in ("width", "items", "block"))
    vectors = part.count // width
    items = ceil_div(ceil_div(vectors, block), local) * local
    item = code.counter(kernel.GlobalIdOp, 0, items)
    evaluator = job.evaluator(width)
    first = first_index(job.evaluator(), update)

    def one_vector(step: Index) -> None:
        number = code.known(item * block + step, vectors)
        index = delinearised(number * width + lanes(width), part.shape)
        value = evaluator.lanes_at(part, index)
        place = linear(tuple(i + f for i, f in zip(index, first, strict=True)), update.shape)
        place = place.at_lane(0) if width > 1 else place
        code.store(value, job.outputs[0], code.index(place), place.multiple)

    trips: Index | int = block
    if vectors % block:
        trips = (item * -block + vectors).clamp(0, block)
    within = code.is_below(item * block, vectors, 1)
    code.when(within, lambda: code.each(0, trips, one_vector))
    return Launch((items,), (local,), in_place=(pair,), starts_as=(pair,))


def first_index(evaluator: Evaluator, update: Node) -> Indices:
    """Where the part begins, inside the tensor."""
    _, part, *starts = update.operands
    return tuple(
        _start(evaluator, starts, axis, whole - size)
        for axis, (whole, size) in enumerate(zip(update.shape, part.shape, strict=True))
    )


def _start(evaluator: Evaluator, starts: list[Node], axis: int, limit: int) -> Index:
    if not limit:
        return constant(0)
    start = starts[min(axis, len(starts) - 1)]
    number = evaluator.at(start, (constant(axis),) if start.shape else ())
    return of(Counter(clamped_id(evaluator, start, number, limit), 0, limit))
