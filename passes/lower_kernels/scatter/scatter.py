"""The scatter template, by its schedule's variant.

`each id`: a work-item holds a vector of the result in registers, goes over all ids in their order
and combines what is meant for it. `runs`: ids are in order, and it goes over those meant for it
alone. `part totals`: it goes over a part of them. What follows the scatter is computed in
registers, too. Other variants have files of their own.
"""

from collections.abc import Callable

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.dialects.mgn.operation import Kind
from mgn.dialects.mgn.operations.places.scatter import ADD
from mgn.passes.kernels.accumulation import accumulator
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.body import Indices, Node
from mgn.passes.kernels.index import Counter, Index, delinearised, lanes, of
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
from mgn.passes.lower_kernels.scatter.joining import join
from mgn.passes.lower_kernels.scatter.owners import lower_owners
from mgn.passes.lower_kernels.scatter.tables import lower_tables
from mgn.passes.schedules.scatter import ScatterVariant, no_change

SHORT = 128
"""Ids of a run that are added up in one chain."""

AT_ONCE = 4
"""Steps of a run that are under way together: what each reads does not depend on the one before."""


def lower_scatter(job: Job) -> Launch:
    """Writes a scatter kernel as its schedule says."""
    match job.variant(ScatterVariant):
        case ScatterVariant.EACH:
            return _by_element(job, _combined)
        case ScatterVariant.RUNS:
            return _by_element(job, _run_combined)
        case ScatterVariant.PART_TOTALS:
            return _by_element(job, _part_total)
        case ScatterVariant.OWNERS:
            return lower_owners(job)
        case ScatterVariant.BLOCKS:
            return lower_blocks(job)
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


def _adds_floats(node: Node) -> bool:
    """Whether what is combined are sums that round."""
    return node.element.is_float and node.values["combine"] == ADD


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
    sums = [_adds_floats(node)]
    return long_loop(code, 0, src.shape[axis], step, [before], sums)[0]


def _run_combined(code: Code, evaluator: Evaluator, node: Node, index: Indices) -> SSAValue:
    """What is scattered to a vector of the result by its run of ids, and was there before."""
    x, bounds, order, src, *totals = node.operands
    axis, count = node.values["axis"], src.shape[node.values["axis"]]
    step = _run_step(code, evaluator, node, index, order, src)

    def bound(offset: int) -> Index:
        there = (*index[:axis], index[axis] + offset, *index[axis + 1 :])
        value = evaluator.at(bounds, broadcast_index(there, bounds.shape))
        return of(Counter(clamped_id(evaluator, bounds, value, count), 0, count))

    before = widened(code, evaluator.lanes_at(x, index), node.element)
    if not count:
        return before
    first, last = bound(0), bound(1)
    sums = [_adds_floats(node)]

    def whole() -> list[SSAValue]:
        if totals:
            return _by_parts(code, evaluator, node, index, (first, last), before)
        return long_loop(code, first, last, step, [before], sums, AT_ONCE)

    if not totals and (count <= SHORT or not sums[0]):
        return code.loop(first, last, step, [before], unroll=AT_ONCE)[0]
    short = code.is_below(last - first, min(SHORT, node.values["part"]) if totals else SHORT, 1)
    return code.branch(
        short, lambda: code.loop(first, last, step, [before], unroll=AT_ONCE), whole
    )[0]


def _by_parts(
    code: Code,
    evaluator: Evaluator,
    node: Node,
    index: Indices,
    run: tuple[Index, Index],
    before: SSAValue,
) -> list[SSAValue]:
    """What a run adds to what was there before: its elements up to a whole part, the totals of
    whole parts, and the elements behind them.
    """
    _, _, order, src, totals = node.operands
    axis, part = node.values["axis"], node.values["part"]
    count, parts = src.shape[axis], totals.shape[axis]
    first, last = run
    begin, end = (first + (part - 1)) // part, last // part
    left = code.binary(arith.MinSIOp, code.index(begin * part), code.index(last))
    right = code.binary(arith.MaxSIOp, code.index(end * part), left)
    step = _run_step(code, evaluator, node, index, order, src)
    sums = [_adds_floats(node)]

    def total(turn: Index, held: list[SSAValue]) -> list[SSAValue]:
        value = evaluator.lanes_at(totals, (*index[:axis], turn, *index[axis + 1 :]))
        return [join(code, node, held[0], widened(code, value, totals.element))]

    held, middle = [before], (begin, of(Counter(code.index(end), 0, parts)))
    left, right = (of(Counter(value, 0, count)) for value in (left, right))
    held = long_loop(code, first, left, step, held, sums, AT_ONCE)
    held = long_loop(code, *middle, total, held, sums, AT_ONCE)
    return long_loop(code, right, last, step, held, sums, AT_ONCE)


def _part_total(code: Code, evaluator: Evaluator, node: Node, index: Indices) -> SSAValue:
    """What a part comes to, a vector of it, where its ids are all one."""
    ids, order, src = node.operands
    axis, part = node.values["axis"], node.values["part"]
    first = index[axis] * part

    def id(offset: int) -> SSAValue:
        there = (*index[:axis], first + offset, *index[axis + 1 :])
        return evaluator.at(ids, broadcast_index(there, ids.shape))

    step, element = _run_step(code, evaluator, node, index, order, src), node.element
    kept, lanes = accumulator(element), evaluator.lanes
    start = code.constant(no_change(node.values["combine"], kept), memory_type(kept), lanes)
    sums = [_adds_floats(node)]
    return code.branch(
        code.compare_integers("eq", id(0), id(part - 1)),
        lambda: long_loop(code, first, first + part, step, [start], sums, AT_ONCE),
        lambda: [code.constant(0, memory_type(kept), lanes)],
    )[0]


def _run_step(
    code: Code, evaluator: Evaluator, node: Node, index: Indices, order: Node, src: Node
) -> Callable[[Index, list[SSAValue]], list[SSAValue]]:
    """What joins to a value the element that comes at a turn of the order."""
    axis = node.values["axis"]
    last = src.shape[axis] - 1

    def step(turn: Index, held: list[SSAValue]) -> list[SSAValue]:
        place = broadcast_index((*index[:axis], turn, *index[axis + 1 :]), order.shape)
        number = clamped_id(evaluator, order, evaluator.at(order, place), last)
        there = (*index[:axis], of(Counter(number, 0, last)), *index[axis + 1 :])
        part = widened(code, evaluator.lanes_at(src, there), node.element)
        return [join(code, node, held[0], part)]

    return step


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
