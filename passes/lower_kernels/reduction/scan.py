"""The scan template: running sums along an axis, one after the other.

A work-item takes a row, or, where neighbours in memory belong to different rows, a vector of rows.
A long row is walked in blocks (long_sums.py): each result is the sum before its block plus the sum
in it.
"""

from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.dialects.mgn.operation import Kind
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.index import Index, lanes
from mgn.passes.kernels.rows import row_space
from mgn.passes.lower_kernels.core.long_sums import are_sums, long_scan
from mgn.passes.lower_kernels.core.scalar import combine, narrowed, start_of, widened
from mgn.passes.lower_kernels.core.template import Job, Launch


def lower_scan(job: Job) -> Launch:
    """Writes a scan kernel."""
    code = job.code
    space = row_space(job.body, Kind.SCAN)
    (scan,) = job.body.of_kind(Kind.SCAN)
    width, local, inner = job.entry("width"), job.entry("items"), 1
    if space.innermost_is_kept:
        inner = next(size for size in reversed(space.kept_shape) if size != 1)
    vectors = ceil_div(inner, width)
    outer = space.rows // inner
    items = ceil_div(vectors * outer, local) * local
    item = code.counter(kernel.GlobalIdOp, 0, items)

    def one_row() -> None:
        place = code.known(item, vectors * outer)
        first = (place % vectors * width).clamp(0, inner - width)
        start = code.known(first, inner - width + 1)
        row = place // vectors * inner + start + lanes(width)
        evaluator = job.evaluator(width)
        operand = scan.operands[0]

        def add(element: Index, held: SSAValue) -> SSAValue:
            index = space.index_in(operand, row, element)
            part = widened(code, evaluator.lanes_at(operand, index), scan.element)
            return combine(code, scan.name, scan.element, held, part)

        def write(element: Index, total: SSAValue) -> None:
            evaluator.given[scan] = lambda _: narrowed(code, total, scan.element)
            job.write_at(evaluator, lambda node: space.index_in(node, row, element))

        (in_blocks,) = are_sums([scan])
        long_scan(code, space.length, add, write, start_of(code, scan, width), in_blocks)

    code.when(code.is_below(item, vectors * outer, 1), one_row)
    return Launch((items,), (local,))
