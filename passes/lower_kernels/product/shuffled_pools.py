"""Neighbouring rows of a matrix unit's results that are combined, by shuffles between work-items.

In: pieces of rows, of which the work-items of a sub-group have neighbouring ones in their order:
four of them share a row. Out: code that evaluates what follows the product for each row, combines
groups of rows by exchanges, and has the first of a group write what comes of it.
"""

from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from mgn.dialects import kernel
from mgn.passes.kernels.body import Indices
from mgn.passes.kernels.index import Index, lanes
from mgn.passes.kernels.index_maps import bounded
from mgn.passes.kernels.pooled_products import Group
from mgn.passes.kernels.product import Product
from mgn.passes.lower_kernels.core.pooled import (
    combined,
    member_value,
    need_whole_groups,
    pool_of,
    write_group,
)
from mgn.passes.lower_kernels.core.pure_code import INDEX, lane_count, lane_of
from mgn.passes.lower_kernels.core.template import Job
from mgn.passes.lower_kernels.product.shuffled_results import NEIGHBOURS
from mgn.passes.lower_kernels.staging.tensor_panels import EIGHT, PAIR
from mgn.passes.schedules.product.matrix_tiles import TensorTiling
from mgn.passes.schedules.product.operand_copies import has_rows_in_order


def need_rows_of_groups(product: Product, sizes: TensorTiling, name: str) -> None:
    """VerifyException where a sub-group has not all sums of the rows of a group, in their order."""
    pool, in_order = pool_of(product), has_rows_in_order(product, name)
    if not in_order or not pool.combines_rows or sizes.slices > 1 or product.columns % PAIR:
        raise VerifyException("fusion.kernel contraction: no sub-group has all rows of a group")
    need_whole_groups(product, EIGHT)


@dataclass(frozen=True)
class ShuffledPools:
    """The results of a tile, for the work-item of a lane of its sub-group."""

    job: Job
    product: Product
    batch: Indices
    lane: Index

    def write(self, row: Index, column: Index, total: SSAValue) -> None:
        """Evaluates and stores what comes of the group of a row, in neighbouring columns, where the
        result has them. All work-items of the sub-group come here.
        """
        job, code, product, pool = self.job, self.job.code, self.product, pool_of(self.product)
        width, member = lane_count(total), row % pool.members
        number = row // pool.members
        tests = [
            code.is_below(member, 1, 1),
            code.is_below(number, pool.groups, 1),
            code.is_below(column, product.columns, 1),
        ]
        columns = bounded(column, product.columns, width) + lanes(width)
        group = Group(self.batch, code.bounded(number, pool.groups), columns)
        value = member_value(job, product, job.evaluator(width), group, member, total)
        distance = 1
        while distance < pool.members:
            value = combined(job, product, [value, self._from(distance, value)])
            distance *= 2
        found = value

        def write() -> None:
            write_group(job, product, job.evaluator(width), group, found)

        code.when(code.all_of(tests), write)

    def _from(self, distance: int, value: SSAValue) -> SSAValue:
        """What the work-item has whose row is so far away in the group."""
        code = self.job.code
        bits = code.constant(NEIGHBOURS * distance, INDEX)
        partner = code.pure(arith.XOrIOp, [code.index(self.lane), bits], INDEX)
        parts = [lane_of(code, value, number) for number in range(lane_count(value))]
        got = [
            code.effect(
                kernel.SubGroupShuffleOp, [part, partner], result_types=[part.type]
            ).results[0]
            for part in parts
        ]
        return code.joined(got)
