"""Owners of a scatter: a work-item owns a part of the places along the axis, with all behind them.

It copies its part, then goes over all ids in their order, and combines in memory what is meant for
its own places. No other work-item reads or writes them.
"""

from collections.abc import Callable
from math import prod

from xdsl.dialects import arith

from mgn.dialects import kernel
from mgn.dialects.mgn.operation import Kind
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.body import Indices
from mgn.passes.kernels.index import ZERO, Counter, Index, delinearised, lanes, linear, of
from mgn.passes.kernels.index_maps import broadcast_index
from mgn.passes.lower_kernels.core.movement import clamped_id
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.scatter.joining import join
from mgn.passes.schedules.scatter import inner_size, looks_once


def lower_owners(job: Job) -> Launch:
    """Writes a scatter whose work-items own parts of the result."""
    code = job.code
    (node,) = job.body.of_kind(Kind.SCATTER)
    x, ids, src, *_ = node.operands
    axis, shape = node.values["axis"], node.shape
    parts, width = job.entry("parts"), job.entry("width")
    outer, inner, places = prod(shape[:axis]), inner_size(node), shape[axis]
    length = ceil_div(places, parts)
    items = outer * parts
    item = code.counter(kernel.GlobalIdOp, 0, items)
    before = delinearised(item // parts, shape[:axis])
    start = (item % parts * length).clamp(0, places)
    count = (start * -1 + places).clamp(0, length)
    first, last = code.index(start), code.index(start + count)
    wide, narrow, (result,) = job.evaluator(width), job.evaluator(), job.outputs
    vectors = ceil_div(inner, width)

    def behind(vector: Index) -> Indices:
        return delinearised(vector * width + lanes(width), shape[axis + 1 :])

    def place_of(index: Indices) -> Index:
        place = linear(index, shape)
        return place.at_lane(0) if width > 1 else place

    def copy(row: Index) -> None:
        own = code.known(start + row, places)

        def one_vector(vector: Index) -> None:
            index = (*before, own, *behind(vector))
            place = place_of(index)
            code.store(wide.lanes_at(x, index), result, code.index(place), place.multiple)

        code.each(0, vectors, one_vector)

    def named_at(index: Indices) -> Index:
        number = narrow.at(ids, broadcast_index(index, ids.shape))
        value = clamped_id(narrow, ids, number, places - 1)
        return of(Counter(value, 0, places - 1))

    def add(turn: Index, named: Index, vector: Index) -> None:
        there = behind(vector)
        place = place_of((*before, named, *there))
        position = code.index(place)
        old = code.load(result, position, width, place.multiple)
        part = wide.lanes_at(src, (*before, turn, *there))
        code.store(join(code, node, old, part), result, position, place.multiple)

    def if_own(named: Index, body: Callable[[], None]) -> None:
        if parts == 1:
            body()
            return
        value = code.index(named)
        from_first = code.compare_integers("sge", value, first)
        below_last = code.compare_integers("slt", value, last)
        code.when(code.binary(arith.AndIOp, from_first, below_last), body)

    def one_id(turn: Index) -> None:
        if looks_once(node):
            named = named_at((*before, turn, *[ZERO] * (len(shape) - axis - 1)))
            if_own(named, lambda: code.each(0, vectors, lambda v: add(turn, named, v)))
            return

        def one_element(vector: Index) -> None:
            named = named_at((*before, turn, *behind(vector)))
            if_own(named, lambda: add(turn, named, vector))

        code.each(0, vectors, one_element)

    code.each(0, count, copy)
    code.each(0, src.shape[axis], one_id)
    return Launch((items,))
