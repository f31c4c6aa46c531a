"""A matmul node as templates see it: sizes, index maps of its operands, a tile of its result.

In: a body with one matmul. Out: its `Product`, and what every form of the template writes.
"""

from collections.abc import Iterable, Sequence

from xdsl.dialects import arith, vector
from xdsl.ir import SSAValue

from mgn.dialects.types import ElementType
from mgn.passes.kernels.body import Indices
from mgn.passes.kernels.index import Index
from mgn.passes.kernels.product import Product
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.core.evaluate import Evaluator
from mgn.passes.lower_kernels.core.scalar import narrowed
from mgn.passes.lower_kernels.core.template import Job


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


def add_products(
    code: Code,
    element: ElementType,
    rows: Iterable[SSAValue],
    columns: Sequence[SSAValue],
    held: Sequence[SSAValue],
) -> list[SSAValue]:
    """Sums with the product of each row and each column added."""
    sums = iter(held)
    return [multiply_add(code, element, a, b, next(sums)) for a in rows for b in columns]


def tile_start(code: Code, tile: Index, size: int, limit: int) -> Index:
    """Where a tile begins; the last one ends with the axis, and so overlaps."""
    start = (tile * size).clamp(0, limit - size)
    if limit % size == 0:
        return tile * size
    return code.known(start, limit - size + 1)


def read_ahead(
    job: Job, product: Product, width: int, batch: Indices, row: Index, column: Index
) -> None:
    """Reads what so many results side by side need besides their sums."""
    at = (batch, row, column)
    job.read_ahead(job.evaluator(width), product.node, lambda node: product.result_index(node, *at))


def write_halves(
    job: Job,
    product: Product,
    evaluator: Evaluator,
    batch: Indices,
    row: Index,
    half: Index,
    values: Sequence[SSAValue],
) -> None:
    """Evaluates what follows from numbers, or vectors, of each half of a row, and stores it."""
    numbers = [narrowed(job.code, value, product.element) for value in values]
    second = product.columns // 2

    def given(index: Indices) -> SSAValue:
        own = index[-1] - half
        assert own.is_constant and own.constant in (0, second), "a half begins where none does"
        return numbers[own.constant // second]

    evaluator.given[product.node] = given
    job.write_at(evaluator, lambda node: product.result_index(node, batch, row, half))


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
            at = (batch, row, column)
            job.write_at(evaluator, lambda node, at=at: product.result_index(node, *at))
