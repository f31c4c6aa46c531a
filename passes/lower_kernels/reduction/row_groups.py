"""The cross-item reduction of a work-group that walks a few rows together.

In: each work-item's part of its row's reductions. Out: the totals of the row, in all of its
work-items. It runs by shuffles where the device's sub-groups allow it (sub_groups.py), else through
local memory.
"""

from collections.abc import Sequence

from xdsl.dialects.builtin import VectorType
from xdsl.ir import SSAValue

from mgn.passes.kernels.body import Node
from mgn.passes.kernels.index import Index
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.core.pure_code import scalar_type
from mgn.passes.lower_kernels.core.scalar import combine
from mgn.passes.lower_kernels.core.sub_groups import can_shuffle, reduce_in_sub_groups
from mgn.passes.lower_kernels.core.template import Job
from mgn.passes.schedules.reduction.row_groups import Grouping

RADIX = 16
"""How many parts one work-item combines between two barriers."""


def reduce_across_items(
    job: Job, sizes: Grouping, place: Index, nodes: Sequence[Node], values: Sequence[SSAValue]
) -> list[SSAValue]:
    """The total of each reduction of a row, in all its work-items."""
    if sizes.shares == 1:
        return list(values)
    if shuffles(job, sizes, values):
        return reduce_in_sub_groups(job.code, place, sizes.shares, nodes, values)
    return _reduce_in_memory(job.code, sizes, place, nodes, values)


def shuffles(job: Job, sizes: Grouping, values: Sequence[SSAValue]) -> bool:
    """Whether work-items of a row can read each other's registers."""
    return sizes.by_row and can_shuffle(job, sizes.items, [value.type for value in values])


def _reduce_in_memory(
    code: Code, sizes: Grouping, place: Index, nodes: Sequence[Node], values: Sequence[SSAValue]
) -> list[SSAValue]:
    width = sizes.row_width if isinstance(values[0].type, VectorType) else 1
    buffers = [code.local(scalar_type(value), sizes.items * width) for value in values]
    stride = 1 if sizes.by_row else sizes.rows
    row, share = sizes.places(place)
    first = row * sizes.shares if sizes.by_row else row

    def put(values: Sequence[SSAValue]) -> None:
        spot = place * width
        for value, buffer in zip(values, buffers, strict=True):
            code.store(value, buffer, code.index(spot), spot.multiple)

    def gathered(start: Index, count: int, apart: int) -> list[SSAValue]:
        totals: list[SSAValue] = []
        for node, buffer in zip(nodes, buffers, strict=True):
            spots = [(start + number * apart * stride) * width for number in range(count)]
            parts = [code.load(buffer, code.index(spot), width, spot.multiple) for spot in spots]
            total = parts[0]
            for part in parts[1:]:
                total = combine(code, node.name, node.element, total, part)
            totals.append(total)
        return totals

    put(values)
    code.barrier()
    left = sizes.shares
    while left > RADIX:
        left //= RADIX
        inside = code.is_below(share, left, 1)
        code.when(inside, lambda left=left: put(gathered(place, RADIX, left)))
        code.barrier()
    return gathered(first, left, 1)
