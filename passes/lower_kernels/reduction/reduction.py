"""The reduction template: rows, each walked once for every stage of dependent reductions.

CPU: a work-item takes rows. Where the elements of a row are neighbours in memory, vectors run along
the row with four independent accumulators, or along two short rows side by side. Expensive
intermediate values (the exponentials of a softmax) are stored between stages: at the place of the
results, or in a private array. Where neighbours in memory belong to different rows, vectors run
across rows.
"""

from collections.abc import Callable

from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.body import Indices, Node
from mgn.passes.kernels.index import ZERO, Index, lanes
from mgn.passes.kernels.rows import RowSpace, row_space, stages_of
from mgn.passes.lower_kernels.core.long_sums import long_loop
from mgn.passes.lower_kernels.core.product import tile_start
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.reduction.grouped_reduction import lower_grouped
from mgn.passes.lower_kernels.reduction.row_walk import RowWalk, homes_of
from mgn.passes.lower_kernels.reduction.sliding_tiles import lower_sliding_tiles
from mgn.passes.lower_kernels.reduction.stage import Stage
from mgn.passes.lower_kernels.reduction.window_planes import lower_window_planes
from mgn.passes.schedules.reduction.reduction import ReductionVariant


def lower_reduction(job: Job) -> Launch:
    """Writes a reduction kernel as its schedule says."""
    match job.variant(ReductionVariant):
        case ReductionVariant.GROUPS:
            return lower_grouped(job)
        case ReductionVariant.ACROSS:
            return _across_rows(job, row_space(job.body))
        case ReductionVariant.ALONG:
            return _along_rows(job, row_space(job.body))
        case ReductionVariant.SLIDING:
            return lower_sliding_tiles(job, row_space(job.body))
        case ReductionVariant.PLANES:
            return lower_window_planes(job, row_space(job.body))


def _along_rows(job: Job, space: RowSpace) -> Launch:
    code = job.code
    width, together, block = (job.entry(name) for name in ("width", "side_by_side", "block"))
    stages = stages_of(job.body, space)
    homes = homes_of(job.body, space, stages) if together == 1 else {}
    if not job.entry("stored"):
        stages.stored = [[node for node in stored if node in homes] for stored in stages.stored]
    walks = ceil_div(space.rows, together)
    items = ceil_div(walks, block)
    item = code.counter(kernel.GlobalIdOp, 0, items)

    def one_walk(number: Index) -> None:
        first = tile_start(code, number, together, space.rows)
        rows = [code.known(first + n, space.rows) for n in range(together)]
        RowWalk(job, space, stages, rows, width, homes).walk()

    code.each_own(item, block, walks, one_walk)
    return Launch((items,))


def _across_rows(job: Job, space: RowSpace) -> Launch:
    """Vectors of rows that are neighbours; the last one ends with the axis, and so overlaps."""
    code = job.code
    inner = next(s for s in reversed(space.kept_shape) if s != 1)
    width, together = job.entry("width"), job.entry("side_by_side")
    outer = space.rows // inner
    vectors = ceil_div(inner, width)
    groups = ceil_div(vectors, together)
    items = outer * groups
    item = code.counter(kernel.GlobalIdOp, 0, items)
    group, around = item % groups, item // groups
    starts: list[Index] = []
    for part in range(together):
        first = (group * (together * width) + part * width).clamp(0, inner - width)
        starts.append(code.known(first, inner - width + 1))
    evaluators = [job.evaluator(width) for _ in starts]
    rows = [around * inner + start + lanes(width) for start in starts]

    def place(row: Index, element: Index) -> Callable[[Node], Indices]:
        return lambda node: space.index_in(node, row, element)

    for reductions in stages_of(job.body, space).reductions:
        stage, every = Stage(code, reductions), len(reductions)

        def step(element: Index, held: list[SSAValue], stage: Stage = stage) -> list[SSAValue]:
            result: list[SSAValue] = []
            for evaluator, row in zip(evaluators, rows, strict=True):
                own = held[len(result) : len(result) + len(stage.nodes)]
                result += stage.add(own, evaluator, place(row, element))
            return result

        start, added = stage.start(width) * together, stage.sums * together
        totals = long_loop(code, 0, space.length, step, start, added)
        for number, evaluator in enumerate(evaluators):
            stage.give(evaluator, totals[number * every : (number + 1) * every])

    def results(element: Index) -> None:
        for evaluator, row in zip(evaluators, rows, strict=True):
            job.write_at(evaluator, place(row, element), space.is_full)

    if any(map(space.is_full, job.body.written)):
        code.each(0, space.length, results)
    for evaluator, row in zip(evaluators, rows, strict=True):
        job.write_at(evaluator, place(row, ZERO), space.is_of_row)
    return Launch((items,))
