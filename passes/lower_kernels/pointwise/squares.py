"""The pointwise template where neighbours in the result are far apart in an operand: transposes.

A work-item takes squares: as many rows of the result as a vector has lanes, where the rows run
along the axis on which the operand is contiguous. The operand's square is read in vectors along
that axis and transposed in registers; the body is evaluated once for each row of the square.
"""

from collections.abc import Sequence
from math import prod

from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.index import (
    Counter,
    Index,
    delinearised,
    lanes,
    of,
)
from mgn.passes.kernels.loads import is_plain
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.core.evaluate import Evaluator
from mgn.passes.lower_kernels.core.product import tile_start
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.staging.panels import transposed


class _SquareEvaluator(Evaluator):
    """Reads what is contiguous along the rows of a square by transposing the square."""

    def __init__(self, code: Code, buffers: Sequence[SSAValue], width: int, row: Counter) -> None:
        super().__init__(code, buffers, width)
        self.row = row
        self.offset = 0

    def load(self, buffer: SSAValue, index: Index) -> SSAValue:
        stride = index.lane_stride
        along_rows = stride not in (None, 0, 1) and dict(index.terms).get(self.row) == 1
        if not along_rows or not is_plain(index, self.row):
            return super().load(buffer, index)
        corner = index - self.offset
        key = ("square", buffer, corner)
        square = self.code.recall(key)
        if square is None:
            columns = [
                self.code.load(buffer, self.code.index(corner.at_lane(lane)), self.lanes)
                for lane in range(self.lanes)
            ]
            square = transposed(self.code, columns)
            self.code.remember(key, square)
        return square[self.offset]


def lower_squares(job: Job, shape: tuple[int, ...]) -> Launch:
    """Writes a pointwise kernel in squares of as many rows along an axis as there are columns."""
    code = job.code
    axis, width, block = (job.entry(name) for name in ("axis", "width", "block"))
    inner, along = shape[-1], shape[axis]
    across, down = ceil_div(inner, width), ceil_div(along, width)
    others = tuple(size for n, size in enumerate(shape[:-1]) if n != axis)
    bands = prod(others) * down
    groups = ceil_div(across, block)
    items = bands * groups
    item = code.counter(kernel.GlobalIdOp, 0, items)
    group, band = item % groups, item // groups
    start = tile_start(code, band % down, width, along)
    row = Counter(code.index(start), 0, along - width)
    outer = list(delinearised(band // down, others))

    def square(step: Index) -> None:
        number = code.known((group * block + step).clamp(0, across - 1), across)
        column = tile_start(code, number, width, inner) + lanes(width)
        evaluator = _SquareEvaluator(code, job.inputs, width, row)
        for offset in range(width):
            evaluator.offset = offset
            front = [*outer[:axis], of(row) + offset, *outer[axis:]]
            index = (*front, column)
            job.write_at(evaluator, lambda _, index=index: index)

    code.each(0, block, square)
    return Launch((items,))
