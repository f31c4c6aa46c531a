"""What a work-item of a tiled product writes whose neighbouring results are combined.

In: the row and the column of a product whose rows or columns come group by group, sums there, and
whether these may lie outside the result. Out: code that evaluates what follows the product for each
member of a group, combines these, evaluates what follows that, and stores it.
"""

from collections.abc import Sequence

from xdsl.ir import SSAValue

from mgn.passes.kernels.index import Index, lanes
from mgn.passes.kernels.index_maps import bounded
from mgn.passes.kernels.pooled_products import Group
from mgn.passes.lower_kernels.core.pooled import group_value, pool_of, write_group
from mgn.passes.lower_kernels.core.pure_code import lane_count, lane_of
from mgn.passes.lower_kernels.product.tile_results import ResultsOfTile


class PooledResults(ResultsOfTile):
    """A tile's results, of which groups are combined."""

    @property
    def together(self) -> int:
        """How many rows are written together."""
        pool = pool_of(self.product)
        return pool.members if pool.combines_rows else 1

    def write(self, row: Index, column: Index, totals: Sequence[SSAValue]) -> None:
        """Evaluates and stores what follows from vectors of sums, one below the other, where the
        result has them: those of a group of rows, or of a row that has whole groups.
        """
        code, pool = self.job.code, pool_of(self.product)
        width = lane_count(totals[0])
        if not pool.combines_rows:
            (total,) = totals
            each = [lane_of(code, total, lane) for lane in range(width)]
            for lane in range(0, width, pool.members):
                number = (column + lane) // pool.members
                self._write(number, row, each[lane : lane + pool.members], self.product.rows)
            return
        number, columns = row // pool.members, self.product.columns
        if not self.apart:
            self._write(number, column, totals, columns)
            return
        for lane in range(width):
            own = [lane_of(code, total, lane) for total in totals]
            self._write(number, column + lane, own, columns)

    def _write(self, number: Index, other: Index, totals: Sequence[SSAValue], others: int) -> None:
        """Writes a group of that number, or neighbouring ones; they share a row, or columns."""
        job, code, pool = self.job, self.job.code, pool_of(self.product)
        width = lane_count(totals[0])
        ends = self.rows_end, self.columns_end
        groups_end, others_end = ends if pool.combines_rows else ends[::-1]
        tests: list[SSAValue | bool] = []
        if groups_end:
            tests.append(code.is_below(number, pool.groups, 1))
        if others_end:
            tests.append(code.is_below(other, others, 1))
            other = bounded(other, others, width)
        number = code.bounded(number, pool.groups)

        def store() -> None:
            evaluator = job.evaluator(width)
            group = Group(self.batch, number, other + lanes(width))
            value = group_value(job, self.product, evaluator, group, totals)
            write_group(job, self.product, evaluator, group, value)

        code.when(code.all_of(tests), store)
