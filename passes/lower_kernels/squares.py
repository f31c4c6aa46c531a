"""The pointwise template where neighbours in the result are strangers in an operand: transposes.

A work-item takes squares: as many rows of the result as a vector has lanes, where the rows run
along the axis on which the operand is contiguous. The operand's square is read in vectors along
that axis and transposed in registers; the body is evaluated once for each row of the square.
"""

from collections.abc import Sequence
from math import prod

from xdsl.ir import Block, SSAValue

from mgn.dialects import kernel
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.body import Body
from mgn.passes.kernels.index import (
    Clamped,
    Counter,
    Index,
    Quotient,
    Remainder,
    delinearised,
    lanes,
    of,
)
from mgn.passes.lower_kernels.emission import Code
from mgn.passes.lower_kernels.evaluate import Evaluator
from mgn.passes.lower_kernels.panels import transposed
from mgn.passes.lower_kernels.product import tile_start
from mgn.passes.lower_kernels.pure_code import INDEX, memory_type
from mgn.passes.lower_kernels.template import Job, Launch

LONGEST_BODY = 12
"""Up to how many operations are worth writing out for each row of a square."""


def row_axis(body: Body, shape: tuple[int, ...], width: int) -> int | None:
    """The axis of the result along which an operand is contiguous; None where squares do not help.

    Found by evaluating the body at an index of plain counters, and looking at what is loaded.
    """
    turned = any(node.name == "transpose" for node in body.nodes)
    if not turned or len(body.nodes) > LONGEST_BODY or len(shape) < 2 or shape[-1] < width:
        return None
    counters, loads, _ = plain_loads(body, shape)
    for _, index in loads:
        strides = dict(index.terms)
        if strides.get(counters[-1], 0) in (0, 1) or not is_plain(index, counters[-1]):
            continue
        for axis, counter in enumerate(counters[:-1]):
            if strides.get(counter) == 1 and shape[axis] >= width and is_plain(index, counter):
                return axis
    return None


def plain_loads(
    body: Body, shape: tuple[int, ...]
) -> tuple[tuple[Counter, ...], list[tuple[SSAValue, Index]], list[SSAValue]]:
    """What is loaded for the results' element at an index of plain counters: these, buffers with
    places in them, and the inputs' buffers in order.
    """
    code = Code(Block(arg_types=[INDEX] * len(shape)))
    counters = tuple(Counter(code.block.args[n], 0, size - 1) for n, size in enumerate(shape))
    types = [memory_type(node.element) for node in body.inputs]
    buffers: list[SSAValue] = [*Block(arg_types=types).args]
    probe = Probe(code, buffers)
    for node in body.written:
        probe.at(node, tuple(of(counter) for counter in counters))
    return counters, probe.loads, buffers


class Probe(Evaluator):
    """Notes the indices of loads, and loads nothing."""

    def __init__(self, code: Code, buffers: Sequence[SSAValue]) -> None:
        super().__init__(code, buffers)
        self.loads: list[tuple[SSAValue, Index]] = []

    def load(self, buffer: SSAValue, index: Index) -> SSAValue:
        self.loads.append((buffer, index))
        return self.code.constant(0, buffer.type)


def is_plain(index: Index, *counters: Counter) -> bool:
    """Whether an index depends on counters in no other way than by a stride."""
    return not any(
        isinstance(atom, Quotient | Remainder | Clamped) and _mentions(atom.inner, counter)
        for atom, _ in index.terms
        for counter in counters
    )


def _mentions(index: Index, counter: Counter) -> bool:
    return any(
        atom is counter
        or (isinstance(atom, Quotient | Remainder | Clamped) and _mentions(atom.inner, counter))
        for atom, _ in index.terms
    )


class _SquareEvaluator(Evaluator):
    """Reads what is contiguous along the rows of a square by transposing the square."""

    def __init__(self, code: Code, buffers: Sequence[SSAValue], width: int, row: Counter) -> None:
        super().__init__(code, buffers, width)
        self.row = row
        self.offset = 0

    def load(self, buffer: SSAValue, index: Index) -> SSAValue:
        stride = index.lane_stride
        turned = stride not in (None, 0, 1) and dict(index.terms).get(self.row) == 1
        if not turned or not is_plain(index, self.row):
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


def lower_squares(job: Job, shape: tuple[int, ...], axis: int, width: int) -> Launch:
    """Writes a pointwise kernel in squares of `width` rows along an axis, and `width` columns."""
    code = job.code
    inner, along = shape[-1], shape[axis]
    across, down = ceil_div(inner, width), ceil_div(along, width)
    others = tuple(size for n, size in enumerate(shape[:-1]) if n != axis)
    bands = prod(others) * down
    block = max(1, min(across, job.number("chunk", 4096) // (width * width)))
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
            job.write(evaluator, [(n, node, index) for n, node in enumerate(job.body.written)])

    code.each(0, block, square)
    return Launch((items,))
