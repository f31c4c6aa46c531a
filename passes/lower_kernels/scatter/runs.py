"""What a run of ids, or a part of ids that are in order, comes to.

In: a vector of the result, and which turns of a run a work-item takes. Out: what its elements come
to. A long run is cut into whole parts, whose totals are known, and what lies before and behind
them.
"""

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from mgn.dialects.mgn.operations.places.scatter import ADD
from mgn.passes.kernels.accumulation import accumulator
from mgn.passes.kernels.body import Indices, Node
from mgn.passes.kernels.index import Counter, Index, constant, of
from mgn.passes.kernels.index_maps import broadcast_index
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.core.evaluate import Evaluator
from mgn.passes.lower_kernels.core.long_sums import long_loop
from mgn.passes.lower_kernels.core.movement import clamped_id
from mgn.passes.lower_kernels.core.pure_code import memory_type
from mgn.passes.lower_kernels.core.scalar import widened
from mgn.passes.lower_kernels.scatter.joining import combine_of, join
from mgn.passes.schedules.scatter import no_change

SHORT = 128
"""Turns of a run that are added up in one chain."""

AT_ONCE = 4
"""Steps of a run that are under way together: what each reads does not depend on the one before."""

Step = Callable[[Index, list[SSAValue]], list[SSAValue]]


@dataclass(frozen=True)
class Share:
    """The turns of a run that a work-item takes: every `sharers`-th one, from its `first` on."""

    first: Index
    sharers: int

    def own(
        self, code: Code, start: Index, end: Index, limit: int, step: Step
    ) -> tuple[Index | int, Index, Step]:
        """A loop from `start` to `end`, at most `limit`, as one over the work-item's own turns."""
        if self.sharers == 1:
            return start, end, step
        missed = self.first * -1 + (self.sharers - 1)
        turns = code.known(end - start + missed, limit + self.sharers) // self.sharers
        first = start + self.first

        def one(turn: Index, held: list[SSAValue]) -> list[SSAValue]:
            return step(code.known(first + turn * self.sharers, limit), held)

        return 0, turns, one


WHOLE = Share(constant(0), 1)
"""All turns."""


def adds_floats(node: Node) -> bool:
    """Whether what is combined are sums that round."""
    return node.element.is_float and combine_of(node) == ADD


def nothing(code: Code, evaluator: Evaluator, node: Node) -> SSAValue:
    """A vector that changes nothing which it is combined with."""
    kept = accumulator(node.element)
    value = no_change(combine_of(node), kept)
    return code.constant(value, memory_type(kept), evaluator.lanes)


def run_combined(
    code: Code, evaluator: Evaluator, node: Node, index: Indices, share: Share, before: SSAValue
) -> SSAValue:
    """What was there before, combined with what a run of ids means for a vector of the result."""
    _, bounds, order, src, *totals = node.operands
    axis, count = node.values["axis"], src.shape[node.values["axis"]]
    step = _run_step(code, evaluator, node, index, order, src)

    def bound(offset: int) -> Index:
        there = (*index[:axis], index[axis] + offset, *index[axis + 1 :])
        value = evaluator.at(bounds, broadcast_index(there, bounds.shape))
        return of(Counter(clamped_id(evaluator, bounds, value, count), 0, count))

    if not count:
        return before
    first, last = bound(0), bound(1)
    sums = [adds_floats(node)]

    def short_run() -> list[SSAValue]:
        return code.loop(*share.own(code, first, last, count, step), [before], unroll=AT_ONCE)

    def whole() -> list[SSAValue]:
        if totals:
            return _by_parts(code, evaluator, node, index, (first, last), share, before)
        own = share.own(code, first, last, count, step)
        return long_loop(code, *own, [before], sums, AT_ONCE)

    if not totals and (count <= SHORT or not sums[0]):
        return short_run()[0]
    limit = min(SHORT, node.values["part"]) if totals else SHORT
    short = code.is_below(last - first, limit, 1)
    return code.branch(short, short_run, whole)[0]


def whole_parts(
    code: Code, first: Index, last: Index, part: int, count: int
) -> tuple[Index, Index, Index, Index]:
    """The whole parts of some elements, of `count` in all: the first part and the one behind the
    last, and where the elements before the parts end and those behind them begin.
    """
    begin, end = (first + (part - 1)) // part, last // part
    left = code.binary(arith.MinSIOp, code.index(begin * part), code.index(last))
    right = code.binary(arith.MaxSIOp, code.index(end * part), left)
    stop = code.binary(arith.MaxSIOp, code.index(end), code.index(begin))
    before, behind = (of(Counter(value, 0, count)) for value in (left, right))
    return begin, of(Counter(stop, 0, count // part)), before, behind


def _by_parts(
    code: Code,
    evaluator: Evaluator,
    node: Node,
    index: Indices,
    run: tuple[Index, Index],
    share: Share,
    before: SSAValue,
) -> list[SSAValue]:
    """What a run adds to what was there before: its elements up to a whole part, the totals of
    whole parts, and the elements behind them.
    """
    _, _, order, src, totals = node.operands
    axis, part = node.values["axis"], node.values["part"]
    count, parts = src.shape[axis], totals.shape[axis]
    first, last = run
    begin, stop, left, right = whole_parts(code, first, last, part, count)
    step = _run_step(code, evaluator, node, index, order, src)
    sums = [adds_floats(node)]

    def total(turn: Index, held: list[SSAValue]) -> list[SSAValue]:
        value = evaluator.lanes_at(totals, (*index[:axis], turn, *index[axis + 1 :]))
        return [join(code, node, held[0], widened(code, value, totals.element))]

    held = [before]
    for start, until, limit, taken in (
        (first, left, count, step),
        (begin, stop, parts, total),
        (right, last, count, step),
    ):
        own = share.own(code, start, until, limit, taken)
        held = long_loop(code, *own, held, sums, AT_ONCE)
    return held


def part_total(
    code: Code, evaluator: Evaluator, node: Node, index: Indices, share: Share
) -> SSAValue:
    """What a part comes to, a vector of it, where its ids are all one."""
    ids, order, src = node.operands
    axis, part = node.values["axis"], node.values["part"]
    first = index[axis] * part

    def id(offset: int) -> SSAValue:
        there = (*index[:axis], first + offset, *index[axis + 1 :])
        return evaluator.at(ids, broadcast_index(there, ids.shape))

    step = _run_step(code, evaluator, node, index, order, src)
    sums, start, count = [adds_floats(node)], nothing(code, evaluator, node), src.shape[axis]
    zero = code.constant(0, memory_type(accumulator(node.element)), evaluator.lanes)
    own = share.own(code, first, first + part, count, step)
    return code.branch(
        code.compare_integers("eq", id(0), id(part - 1)),
        lambda: long_loop(code, *own, [start], sums, AT_ONCE),
        lambda: [zero],
    )[0]


def _run_step(
    code: Code, evaluator: Evaluator, node: Node, index: Indices, order: Node, src: Node
) -> Step:
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
