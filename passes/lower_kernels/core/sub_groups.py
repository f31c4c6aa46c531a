"""Cross-item reductions in registers: shuffles inside sub-groups, and one step in local memory.

In: one value of each work-item of a group; neighbours have parts of one row. Out: the total of each
row, in all its work-items. A sub-group reduces by shuffles over distances that halve. Where a row
has several sub-groups, each stores its result in local memory. After one barrier every sub-group
reduces the stored results of its row by shuffles.
"""

from collections.abc import Callable, Iterable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32, f64, i32, i64
from xdsl.ir import Attribute, SSAValue

from mgn.dialects import kernel
from mgn.passes.kernels.body import Node
from mgn.passes.kernels.index import Index
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.core.pure_code import INDEX
from mgn.passes.lower_kernels.core.scalar import combine
from mgn.passes.lower_kernels.core.template import Job

SUB_GROUP = 32
"""The size of sub-group this is written for."""

SHUFFLED = (f32, f64, i32, i64)
"""The types that shuffles move."""


def can_shuffle(job: Job, items: int, types: Iterable[Attribute]) -> bool:
    """Whether so many work-items are whole sub-groups that can read each other's registers of these
    types.
    """
    whole = job.number("sub_group", 1) == SUB_GROUP and items % SUB_GROUP == 0
    return whole and all(type in SHUFFLED for type in types)


def reduce_in_sub_groups(
    code: Code, place: Index, shares: int, nodes: Sequence[Node], values: Sequence[SSAValue]
) -> list[SSAValue]:
    """The totals of rows of `shares` work-items: a power of two, at most a sub-group's square."""
    lane = place % SUB_GROUP
    totals = _shuffled(code, lane, min(shares, SUB_GROUP), nodes, values)
    left = shares // SUB_GROUP
    if left <= 1:
        return totals
    count = (place.high + 1) // SUB_GROUP
    buffers = [code.local(value.type, count) for value in totals]

    def put() -> None:
        for value, buffer in zip(totals, buffers, strict=True):
            code.store(value, buffer, code.index(place // SUB_GROUP))

    code.when(code.is_below(lane, 1, 1), put)
    code.barrier()
    own = code.index(place // shares * left + place % left)
    gathered = [code.load(buffer, own) for buffer in buffers]
    return _shuffled(code, lane, left, nodes, gathered)


def _shuffled(
    code: Code, lane: Index, count: int, nodes: Sequence[Node], values: Sequence[SSAValue]
) -> list[SSAValue]:
    """The totals over each `count` neighbours of a sub-group."""

    def join(number: int, value: SSAValue, partner: SSAValue) -> SSAValue:
        node = nodes[number]
        return combine(code, node.name, node.element, value, partner)

    return reduce_neighbours(code, lane, count, values, join)


def reduce_neighbours(
    code: Code,
    lane: Index,
    count: int,
    values: Sequence[SSAValue],
    join: Callable[[int, SSAValue, SSAValue], SSAValue],
    apart: int = 1,
) -> list[SSAValue]:
    """The values of each `count` work-items of a sub-group that lie so far apart, both powers of
    two, joined in all of them.

    `join` takes a value's number, the value, and the value of the partner at a distance.
    """
    totals = list(values)
    distance = count * apart // 2
    while distance >= apart:
        other = code.pure(arith.XOrIOp, [code.index(lane), code.constant(distance, INDEX)], INDEX)
        for number, value in enumerate(totals):
            partner = code.effect(
                kernel.SubGroupShuffleOp, [value, other], result_types=[value.type]
            ).results[0]
            totals[number] = join(number, value, partner)
        distance //= 2
    return totals
