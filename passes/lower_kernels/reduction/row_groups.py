"""A work-group that walks a few rows together, and where the shares of its work-items meet.

In: what each work-item of a group combined of its row. Out: the totals of rows, in all of their
work-items: by exchanges of registers where the device's sub-groups allow it (sub_groups.py), else
by local memory.
"""

from collections.abc import Sequence

from xdsl.dialects.builtin import VectorType
from xdsl.ir import SSAValue

from mgn.passes.kernels.body import Node
from mgn.passes.kernels.index import Index
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.core.pure_code import scalar_type
from mgn.passes.lower_kernels.core.scalar import combine
from mgn.passes.lower_kernels.core.sub_groups import EXCHANGED, SUB_GROUP, meet_in_sub_groups
from mgn.passes.lower_kernels.core.template import Job
from mgn.passes.schedules.row_groups import Grouping

RADIX = 16
"""How many shares one work-item combines between two barriers."""


def meet(
    job: Job, sizes: Grouping, place: Index, nodes: Sequence[Node], values: Sequence[SSAValue]
) -> list[SSAValue]:
    """All shares of a row as one value of each reduction, which its work-items all get."""
    if sizes.shares == 1:
        return list(values)
    if exchanges(job, sizes, values):
        return meet_in_sub_groups(job.code, place, sizes.shares, nodes, values)
    return _meet_in_memory(job.code, sizes, place, nodes, values)


def exchanges(job: Job, sizes: Grouping, values: Sequence[SSAValue]) -> bool:
    """Whether work-items of a row can read each other's registers."""
    types = all(value.type in EXCHANGED for value in values)
    whole = job.number("sub_group", 1) == SUB_GROUP and sizes.items % SUB_GROUP == 0
    return sizes.by_row and whole and types


def _meet_in_memory(
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
