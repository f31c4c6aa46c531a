"""What a work-item of a tiled product writes: sums that lie side by side in a row of the result.

In: their row and column, and whether these may lie outside the result. Out: code that evaluates
what follows the product there, and stores it. Code before the loop may read what follows needs.
"""

from dataclasses import dataclass

from xdsl.ir import SSAValue

from mgn.passes.kernels.body import Indices
from mgn.passes.kernels.index import Index, lanes
from mgn.passes.kernels.index_maps import bounded
from mgn.passes.kernels.product import Product
from mgn.passes.lower_kernels.core.product import read_ahead, write_halves, write_tile
from mgn.passes.lower_kernels.core.pure_code import lane_count, lane_of
from mgn.passes.lower_kernels.core.template import Job

MOST_AHEAD = 4
"""Vectors of a work-item's sums up to which what their results need besides is read early."""


@dataclass(frozen=True)
class ResultsOfTile:
    """Where a tile's results lie. `rows_end` and `columns_end` say that it may reach past the last
    ones, `apart` that a vector may begin inside the result and end outside.
    """

    job: Job
    product: Product
    batch: Indices
    rows_end: bool
    columns_end: bool
    apart: bool


class TileResults(ResultsOfTile):
    """A tile's results, each of which is written."""

    def write(self, row: Index, column: Index, total: SSAValue) -> None:
        """Evaluates and stores what follows from neighbouring sums, where the result has them."""
        width = lane_count(total)
        if self.product.halves > 1:
            whole = self.product.columns % width == 0
            for part in [total] if whole else self._pairs(total):
                self._write_halves(row, column // 2, self._apart(part), lane_count(part) // 2)
                column = column + lane_count(part)
            return
        if not self.apart:
            self._write(row, column, total, width)
            return
        for lane in range(width):
            self._write(row, column + lane, lane_of(self.job.code, total, lane), 1)

    def read_ahead(self, row: Index, column: Index, width: int) -> None:
        """Reads what so many neighbouring results need besides the sums, as `write` will."""
        if self.product.halves > 1 or self.apart:
            return
        row, column, _ = self._inside(row, column, self.product.columns, width)
        read_ahead(self.job, self.product, width, self.batch, row, column + lanes(width))

    def _pairs(self, total: SSAValue) -> list[SSAValue]:
        """Two neighbouring sums each."""
        code = self.job.code
        each = [lane_of(code, total, lane) for lane in range(lane_count(total))]
        return [code.joined(each[n : n + 2]) for n in range(0, len(each), 2)]

    def _apart(self, total: SSAValue) -> list[SSAValue]:
        """The sums of either half, which meet as neighbours."""
        code = self.job.code
        each = [lane_of(code, total, lane) for lane in range(lane_count(total))]
        return [code.joined(each[n::2]) for n in range(2)]

    def _write_halves(self, row: Index, half: Index, sums: list[SSAValue], width: int) -> None:
        """Evaluates what follows on columns n and n + half together, and stores it."""
        row, half, is_there = self._inside(row, half, self.product.columns // 2, width)

        def store() -> None:
            evaluator, columns = self.job.evaluator(width), half + lanes(width)
            write_halves(self.job, self.product, evaluator, self.batch, row, columns, sums)

        self.job.code.when(is_there, store)

    def _write(self, row: Index, column: Index, total: SSAValue, width: int) -> None:
        row, column, is_there = self._inside(row, column, self.product.columns, width)

        def store() -> None:
            evaluator = self.job.evaluator(width)
            columns = [column + lanes(width)]
            write_tile(self.job, self.product, evaluator, self.batch, [row], columns, [total])

        self.job.code.when(is_there, store)

    def _inside(
        self, row: Index, column: Index, columns: int, width: int
    ) -> tuple[Index, Index, SSAValue | bool]:
        """A place clamped to the result, and whether the place asked for is in the result."""
        code, rows = self.job.code, self.product.rows
        tests: list[SSAValue | bool] = []
        if self.rows_end:
            tests.append(code.is_below(row, rows, 1))
            row = bounded(row, rows, 1)
        if self.columns_end:
            tests.append(code.is_below(column, columns, 1))
            column = bounded(column, columns, width)
        return row, column, self.job.code.all_of(tests)
