"""Packing operands of a product into local memory, in the order in which register tiles read them.

In: a block of the shared axis and the first row or column. Out: stores; what comes before the
product is evaluated on the way.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects import vector
from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import SSAValue

from mgn.passes.kernels.index import Index
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.core.operand import Operand
from mgn.passes.lower_kernels.core.pure_code import lane_count

if TYPE_CHECKING:
    from mgn.passes.schedules.core.packed_blocking import Blocking


Panels = tuple[Index | int, Callable[[Index], Index]]
"""How many panels there are, and the column where each begins."""


@dataclass
class LeftTile:
    """A tile of the left operand in a local buffer, and what one step or row more adds there."""

    buffer: SSAValue
    rows: int
    step: int
    row: int

    def place(self, i: Index | int, k: Index) -> Index:
        """The element of row `i` at step `k`."""
        return k * self.step + i * self.row


@dataclass
class RightBlock:
    """Panels of the right operand in a local buffer."""

    buffer: SSAValue
    sizes: "Blocking"

    def place(self, panel: Index, k: Index, j: Index | int) -> Index:
        """Vector `j` of a panel at step `k`."""
        columns = self.sizes.columns
        return panel * (self.sizes.depth * columns) + k * columns + j * self.sizes.width


def pack_panels(
    operand: Operand,
    first: Index,
    steps: Index | int,
    panels: Panels,
    block: RightBlock,
    start: Index | int = 0,
) -> None:
    """All panels, step by step, read a vector of columns at a time."""
    code, sizes, (count, column_of) = operand.job.code, block.sizes, panels

    def vectors(k: Index, depth: Index, panel: Index) -> None:
        column = column_of(panel)
        for j in range(sizes.vectors):
            value = operand.across(sizes.vector(column, j), depth, sizes.width)
            code.store(value, block.buffer, code.index(block.place(panel, k, j)))

    def step(k: Index) -> None:
        depth = _bounded(code, first + k, operand.product.depth)
        code.each(0, count, lambda panel: vectors(k, depth, panel))

    code.each(start, steps, step)


def pack_transposed_panels(
    operand: Operand,
    first: Index,
    steps: Index | int,
    panels: Panels,
    block: RightBlock,
) -> None:
    """All panels, of columns that are contiguous in memory: squares are read and transposed."""
    code, sizes, (count, column_of) = operand.job.code, block.sizes, panels
    width = sizes.width
    squares = steps // width

    def square(panel: Index, number: Index, part: Index) -> None:
        k = number * width
        depth = code.known(first + k, operand.product.depth - width + 1)
        column = sizes.vector(column_of(panel), part)
        rows = [operand.along_depth(column + c, depth, width) for c in range(width)]
        for offset, value in enumerate(transposed(code, rows)):
            code.store(value, block.buffer, code.index(block.place(panel, k + offset, part)))

    def line(panel: Index, number: Index) -> None:
        code.each(0, sizes.vectors, lambda part: square(panel, number, part))

    def panel(panel: Index) -> None:
        code.each(0, squares, lambda number: line(panel, number))

    code.each(0, count, panel)
    done = squares * width
    if not isinstance(steps, int) or (isinstance(done, int) and done < steps):
        pack_panels(operand, first, steps, panels, block, start=done)


def transposed(code: Code, rows: list[SSAValue]) -> list[SSAValue]:
    """A square of vectors, transposed: by halves, then by quarters, and so on."""
    width = len(rows)
    distance = width // 2
    while distance:
        low = [lane if lane & distance == 0 else width + lane - distance for lane in range(width)]
        high = [lane + distance if lane & distance == 0 else width + lane for lane in range(width)]
        result = list(rows)
        for i in range(width):
            if i & distance == 0:
                pair = [rows[i], rows[i + distance]]
                result[i] = _shuffle(code, pair, low)
                result[i + distance] = _shuffle(code, pair, high)
        rows = result
        distance //= 2
    return rows


def every_second(code: Code, pair: list[SSAValue], first: int) -> SSAValue:
    """Every second lane of two vectors that follow each other, from the first or second one on."""
    width = lane_count(pair[0])
    if width == 1:
        return pair[first]
    return _shuffle(code, pair, [2 * lane + first for lane in range(width)])


def _shuffle(code: Code, pair: list[SSAValue], mask: list[int]) -> SSAValue:
    return code.pure(vector.ShuffleOp, pair, pair[0].type, mask=DenseArrayBase.from_list(i64, mask))


def pack_left_rows(
    operand: Operand,
    first: Index,
    steps: Index | int,
    row: Index,
    tile: LeftTile,
) -> None:
    """The rows of a tile, read a vector of steps at a time."""
    code, width = operand.job.code, operand.job.number("lanes", 16)

    def one_row(i: Index) -> None:
        def put(k: Index, count: int) -> None:
            depth = code.known(first + k, max(operand.product.depth - count, 0) + 1)
            number = code.known(row + i, operand.product.rows)
            value = operand.along_depth(number, depth, count)
            code.store(value, tile.buffer, code.index(tile.place(i, k)))

        vectors = steps // width
        if width <= operand.product.depth:
            code.each(0, vectors, lambda n: put(n * width, width))
        code.each(vectors * width, steps, lambda k: put(k, 1))

    code.each(0, tile.rows, one_row)


def pack_left_columns(
    operand: Operand,
    first: Index,
    steps: Index | int,
    row: Index,
    tile: LeftTile,
) -> None:
    """The columns of a tile, read a vector of rows at a time."""
    code = operand.job.code

    def one_step(k: Index) -> None:
        depth = _bounded(code, first + k, operand.product.depth)
        done = 0
        while done < tile.rows:
            count = 16
            while count > tile.rows - done:
                count //= 2
            value = operand.across(row + done, depth, count)
            code.store(value, tile.buffer, code.index(tile.place(done, k)))
            done += count

    code.each(0, steps, one_step)


def _bounded(code: Code, index: Index, limit: int) -> Index:
    """An index known to stay below a limit."""
    if index.high < limit:
        return index
    return code.known(index, limit)
