"""The contraction template for large products on a CPU: panels packed into local memory.

A work-item computes a block of the result: for each block of the shared axis it packs the right
operand into panels, columns side by side, which the register tiles then read contiguously; the left
operand is read where it lies if its rows are contiguous, and packed otherwise. What comes before
the product is evaluated while packing, so once; what comes after, on the finished tile.
"""

from dataclasses import dataclass
from math import prod

from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.passes.lower_kernels.emission import memory_type
from mgn.passes.lower_kernels.index import Counter, Index, delinearised, lanes, of
from mgn.passes.lower_kernels.panels import (
    LeftBlock,
    pack_left_columns,
    pack_left_rows,
    pack_panel,
    pack_transposed_panel,
)
from mgn.passes.lower_kernels.product import Product, multiply_add, tile_start, write_tile
from mgn.passes.lower_kernels.scalar import accumulator
from mgn.passes.lower_kernels.template import Job, Launch, ceil_div

LONGEST_VECTOR = 16

SIMPLE_EPILOGUE = 3
"""Up to how many operations after the product are written out for each vector of a tile."""


@dataclass
class Blocking:
    """Sizes: `rows` x `vectors` of `width` lanes a register tile, `down` x `across` of those a
    work-item, `depth` steps of the shared axis at a time.
    """

    width: int
    vectors: int
    rows: int
    down: int
    across: int
    depth: int

    @property
    def columns(self) -> int:
        return self.vectors * self.width


def lower_packed(job: Job, product: Product) -> Launch:
    """Writes a contraction kernel with packed panels."""
    return _Packed(job, product).write()


def _blocking(job: Job, product: Product) -> Blocking:
    width = job.number("lanes", 16)
    while width > product.columns:
        width //= 2
    vectors = max(1, min(job.number("tile_vectors", 2), product.columns // width))
    rows = min(job.number("tile_rows", 8), product.rows)
    tiles_down, tiles_across = (
        ceil_div(product.rows, rows),
        ceil_div(product.columns, vectors * width),
    )
    down = min(job.number("block_rows", 128) // rows, tiles_down)
    across = max(1, min(job.number("block_columns", 64) // (vectors * width), tiles_across))
    wanted = 8 * job.number("units", 2)
    while down * across > 1:
        blocks = ceil_div(tiles_down, down) * ceil_div(tiles_across, across)
        if blocks * prod(product.batch) >= wanted:
            break
        if across > 1:
            across = ceil_div(across, 2)
        else:
            down = ceil_div(down, 2)
    depth = _block_depth(job, product, down * rows, across * vectors * width)
    return Blocking(width, vectors, rows, down, across, depth)


def _block_depth(job: Job, product: Product, rows: int, columns: int) -> int:
    """Steps of the shared axis whose panels fit into local memory, in blocks of like size."""
    element = accumulator(product.element)
    room = job.number("local_memory", 256 * 1024) // element.bytes - rows * columns
    packed = columns if reads_left_in_place(product) else columns + rows
    most = min(job.number("block_depth", 512), max(room // packed, 1))
    most = max(most // LONGEST_VECTOR * LONGEST_VECTOR, LONGEST_VECTOR)
    blocks = max(ceil_div(product.depth, most), 1)
    even = ceil_div(ceil_div(product.depth, blocks), LONGEST_VECTOR) * LONGEST_VECTOR
    return max(min(even, product.depth), 1)


def reads_left_in_place(product: Product) -> bool:
    """Whether register tiles read the left operand where it lies."""
    return product.left_runs_along_depth and accumulator(product.element) is product.element


class _Packed:
    def __init__(self, job: Job, product: Product) -> None:
        self.job, self.product, self.code = job, product, job.code
        self.sizes = _blocking(job, product)
        self.type = memory_type(accumulator(product.element))
        sizes, code = self.sizes, job.code
        self.tiles_down = ceil_div(product.rows, sizes.rows)
        self.tiles_across = ceil_div(product.columns, sizes.columns)
        self.panels = code.local(self.type, sizes.across * sizes.depth * sizes.columns)
        self.left = self._left_block()
        self.blocks = ceil_div(product.depth, sizes.depth)
        after = len(job.body.dependent_on([product.node])) - 1
        self.is_direct = self.blocks == 1 and after <= SIMPLE_EPILOGUE
        if not self.is_direct:
            count = sizes.down * sizes.rows * sizes.across * sizes.columns
            self.totals = code.local(self.type, count)

    def _left_block(self) -> LeftBlock:
        product, sizes = self.product, self.sizes
        if reads_left_in_place(product):
            return LeftBlock(None, "memory", sizes.rows, sizes.depth)
        count = sizes.down * sizes.rows * sizes.depth
        layout = "columns" if product.node.values["transpose_a"] else "rows"
        return LeftBlock(self.code.local(self.type, count), layout, sizes.rows, sizes.depth)

    def write(self) -> Launch:
        product, sizes, code = self.product, self.sizes, self.code
        blocks_down = ceil_div(self.tiles_down, sizes.down)
        blocks_across = ceil_div(self.tiles_across, sizes.across)
        items = blocks_down * blocks_across * prod(product.batch)
        item = code.counter(kernel.GlobalIdOp, 0, items)
        block_row, other = item % blocks_down, item // blocks_down
        block_column, batch_number = other % blocks_across, other // blocks_across
        self.batch = delinearised(batch_number, product.batch)
        self.first_row = block_row * sizes.down
        self.first_column = block_column * sizes.across
        self.count_down = self._count(self.first_row, sizes.down, self.tiles_down)
        self.count_across = self._count(self.first_column, sizes.across, self.tiles_across)
        if not self.is_direct:
            self._clear()
        code.loop(0, self.blocks, lambda block, _: self._one_block(block) or ())
        if not self.is_direct:
            self._finish()
        return Launch((items,))

    def _count(self, first: Index, most: int, limit: int) -> Index | int:
        if limit % most == 0:
            return most
        return (first * -1 + limit).clamp(1, most)

    def _clear(self) -> None:
        sizes, code = self.sizes, self.code
        count = sizes.down * sizes.rows * sizes.across * sizes.columns // sizes.width
        zero = code.constant(0, self.type, sizes.width)
        code.loop(
            0, count, lambda n, _: code.store(zero, self.totals, code.index(n * sizes.width)) or ()
        )

    def _row(self, tile: Index) -> Index:
        """The first row of a tile of this block."""
        number = of(Counter(self.code.index(self.first_row + tile), 0, self.tiles_down - 1))
        return tile_start(self.code, number, self.sizes.rows, self.product.rows)

    def _column(self, panel: Index) -> Index:
        """The first column of a panel of this block."""
        number = of(Counter(self.code.index(self.first_column + panel), 0, self.tiles_across - 1))
        return tile_start(self.code, number, self.sizes.columns, self.product.columns)

    def _one_block(self, block: Index) -> None:
        """Packs one block of the shared axis, and adds its products to all tiles."""
        product, sizes, code = self.product, self.sizes, self.code
        first = block * sizes.depth
        steps: Index | int = sizes.depth
        if product.depth % sizes.depth:
            steps = (first * -1 + product.depth).clamp(0, sizes.depth)

        def panel(number: Index) -> None:
            column = self._column(number)
            base = number * (sizes.depth * sizes.columns)
            pack = pack_transposed_panel if product.right_runs_along_depth else pack_panel
            if sizes.width * 2 > product.depth or sizes.width == 1:
                pack = pack_panel
            pack(self.job, product, self.batch, first, steps, column, self.panels, base, sizes)

        code.loop(0, self.count_across, lambda number, _: panel(number) or ())
        if self.left.buffer is not None:
            pack_left = pack_left_rows if self.left.layout == "rows" else pack_left_columns

            def rows(tile: Index) -> None:
                pack_left(
                    self.job, product, self.batch, first, steps, self._row(tile), tile, self.left
                )

            code.loop(0, self.count_down, lambda tile, _: rows(tile) or ())
        code.loop(
            0,
            self.count_across,
            lambda panel, _: code.loop(
                0, self.count_down, lambda tile, _: self._tile(panel, tile, first, steps) or ()
            ),
        )

    def _tile(self, panel: Index, tile: Index, first: Index, steps: Index | int) -> None:
        """One register tile: a panel of columns times a few rows."""
        product, sizes, code = self.product, self.sizes, self.code
        row = self._row(tile)
        base = panel * (sizes.depth * sizes.columns)
        vectors = range(sizes.vectors)

        def step(k: Index, held: list[SSAValue]) -> list[SSAValue]:
            parts = [
                code.load(
                    self.panels,
                    code.index(base + k * sizes.columns + j * sizes.width),
                    sizes.width,
                )
                for j in vectors
            ]
            values = iter(held)
            result: list[SSAValue] = []
            for i in range(sizes.rows):
                a = self._left_value(row, tile, i, first, k)
                result += [
                    multiply_add(code, accumulator(product.element), a, b, next(values))
                    for b in parts
                ]
            return result

        start = self._held(panel, tile)
        totals = code.loop(0, steps, step, start)
        if self.is_direct:
            column = self._column(panel)
            rows = [row + i for i in range(sizes.rows)]
            columns = [column + j * sizes.width + lanes(sizes.width) for j in vectors]
            evaluator = self.job.evaluator(sizes.width)
            write_tile(self.job, product, evaluator, self.batch, rows, columns, totals)
            return
        for number, total in enumerate(totals):
            place = self._place(panel, tile) + number * sizes.width
            code.store(total, self.totals, code.index(place))

    def _place(self, panel: Index, tile: Index) -> Index:
        tile_size = self.sizes.rows * self.sizes.columns
        return panel * (self.sizes.down * tile_size) + tile * tile_size

    def _held(self, panel: Index, tile: Index) -> list[SSAValue]:
        sizes, code = self.sizes, self.code
        count = sizes.rows * sizes.vectors
        if self.is_direct:
            return [code.constant(0, self.type, sizes.width)] * count
        place = self._place(panel, tile)
        return [
            code.load(self.totals, code.index(place + number * sizes.width), sizes.width)
            for number in range(count)
        ]

    def _left_value(self, row: Index, tile: Index, i: int, first: Index, k: Index) -> SSAValue:
        code, left = self.code, self.left
        if left.buffer is None:
            index = self.product.left_index(self.batch, row + i, first + k)
            return self.job.evaluator(1).at(self.product.node.operands[0], index)
        return code.load(left.buffer, code.index(left.place(tile, i, k)))

    def _finish(self) -> None:
        """Evaluates what follows the product on all finished tiles, a vector at a time."""
        sizes, code = self.sizes, self.code
        evaluator = self.job.evaluator(sizes.width)

        def vector(tile: Index, i: Index, panel: Index, j: int) -> None:
            place = self._place(panel, tile) + i * sizes.columns + j * sizes.width
            total = code.load(self.totals, code.index(place), sizes.width)
            column = self._column(panel) + j * sizes.width + lanes(sizes.width)
            row = of(Counter(code.index(self._row(tile) + i), 0, self.product.rows - 1))
            write_tile(self.job, self.product, evaluator, self.batch, [row], [column], [total])

        def vectors(tile: Index, i: Index, panel: Index) -> tuple[()]:
            for j in range(sizes.vectors):
                vector(tile, i, panel, j)
            return ()

        def one_row(tile: Index, i: Index) -> None:
            code.loop(0, self.count_across, lambda panel, _: vectors(tile, i, panel))

        code.loop(
            0,
            self.count_down,
            lambda tile, _: code.loop(0, sizes.rows, lambda i, _: one_row(tile, i) or ()),
        )
