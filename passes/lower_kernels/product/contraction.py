"""The contraction template: a batched matrix product with what comes before and after it.

CPU: large products go through packed panels (packed_product.py). Products of a few rows keep a
tile of the result in registers and read both operands where they lie: vectors along the columns,
or, where the right operand is transposed, along the shared axis. GPU: tiles in local memory
(tiled_product.py), or on its matrix unit (tensor_product.py); few rows read the right operand
where it lies (few_rows.py), and a single column makes sums (product_as_sum.py).
"""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.dialects.block_formats import BLOCK
from mgn.passes.kernels.accumulation import accumulator
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.body import Indices
from mgn.passes.kernels.index import Index, delinearised, lanes
from mgn.passes.kernels.product import Product, is_unpacked
from mgn.passes.kernels.product_as_sum import product_as_sum
from mgn.passes.lower_kernels.core.long_sums import long_loop
from mgn.passes.lower_kernels.core.operand import Operand
from mgn.passes.lower_kernels.core.product import add_products, tile_start, write_tile
from mgn.passes.lower_kernels.core.pure_code import memory_type
from mgn.passes.lower_kernels.core.scalar import across_lanes, combine
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.product.few_rows import lower_few_rows
from mgn.passes.lower_kernels.product.packed_product import lower_packed
from mgn.passes.lower_kernels.product.pixel_product import lower_pixel_product
from mgn.passes.lower_kernels.product.tensor_product import lower_tensor
from mgn.passes.lower_kernels.product.tiled_product import lower_tiled
from mgn.passes.lower_kernels.product.window_product import lower_window_product
from mgn.passes.lower_kernels.reduction.grouped_reduction import lower_grouped
from mgn.passes.schedules.product.product import ProductVariant

LONG_DEPTH = 256
"""Steps of a block of a long shared axis, where a tile of sums is in registers."""


def lower_contraction(job: Job) -> Launch:
    """Writes a contraction kernel as its schedule says."""
    product = Product.of_body(job.body)
    if job.is_gpu:
        product = product.interleaved
    match job.variant(ProductVariant):
        case ProductVariant.SUMS:
            return lower_grouped(replace(job, body=product_as_sum(job.body, product)))
        case ProductVariant.FEW_ROWS:
            return lower_few_rows(job, product)
        case ProductVariant.DOTS:
            return _dots(job, product)
        case ProductVariant.MATRIX:
            return lower_tensor(job, product, str(job.schedule["matrix"]))
        case ProductVariant.TILES:
            return lower_tiled(job, product)
        case ProductVariant.PACKED:
            return lower_packed(job, product)
        case ProductVariant.DIRECT:
            return _direct(job, product)
        case ProductVariant.WINDOWS:
            return lower_window_product(job, product)
        case ProductVariant.PLACES:
            return lower_pixel_product(job, product)


def _tiles(product: Product, down: int, across: int) -> int:
    """How many tiles of rows and columns there are."""
    return ceil_div(product.rows, down) * ceil_div(product.columns, across) * prod(product.batch)


def _tile_at(
    job: Job, product: Product, place: Index, down: int, across: int
) -> tuple[Indices, Index, Index]:
    """The batch, the first row and the first column of a tile."""
    tile_rows, tile_columns = ceil_div(product.rows, down), ceil_div(product.columns, across)
    column_tile, other = place % tile_columns, place // tile_columns
    row_tile, batch_number = other % tile_rows, other // tile_rows
    batch = delinearised(batch_number, product.batch)
    column = tile_start(job.code, column_tile, across, product.columns)
    return batch, tile_start(job.code, row_tile, down, product.rows), column


def _dots(job: Job, product: Product) -> Launch:
    """Vectors run along the shared axis; their lanes are added up at the end."""
    code = job.code
    down, across, block = (job.entry(name) for name in ("tile_rows", "tile_columns", "block"))
    tiles = _tiles(product, down, across)
    items = ceil_div(tiles, block)
    item = code.counter(kernel.GlobalIdOp, 0, items)

    def tile(place: Index) -> None:
        batch, row, column = _tile_at(job, product, place, down, across)
        totals = _dot_tile(
            job, product, batch, [row + i for i in range(down)], [column + j for j in range(across)]
        )
        if across == 1:
            rows, columns = [row + lanes(down)], [column]
            totals = [job.code.joined(totals)]
        else:
            rows, columns = [row + i for i in range(down)], [column + lanes(across)]
            totals = [job.code.joined(totals[i * across : (i + 1) * across]) for i in range(down)]
        evaluator = job.evaluator(max(across, down if across == 1 else 1))
        write_tile(job, product, evaluator, batch, rows, columns, totals)

    code.each_own(item, block, tiles, tile)
    return Launch((items,), (1,))


def _dot_tile(
    job: Job, product: Product, batch: Indices, rows: Sequence[Index], columns: Sequence[Index]
) -> list[SSAValue]:
    code, element = job.code, product.element
    left, right = Operand.both(job, product, batch)
    width = job.number("lanes", 16)

    def step(count: int, k: Index, held: list[SSAValue]) -> list[SSAValue]:
        a_parts = [left.along_depth(row, k, count) for row in rows]
        b_parts = [right.along_depth(column, k, count) for column in columns]
        return add_products(code, element, a_parts, b_parts, held)

    type = memory_type(accumulator(element))
    vectors = product.depth // width
    unroll = 4 if len(rows) * len(columns) <= 2 and vectors >= 8 else 1
    count = len(rows) * len(columns)
    together = _vectors_of_a_block(product, width)
    if together > 1:
        blocks = vectors // together
        unroll = max(part for part in (1, 2, 3, 4) if blocks % part == 0 and part * count <= 16)

    def block(number: Index, held: list[SSAValue]) -> list[SSAValue]:
        result: list[SSAValue] = []
        for part in range(unroll):
            sums = held[part * count : (part + 1) * count]
            for place in range(together):
                k = number * (unroll * together * width) + (part * together + place) * width
                sums = step(width, k, sums)
            result += sums
        return result

    zeros = [code.constant(0, type, width)] * (count * unroll)
    sums = [element.is_float] * len(zeros)
    taken = unroll * together
    held = long_loop(code, 0, vectors // taken, block, zeros, sums)
    totals = held[:count]
    for part in range(1, unroll):
        totals = [
            combine(code, "sum", accumulator(element), x, y)
            for x, y in zip(totals, held[part * count : (part + 1) * count], strict=True)
        ]
    done = vectors // taken * taken
    totals = code.loop(done, vectors, lambda n, held: step(width, n * width, held), totals)
    totals = [across_lanes(code, "sum", accumulator(element), total) for total in totals]
    return code.loop(vectors * width, product.depth, lambda k, held: step(1, k, held), totals)


def _vectors_of_a_block(product: Product, width: int) -> int:
    """How many vectors a block of a packed right operand has; 1 where it is not packed."""
    packed = is_unpacked(product.node.operands[1]) and product.depth % BLOCK == 0
    return max(BLOCK // width, 1) if packed else 1


def _direct(job: Job, product: Product) -> Launch:
    """Operands are read where they lie; edges are covered by tiles that overlap."""
    code = job.code
    width, down, across = (job.entry(name) for name in ("width", "tile_rows", "tile_vectors"))
    local = job.number("local", 1) if job.is_gpu else 1
    tiles = _tiles(product, down, width * across)
    items = ceil_div(tiles, local) * local
    item = code.counter(kernel.GlobalIdOp, 0, items)

    def tile() -> None:
        place = code.known(item, tiles)
        batch, row, column = _tile_at(job, product, place, down, width * across)
        rows = [row + i for i in range(down)]
        columns = [column + j * width for j in range(across)]
        totals = _accumulate(job, product, width, batch, rows, columns)
        vectors = [column + lanes(width) for column in columns]
        write_tile(job, product, job.evaluator(width), batch, rows, vectors, totals)

    code.when(code.is_below(item, tiles, 1), tile)
    return Launch((items,), (local,))


def _accumulate(
    job: Job,
    product: Product,
    width: int,
    batch: Indices,
    rows: Sequence[Index],
    columns: Sequence[Index],
) -> list[SSAValue]:
    code, element = job.code, product.element
    left, right = Operand.both(job, product, batch)
    zero = code.constant(0, memory_type(accumulator(element)), width)

    def step(k: Index, held: list[SSAValue]) -> list[SSAValue]:
        parts = [right.across(column, k, width) for column in columns]
        own = (code.spread(left.at(row, k), width) for row in rows)
        return add_products(code, element, own, parts, held)

    count = len(rows) * len(columns)
    sums = [element.is_float] * count
    return long_loop(code, 0, product.depth, step, [zero] * count, sums, block=LONG_DEPTH)
