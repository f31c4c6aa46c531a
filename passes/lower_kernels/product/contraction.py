"""The contraction template: a batched matrix product with what comes before and after it.

CPU: large products go through packed panels (packed_product.py). Products of a few rows keep a
tile of the result in registers and read both operands where they lie: vectors along the columns,
or, where the right operand is transposed, along the shared axis (dots.py). GPU: tiles in local
memory (tiled_product.py), or on its matrix unit (tensor_product.py); few rows read the right
operand where it lies (few_rows.py), and a single column makes sums (product_as_sum.py).
"""

from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.passes.kernels.accumulation import accumulator
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.body import Indices
from mgn.passes.kernels.index import Index, lanes
from mgn.passes.kernels.product import Product
from mgn.passes.kernels.product_as_sum import product_as_sum
from mgn.passes.lower_kernels.core.long_sums import long_loop
from mgn.passes.lower_kernels.core.operand import Operand
from mgn.passes.lower_kernels.core.product import add_products, write_tile
from mgn.passes.lower_kernels.core.pure_code import memory_type
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.product.dots import lower_dots, tile_at, tile_count
from mgn.passes.lower_kernels.product.few_rows import lower_few_rows
from mgn.passes.lower_kernels.product.packed_product import lower_packed
from mgn.passes.lower_kernels.product.pixel_product import lower_pixel_product
from mgn.passes.lower_kernels.product.summed_windows import lower_summed_windows
from mgn.passes.lower_kernels.product.tensor_product import lower_tensor
from mgn.passes.lower_kernels.product.tiled_product import lower_tiled
from mgn.passes.lower_kernels.product.window_product import lower_window_product
from mgn.passes.lower_kernels.product.winograd_product import lower_winograd
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
            return lower_dots(job, product)
        case ProductVariant.MATRIX:
            return lower_tensor(job, product.grouped, str(job.schedule["matrix"]))
        case ProductVariant.TILES:
            return lower_tiled(job, product.grouped)
        case ProductVariant.PACKED:
            return lower_packed(job, product.grouped)
        case ProductVariant.DIRECT:
            return _direct(job, product)
        case ProductVariant.WINDOWS:
            return lower_window_product(job, product)
        case ProductVariant.PLACES:
            return lower_pixel_product(job, product)
        case ProductVariant.SUMMED:
            return lower_summed_windows(job, product)
        case ProductVariant.WINOGRAD:
            return lower_winograd(job, product)


def _direct(job: Job, product: Product) -> Launch:
    """Operands are read where they lie; edges are covered by tiles that overlap."""
    code = job.code
    width, down, across = (job.entry(name) for name in ("width", "tile_rows", "tile_vectors"))
    local = job.number("local", 1) if job.is_gpu else 1
    tiles = tile_count(product, down, width * across)
    items = ceil_div(tiles, local) * local
    item = code.counter(kernel.GlobalIdOp, 0, items)

    def tile() -> None:
        place = code.known(item, tiles)
        batch, row, column = tile_at(job, product, place, down, width * across)
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
