"""The contraction template: a batched matrix product with what comes before and after it.

A work-item keeps a tile of the result in registers and walks the shared axis.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith, vector
from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.dialects.mgn.operation import Kind
from mgn.dialects.types import ElementType
from mgn.passes.lower_kernels.body import Body, Indices, Node
from mgn.passes.lower_kernels.emission import Code, memory_type, shaped
from mgn.passes.lower_kernels.evaluate import Evaluator
from mgn.passes.lower_kernels.index import Counter, Index, delinearised, lanes, of
from mgn.passes.lower_kernels.movement import broadcast_index, reshaped_index
from mgn.passes.lower_kernels.scalar import accumulator, narrowed, widened
from mgn.passes.lower_kernels.template import Job, Launch, ceil_div


@dataclass(frozen=True)
class Product:
    """The sizes of a matmul node and the index maps of its operands and its result."""

    node: Node
    batch: tuple[int, ...]
    rows: int
    columns: int
    depth: int

    @staticmethod
    def of_body(body: Body) -> "Product":
        (node,) = body.of_kind(Kind.CONTRACTION)
        left, right = (operand.shape for operand in node.operands)
        rows = left[-1 if node.values["transpose_a"] else -2] if len(left) > 1 else 1
        depth = left[-2 if node.values["transpose_a"] else -1]
        columns = right[-2 if node.values["transpose_b"] else -1] if len(right) > 1 else 1
        own = (len(left) > 1) + (len(right) > 1)
        batch = node.shape[: len(node.shape) - own]
        return Product(node, batch, rows, columns, depth)

    @property
    def element(self) -> ElementType:
        return self.node.element

    def left_index(self, batch: Indices, row: Index, k: Index) -> Indices:
        """The element of the left operand that a row takes at a step."""
        shape = self.node.operands[0].shape
        if len(shape) == 1:
            return (k,)
        own = (k, row) if self.node.values["transpose_a"] else (row, k)
        return (*broadcast_index(batch, shape[:-2]), *own)

    def right_index(self, batch: Indices, k: Index, column: Index) -> Indices:
        """The element of the right operand that a column takes at a step."""
        shape = self.node.operands[1].shape
        if len(shape) == 1:
            return (k,)
        own = (column, k) if self.node.values["transpose_b"] else (k, column)
        return (*broadcast_index(batch, shape[:-2]), *own)

    def result_index(self, node: Node, batch: Indices, row: Index, column: Index) -> Indices:
        """The index of a value after the product that belongs to a row and a column."""
        full = (*self.batch, self.rows, self.columns)
        return reshaped_index((*batch, row, column), full, node.shape)


def multiply_add(
    code: Code, element: ElementType, a: SSAValue, b: SSAValue, held: SSAValue
) -> SSAValue:
    """`a * b + held`, fused for floats."""
    a, b, held = code.together(a, b, held)
    if element.is_float:
        from xdsl.dialects import math
        from xdsl.dialects.builtin import VectorType

        if isinstance(held.type, VectorType):
            return code.pure(vector.FMAOp, [a, b, held], held.type)
        return code.pure(
            math.FmaOp, [a, b, held], held.type, fastmath=arith.FastMathFlagsAttr("none")
        )
    return code.binary(arith.AddiOp, code.binary(arith.MuliOp, a, b), held)


def lower_contraction(job: Job) -> Launch:
    """Writes a contraction kernel."""
    return _direct(job, Product.of_body(job.body))


def _direct(job: Job, product: Product) -> Launch:
    """Operands are read where they lie; edges are covered by tiles that overlap."""
    code = job.code
    width = job.number("lanes", 16)
    while width > product.columns:
        width //= 2
    across = max(1, min(job.number("tile_vectors", 2), product.columns // width))
    down = min(job.number("tile_rows", 8), product.rows)
    tile_rows = ceil_div(product.rows, down)
    tile_columns = ceil_div(product.columns, width * across)
    batches = prod(product.batch)
    local = job.number("local", 1)
    tiles = tile_rows * tile_columns * batches
    items = ceil_div(tiles, local) * local
    item = code.counter(kernel.GlobalIdOp, 0, items)

    def tile() -> None:
        place = of(Counter(code.index(item), 0, tiles - 1))
        column_tile, other = place % tile_columns, place // tile_columns
        row_tile, batch_number = other % tile_rows, other // tile_rows
        batch = delinearised(batch_number, product.batch)
        column = _start(code, column_tile, width * across, product.columns)
        row = _start(code, row_tile, down, product.rows)
        rows = [row + i for i in range(down)]
        columns = [column + j * width + lanes(width) for j in range(across)]
        evaluator = job.evaluator(width)
        totals = _accumulate(job, product, evaluator, batch, rows, columns)
        write_tile(job, product, evaluator, batch, rows, columns, totals)

    code.when(code.is_below(item, tiles, 1), tile)
    return Launch((items,), (local,))


def _start(code: Code, tile: Index, size: int, limit: int) -> Index:
    """Where a tile begins; the last one ends with the axis, and so overlaps."""
    start = (tile * size).clamp(0, limit - size)
    if limit % size == 0:
        return tile * size
    return of(Counter(code.index(start), 0, limit - size))


def _accumulate(
    job: Job,
    product: Product,
    evaluator: Evaluator,
    batch: Indices,
    rows: Sequence[Index],
    columns: Sequence[Index],
) -> list[SSAValue]:
    code, element = job.code, product.element
    left, right = product.node.operands
    zero = code.constant(0, memory_type(accumulator(element)), evaluator.lanes)

    def step(k: Index, held: list[SSAValue]) -> list[SSAValue]:
        parts = [
            widened(code, evaluator.lanes_at(right, product.right_index(batch, k, column)), element)
            for column in columns
        ]
        values = iter(held)
        result: list[SSAValue] = []
        for row in rows:
            a = widened(code, evaluator.at(left, product.left_index(batch, row, k)), element)
            a = code.spread(a, evaluator.lanes)
            result += [multiply_add(code, element, a, b, next(values)) for b in parts]
        return result

    return code.loop(0, product.depth, step, [zero] * (len(rows) * len(columns)))


def write_tile(
    job: Job,
    product: Product,
    evaluator: Evaluator,
    batch: Indices,
    rows: Sequence[Index],
    columns: Sequence[Index],
    totals: Sequence[SSAValue],
) -> None:
    """Evaluates what follows the product on a tile, and stores it."""
    values = iter(totals)
    for row in rows:
        for column in columns:
            value = narrowed(job.code, next(values), product.element)
            evaluator.given[product.node] = lambda _, value=value: value
            job.write(
                evaluator,
                [
                    (n, node, product.result_index(node, batch, row, column))
                    for n, node in enumerate(job.body.written)
                ],
            )


__all__ = ["Product", "lower_contraction", "multiply_add", "shaped", "write_tile"]
