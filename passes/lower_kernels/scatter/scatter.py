"""The scatter template, by its schedule's variant.

`each id`: a work-item holds a vector of the result in registers, goes over all ids in their order
and combines what is meant for it. `runs`: ids are in order, and it goes over those meant for it
alone. `part totals`: it goes over a part of them. Some work-items of a GPU's group may share these.
What follows the scatter is computed in registers, too. Other variants have files of their own.
"""

from collections.abc import Callable

from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.dialects.mgn.operation import Kind
from mgn.passes.kernels.accumulation import accumulator
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.body import Indices, Node
from mgn.passes.kernels.index import Index, delinearised, lanes
from mgn.passes.kernels.index_maps import broadcast_index
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.core.evaluate import Evaluator
from mgn.passes.lower_kernels.core.long_sums import long_loop
from mgn.passes.lower_kernels.core.movement import clamped_id
from mgn.passes.lower_kernels.core.pure_code import lane_count, memory_type, scalar_type
from mgn.passes.lower_kernels.core.scalar import narrowed, widened
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.scatter.atomics import lower_atomics
from mgn.passes.lower_kernels.scatter.blocks import lower_blocks
from mgn.passes.lower_kernels.scatter.buckets import (
    bucket_total,
    lower_bucket_totals,
    lower_buckets,
)
from mgn.passes.lower_kernels.scatter.joining import join
from mgn.passes.lower_kernels.scatter.owners import lower_owners
from mgn.passes.lower_kernels.scatter.runs import (
    WHOLE,
    Share,
    adds_floats,
    nothing,
    part_total,
    run_combined,
)
from mgn.passes.lower_kernels.scatter.tables import lower_tables
from mgn.passes.schedules.scatter_work import ScatterVariant


def lower_scatter(job: Job) -> Launch:
    """Writes a scatter kernel as its schedule says."""
    match job.variant(ScatterVariant):
        case ScatterVariant.EACH:
            (node,) = job.body.of_kind(Kind.SCATTER)
            totals = node.name == "bucket_totals"
            return _by_element(job, bucket_total if totals else _combined)
        case ScatterVariant.RUNS | ScatterVariant.PART_TOTALS if job.entry("sharers") > 1:
            return _by_sharers(job)
        case ScatterVariant.RUNS:
            return _by_element(job, _run_combined)
        case ScatterVariant.PART_TOTALS:
            return _by_element(job, _part_total)
        case ScatterVariant.OWNERS:
            return lower_owners(job)
        case ScatterVariant.BLOCKS:
            return lower_blocks(job)
        case ScatterVariant.BUCKETS:
            return lower_buckets(job)
        case ScatterVariant.BUCKET_TOTALS:
            return lower_bucket_totals(job)
        case ScatterVariant.ATOMICS:
            return lower_atomics(job)
        case ScatterVariant.TABLES:
            return lower_tables(job)


def _by_element(job: Job, combined: Callable[[Code, Evaluator, Node, Indices], SSAValue]) -> Launch:
    """Each work-item has a few vectors of the result."""
    code = job.code
    (node,) = job.body.of_kind(Kind.SCATTER)
    width, local, block = (job.entry(name) for name in ("width", "items", "block"))
    vectors = node.count // width
    items = ceil_div(ceil_div(vectors, block), local) * local
    item = code.counter(kernel.GlobalIdOp, 0, items)

    def one_vector(step: Index) -> None:
        number = code.known(item * block + step, vectors)
        index = delinearised(number * width + lanes(width), node.shape)
        evaluator = job.evaluator(width)
        total = narrowed(code, combined(code, evaluator, node, index), node.element)
        evaluator.given[node] = lambda _: total
        job.write(evaluator, [(n, written, index) for n, written in enumerate(job.body.written)])

    trips: Index | int = block
    if vectors % block:
        trips = (item * -block + vectors).clamp(0, block)
    within = code.is_below(item * block, vectors, 1)
    code.when(within, lambda: code.each(0, trips, one_vector))
    return Launch((items,), (local,))


def _combined(code: Code, evaluator: Evaluator, node: Node, index: Indices) -> SSAValue:
    """What is scattered to a vector of the result, and was there before."""
    x, ids, src, *_ = node.operands
    axis = node.values["axis"]

    def step(turn: Index, held: list[SSAValue]) -> list[SSAValue]:
        there = (*index[:axis], turn, *index[axis + 1 :])
        number = evaluator.at(ids, broadcast_index(there, ids.shape))
        hit = _names(code, evaluator, ids, number, index[axis], node.shape[axis])

        def joined() -> list[SSAValue]:
            part = widened(code, evaluator.lanes_at(src, there), node.element)
            return [join(code, node, held[0], part)]

        if lane_count(hit) == 1:
            return code.branch(hit, joined, lambda: held)
        return [code.select(hit, joined()[0], held[0])]

    before = widened(code, evaluator.lanes_at(x, index), node.element)
    sums = [adds_floats(node)]
    return long_loop(code, 0, src.shape[axis], step, [before], sums)[0]


def _run_combined(code: Code, evaluator: Evaluator, node: Node, index: Indices) -> SSAValue:
    """What is scattered to a vector of the result by its run of ids, and was there before."""
    before = widened(code, evaluator.lanes_at(node.operands[0], index), node.element)
    return run_combined(code, evaluator, node, index, WHOLE, before)


def _part_total(code: Code, evaluator: Evaluator, node: Node, index: Indices) -> SSAValue:
    """What a part comes to, by one work-item."""
    return part_total(code, evaluator, node, index, WHOLE)


def _by_sharers(job: Job) -> Launch:
    """Some work-items of a group have a vector of the result. Each goes over some of its elements,
    and one puts together what they come to, in order.
    """
    code = job.code
    (node,) = job.body.of_kind(Kind.SCATTER)
    width, local, sharers = (job.entry(name) for name in ("width", "items", "sharers"))
    vectors, own = node.count // width, local // sharers
    groups = ceil_div(vectors, own)
    group = code.counter(kernel.GroupIdOp, 0, groups)
    item = code.counter(kernel.LocalIdOp, 0, local)
    place, share = item % own, Share(item // own, sharers)
    number = group * own + place
    index = delinearised(code.bounded(number, vectors) * width + lanes(width), node.shape)
    evaluator = job.evaluator(width)
    start = nothing(code, evaluator, node)
    if job.variant(ScatterVariant) is ScatterVariant.PART_TOTALS:
        found = part_total(code, evaluator, node, index, share)
    else:
        found = run_combined(code, evaluator, node, index, share, start)
    memory = code.local(memory_type(accumulator(node.element)), local * width)
    code.store(found, memory, code.index(item * width), width)
    code.barrier()

    def put() -> None:
        total = found
        for other in range(1, sharers):
            cell = (place + other * own) * width
            more = code.load(memory, code.index(cell), width, width)
            total = join(code, node, total, more)
        if job.variant(ScatterVariant) is ScatterVariant.RUNS:
            before = widened(code, evaluator.lanes_at(node.operands[0], index), node.element)
            total = join(code, node, before, total)
        total = narrowed(code, total, node.element)
        evaluator.given[node] = lambda _: total
        job.write(evaluator, [(n, written, index) for n, written in enumerate(job.body.written)])

    def put_within() -> None:
        code.when(code.is_below(number, vectors, 1), put)

    code.when(code.is_below(item, own, 1), put_within)
    return Launch((groups * local,), (local,))


def _names(
    code: Code, evaluator: Evaluator, ids: Node, number: SSAValue, place: Index, size: int
) -> SSAValue:
    """Whether an id names a place along the axis, or places that the lanes see."""
    named = clamped_id(evaluator, ids, number, size - 1)
    if lane_count(named) == 1 and not place.varies:
        return code.compare_integers("eq", named, code.index(place))
    if lane_count(named) == 1:
        type = code.index_type(place)
        named = code.convert("index_cast", named, type)
        return code.compare_integers("eq", code.lanes_index(place, evaluator.lanes, type), named)
    type = scalar_type(named)
    if place.varies:
        return code.compare_integers("eq", code.lanes_index(place, evaluator.lanes, type), named)
    return code.compare_integers("eq", code.convert("index_cast", code.index(place), type), named)
