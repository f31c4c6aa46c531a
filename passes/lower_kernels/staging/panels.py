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

from mgn.passes.kernels.body import Indices
from mgn.passes.kernels.index import Index, lanes
from mgn.passes.kernels.product import Product
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.core.scalar import widened
from mgn.passes.lower_kernels.core.template import Job

if TYPE_CHECKING:
    from mgn.passes.schedules.packed_blocking import Blocking


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
    job: Job,
    product: Product,
    batch: Indices,
    first: Index,
    steps: Index | int,
    panels: Panels,
    block: RightBlock,
    start: Index | int = 0,
) -> None:
    """All panels, step by step, read a vector of columns at a time."""
    code, right, sizes = job.code, product.node.operands[1], block.sizes
    count, column_of = panels
    evaluator = job.evaluator(sizes.width)

    def vectors(k: Index, depth: Index, panel: Index) -> None:
        column = column_of(panel)
        for j in range(sizes.vectors):
            columns = sizes.vector(column, j) + lanes(sizes.width)
            index = product.right_index(batch, depth, columns)
            value = widened(code, evaluator.lanes_at(right, index), product.element)
            code.store(value, block.buffer, code.index(block.place(panel, k, j)))

    def step(k: Index) -> None:
        depth = _bounded(code, first + k, product.depth)
        code.each(0, count, lambda panel: vectors(k, depth, panel))

    code.each(start, steps, step)


def pack_transposed_panels(
    job: Job,
    product: Product,
    batch: Indices,
    first: Index,
    steps: Index | int,
    panels: Panels,
    block: RightBlock,
) -> None:
    """All panels, of columns that are contiguous in memory: squares are read and transposed."""
    code, right, sizes = job.code, product.node.operands[1], block.sizes
    count, column_of = panels
    width = sizes.width
    evaluator = job.evaluator(width)
    squares = steps // width

    def square(panel: Index, number: Index, part: Index) -> None:
        k = number * width
        depth = code.known(first + k, product.depth - width + 1)
        column = sizes.vector(column_of(panel), part)
        rows = [
            widened(
                code,
                evaluator.lanes_at(
                    right, product.right_index(batch, depth + lanes(width), column + c)
                ),
                product.element,
            )
            for c in range(width)
        ]
        for offset, value in enumerate(transposed(code, rows)):
            code.store(value, block.buffer, code.index(block.place(panel, k + offset, part)))

    def line(panel: Index, number: Index) -> None:
        code.each(0, sizes.vectors, lambda part: square(panel, number, part))

    def panel(panel: Index) -> None:
        code.each(0, squares, lambda number: line(panel, number))

    code.each(0, count, panel)
    done = squares * width
    if not isinstance(steps, int) or (isinstance(done, int) and done < steps):
        pack_panels(job, product, batch, first, steps, panels, block, start=done)


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


def _shuffle(code: Code, pair: list[SSAValue], mask: list[int]) -> SSAValue:
    return code.pure(vector.ShuffleOp, pair, pair[0].type, mask=DenseArrayBase.from_list(i64, mask))


def pack_left_rows(
    job: Job,
    product: Product,
    batch: Indices,
    first: Index,
    steps: Index | int,
    row: Index,
    tile: LeftTile,
) -> None:
    """The rows of a tile, read a vector of steps at a time."""
    code, left = job.code, product.node.operands[0]
    width = job.number("lanes", 16)

    def one_row(i: Index) -> None:
        def put(k: Index, count: int) -> None:
            evaluator = job.evaluator(count)
            depth = code.known(first + k, max(product.depth - count, 0) + 1)
            number = code.known(row + i, product.rows)
            index = product.left_index(batch, number, depth + lanes(count))
            value = widened(code, evaluator.lanes_at(left, index), product.element)
            code.store(value, tile.buffer, code.index(tile.place(i, k)))

        vectors = steps // width
        if width <= product.depth:
            code.each(0, vectors, lambda n: put(n * width, width))
        code.each(vectors * width, steps, lambda k: put(k, 1))

    code.each(0, tile.rows, one_row)


def pack_left_columns(
    job: Job,
    product: Product,
    batch: Indices,
    first: Index,
    steps: Index | int,
    row: Index,
    tile: LeftTile,
) -> None:
    """The columns of a tile, read a vector of rows at a time."""
    code, left = job.code, product.node.operands[0]

    def one_step(k: Index) -> None:
        depth = _bounded(code, first + k, product.depth)
        done = 0
        while done < tile.rows:
            count = 16
            while count > tile.rows - done:
                count //= 2
            evaluator = job.evaluator(count)
            index = product.left_index(batch, row + done + lanes(count), depth)
            value = widened(code, evaluator.lanes_at(left, index), product.element)
            code.store(value, tile.buffer, code.index(tile.place(done, k)))
            done += count

    code.each(0, steps, one_step)


def _bounded(code: Code, index: Index, limit: int) -> Index:
    """An index known to stay below a limit."""
    if index.high < limit:
        return index
    return code.known(index, limit)
