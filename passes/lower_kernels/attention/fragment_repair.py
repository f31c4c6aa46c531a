"""Rows of a matrix unit are computed again where a hidden value is not finite (repair.py).

In: the sums of a work-item's two rows as fragments, and the totals of the rows' weights. Out: which
rows are spoilt, and the right sums of those. The loop over keys fills all registers with its sums.
The second computation needs few registers: it takes a run of columns at a time, and stores each run
at once. A kernel whose values are all finite pays for the test alone.
"""

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from mgn.passes.kernels.arithmetic import ceil_div, dividing_lanes
from mgn.passes.kernels.index import Index, lanes
from mgn.passes.lower_kernels.attention.products import QUAD
from mgn.passes.lower_kernels.attention.repair import Repair
from mgn.passes.lower_kernels.core.pure_code import memory_type

RUN = 16
"""Columns that are summed up at a time, at most."""


@dataclass(frozen=True)
class FragmentRepair:
    """Computes rows of a part of the keys again. `lane` is the work-item's number in its sub-group.
    Weights are multiplied by two to the power of `raised`.
    """

    repair: Repair
    part: Index
    lane: Index
    raised: float

    def write(
        self, row: Index, largest: SSAValue, store: Callable[[Index, SSAValue], None]
    ) -> None:
        """Calls `store` with the first column and the sums of each run of a row's columns, whose
        runs the row's four work-items take in turn.
        """
        code, width = self.repair.job.code, self.repair.attention.width
        count = dividing_lanes(width, RUN)

        def one_run(number: Index) -> None:
            column = code.bounded(number, width // count) * count
            store(column, self._sums(row, largest, column, count))

        def turn(n: Index) -> None:
            number = n * QUAD + self.lane % QUAD
            test = code.is_below(number, width // count, 1)
            code.when(test, lambda: one_run(number))

        code.each(0, ceil_div(width // count, QUAD), turn, unroll=1)

    def _sums(self, row: Index, largest: SSAValue, column: Index, count: int) -> SSAValue:
        """The sums of neighbouring columns of a row, of the keys that it sees.

        The unit may have cut off another bit of a score than is cut off here: none is larger than
        the largest.
        """
        repair, attention, code = self.repair, self.repair.attention, self.repair.job.code
        shift = attention.shift(code, largest)

        def one_key(key: Index, held: list[SSAValue]) -> list[SSAValue]:
            key = code.bounded(key, attention.keys)
            score = code.binary(arith.MinnumfOp, repair.score(row, key), largest)
            weight = attention.power(code, score, shift, self.raised)
            value = repair.value(key, column + lanes(count), count)
            return [code.binary(arith.AddfOp, held[0], repair.term(score, weight, value))]

        first = attention.within(self.part, attention.first(row))
        limit = attention.within(self.part, attention.limit(row))
        zero = code.constant(0, memory_type(attention.element), count)
        (sums,) = code.loop(first, limit, one_key, [zero], unroll=1)
        return sums
