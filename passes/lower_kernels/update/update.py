"""The update template: a part of a tensor is written, and the rest is not touched.

The result lies where the tensor did, or is a copy of it before the kernel runs: `starts_as` says
so. A work-item takes some vectors of what is written, in its order, or some rows of it, and stores
each as far on as the part begins.
"""

from mgn.dialects import kernel
from mgn.passes.kernels.arithmetic import ceil_div, shorter_vectors
from mgn.passes.kernels.body import Indices, Node
from mgn.passes.kernels.index import Counter, Index, constant, delinearised, lanes, linear, of
from mgn.passes.lower_kernels.core.evaluate import Evaluator
from mgn.passes.lower_kernels.core.movement import clamped_id
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.schedules.update import UpdateVariant, update_of


def lower_update(job: Job) -> Launch:
    """Writes an update kernel."""
    update = update_of(job.body)
    whole, part, *_ = update.operands
    pair = (whole.number, len(job.body.inputs))
    if not part.count:
        return Launch((1,), in_place=(pair,), starts_as=(pair,))
    writing = _Part(job, update)
    match job.variant(UpdateVariant):
        case UpdateVariant.PART:
            sizes = writing.in_vectors()
        case UpdateVariant.ROWS:
            sizes = writing.in_rows()
    return Launch(*sizes, in_place=(pair,), starts_as=(pair,))


class _Part:
    """What is written, by its update."""

    def __init__(self, job: Job, update: Node) -> None:
        self.job, self.code, self.update = job, job.code, update
        self.part, self.first = update.operands[1], first_index(job.evaluator(), update)

    def in_vectors(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Vectors in the order of the part."""
        job, code, shape = self.job, self.code, self.part.shape
        width, local, block = (job.entry(name) for name in ("width", "items", "block"))
        vectors = self.part.count // width
        items = ceil_div(ceil_div(vectors, block), local) * local
        item = code.counter(kernel.GlobalIdOp, 0, items)
        evaluator = job.evaluator(width)

        def one_vector(step: Index) -> None:
            number = code.known(item * block + step, vectors)
            self._write(evaluator, delinearised(number * width + lanes(width), shape))

        trips: Index | int = block
        if vectors % block:
            trips = (item * -block + vectors).clamp(0, block)
        within = code.is_below(item * block, vectors, 1)
        code.when(within, lambda: code.each(0, trips, one_vector))
        return (items,), (local,)

    def in_rows(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Rows, a vector after the other; what is left of each is written by shorter ones."""
        job, code = self.job, self.code
        width, block = job.entry("width"), job.entry("block")
        *outer, inner = self.part.shape
        rows = self.part.count // inner
        items = ceil_div(rows, block)

        def one_row(row: Index) -> None:
            place = delinearised(row, tuple(outer))

            def write(start: Index, count: int) -> None:
                self._write(job.evaluator(count), (*place, start + lanes(count)))

            code.each(0, inner // width, lambda number: write(number * width, width))
            for start, count in shorter_vectors(inner, width):
                write(constant(start), count)

        code.each_own(code.counter(kernel.GlobalIdOp, 0, items), block, rows, one_row)
        return (items,), (1,)

    def _write(self, evaluator: Evaluator, index: Indices) -> None:
        value = evaluator.lanes_at(self.part, index)
        moved = tuple(i + f for i, f in zip(index, self.first, strict=True))
        place = linear(moved, self.update.shape)
        place = place.at_lane(0) if evaluator.lanes > 1 else place
        self.code.store(value, self.job.outputs[0], self.code.index(place), place.multiple)


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
