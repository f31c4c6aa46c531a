"""The contraction template for GPUs: a work-group computes a tile of the result from local memory.

For each block of the shared axis the group copies a tile of either operand into local memory, with
what comes before the product evaluated on the way; each work-item then adds up a small square in
registers. Rows and columns past an edge are read from the last one inside, and not written.
"""

from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.passes.lower_kernels.body import Indices
from mgn.passes.lower_kernels.emission import memory_type
from mgn.passes.lower_kernels.index import Counter, Index, delinearised, lanes, of
from mgn.passes.lower_kernels.product import Product, multiply_add, write_tile
from mgn.passes.lower_kernels.scalar import accumulator, widened
from mgn.passes.lower_kernels.template import Job, Launch, ceil_div


@dataclass
class Tiling:
    """A group has `down` x `across` work-items of `rows` x `columns` results; `depth` steps at a
    time. `width` results are neighbours; the work-item's other columns lie a group's width apart.
    """

    down: int
    across: int
    rows: int
    columns: int
    depth: int
    width: int

    @property
    def items(self) -> int:
        return self.down * self.across

    @property
    def tile_rows(self) -> int:
        return self.down * self.rows

    @property
    def tile_columns(self) -> int:
        return self.across * self.columns


def lower_tiled(job: Job, product: Product) -> Launch:
    """Writes a contraction kernel of local-memory tiles."""
    return _Tiled(job, product).write()


def _tiling(job: Job, product: Product) -> Tiling:
    width = job.number("lanes", 4)
    while width > 1 and product.columns % width:
        width //= 2
    side = job.number("group_side", 16)
    wanted = job.number("units", 1)
    rows = columns = job.number("item_side", 8)
    while rows > 1:
        tiles = ceil_div(product.rows, side * rows) * ceil_div(product.columns, side * columns)
        if tiles * prod(product.batch) >= wanted and side * rows < 2 * product.rows:
            break
        rows //= 2
        columns = max(columns // 2, width)
    width = min(width, columns)
    return Tiling(side, side, rows, columns, job.number("block_depth", 16), width)


class _Tiled:
    def __init__(self, job: Job, product: Product) -> None:
        self.job, self.product, self.code = job, product, job.code
        self.sizes = _tiling(job, product)
        self.type = memory_type(accumulator(product.element))
        sizes = self.sizes
        self.left = self.code.local(self.type, sizes.depth * sizes.tile_rows)
        self.right = self.code.local(self.type, sizes.depth * sizes.tile_columns)

    def write(self) -> Launch:
        product, sizes, code = self.product, self.sizes, self.code
        across = ceil_div(product.columns, sizes.tile_columns)
        down = ceil_div(product.rows, sizes.tile_rows)
        groups = across * down * prod(product.batch)
        group = code.counter(kernel.GroupIdOp, 0, groups)
        place = code.counter(kernel.LocalIdOp, 0, sizes.items)
        other = group // across
        self.place = place
        self.batch = delinearised(other // down, product.batch)
        self.first_row = other % down * sizes.tile_rows
        self.first_column = group % across * sizes.tile_columns
        self.own_row = place // sizes.across * sizes.rows
        self.own_column = place % sizes.across * sizes.width
        zero = code.constant(0, self.type, sizes.width)
        parts = sizes.columns // sizes.width
        totals = [zero] * (sizes.rows * parts)
        blocks = ceil_div(product.depth, sizes.depth)
        totals = code.loop(0, blocks, self._block, totals)
        self._results(totals, parts)
        return Launch((groups * sizes.items,), (sizes.items,))

    def _block(self, block: Index, held: list[SSAValue]) -> list[SSAValue]:
        sizes, code = self.sizes, self.code
        first = block * sizes.depth
        self._copy_left(first)
        self._copy_right(first)
        code.barrier()

        def step(k: Index, held: list[SSAValue]) -> list[SSAValue]:
            parts = [
                code.load(
                    self.right,
                    code.index(
                        k * sizes.tile_columns + self.own_column + j * sizes.across * sizes.width
                    ),
                    sizes.width,
                )
                for j in range(sizes.columns // sizes.width)
            ]
            values = iter(held)
            result: list[SSAValue] = []
            for i in range(sizes.rows):
                a = code.load(self.left, code.index(k * sizes.tile_rows + self.own_row + i))
                result += [
                    multiply_add(code, accumulator(self.product.element), a, b, next(values))
                    for b in parts
                ]
            return result

        totals = code.loop(0, sizes.depth, step, held)
        code.barrier()
        return totals

    def _copy_left(self, first: Index) -> None:
        """A tile of the left operand, stored with its rows side by side."""
        product, sizes = self.product, self.sizes
        count = sizes.depth * sizes.tile_rows
        by_depth = not product.node.values["transpose_a"]
        for number in range(ceil_div(count, sizes.items)):
            element = self.place + number * sizes.items
            if by_depth:
                row, k = element // sizes.depth, element % sizes.depth
            else:
                row, k = element % sizes.tile_rows, element // sizes.tile_rows
            value = self._operand(0, first + k, self.first_row + row, product.rows)
            self._put(value, self.left, k * sizes.tile_rows + row, element, count)

    def _copy_right(self, first: Index) -> None:
        """A tile of the right operand, stored with its columns side by side."""
        product, sizes = self.product, self.sizes
        count = sizes.depth * sizes.tile_columns
        by_depth = bool(product.node.values["transpose_b"])
        for number in range(ceil_div(count, sizes.items)):
            element = self.place + number * sizes.items
            if by_depth:
                column, k = element // sizes.depth, element % sizes.depth
            else:
                column, k = element % sizes.tile_columns, element // sizes.tile_columns
            value = self._operand(1, first + k, self.first_column + column, product.columns)
            self._put(value, self.right, k * sizes.tile_columns + column, element, count)

    def _put(
        self, value: SSAValue, buffer: SSAValue, place: Index, element: Index, count: int
    ) -> None:
        code = self.code
        code.when(
            code.is_below(element, count, 1), lambda: code.store(value, buffer, code.index(place))
        )

    def _operand(self, number: int, k: Index, own: Index, limit: int) -> SSAValue:
        """An element of an operand, 0 past the end of the shared axis."""
        product, code = self.product, self.code
        inside = code.is_below(k, product.depth, 1)
        depth = _bounded(self.job, k, product.depth)
        place = _bounded(self.job, own, limit)
        node = product.node.operands[number]
        index: Indices = (
            product.left_index(self.batch, place, depth)
            if number == 0
            else product.right_index(self.batch, depth, place)
        )
        value = widened(code, self.job.evaluator(1).at(node, index), product.element)
        if inside is True:
            return value
        assert not isinstance(inside, bool)
        return code.select(inside, value, code.constant(0, self.type))

    def _results(self, totals: list[SSAValue], parts: int) -> None:
        product, sizes, code = self.product, self.sizes, self.code
        evaluator = self.job.evaluator(sizes.width)
        for i in range(sizes.rows):
            for j in range(parts):
                row = self.first_row + self.own_row + i
                column = self.first_column + self.own_column + j * sizes.across * sizes.width
                tests = [
                    code.is_below(row, product.rows, 1),
                    code.is_below(column, product.columns, 1),
                ]

                def one(
                    row: Index = row, column: Index = column, number: int = i * parts + j
                ) -> None:
                    inside = _bounded(self.job, row, product.rows)
                    start = _bounded(self.job, column, product.columns - sizes.width + 1)
                    write_tile(
                        self.job,
                        product,
                        evaluator,
                        self.batch,
                        [inside],
                        [start + lanes(sizes.width)],
                        [totals[number]],
                    )

                code.when(_both(self.job, tests), one)


def _both(job: Job, tests: list[SSAValue | bool]) -> SSAValue | bool:
    if False in tests:
        return False
    unknown = [test for test in tests if not isinstance(test, bool)]
    if not unknown:
        return True
    test = unknown[0]
    for more in unknown[1:]:
        test = job.code.binary(arith.AndIOp, test, more)
    return test


def _bounded(job: Job, index: Index, limit: int) -> Index:
    """An index brought below a limit; of one that is below anyway, the last name."""
    if index.high < limit:
        return index
    return of(Counter(job.code.index(index.clamp(0, limit - 1)), 0, limit - 1))
