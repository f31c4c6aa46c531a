"""Scans by work-items that walk: running sums along an axis, one after the other.

A work-item takes a part of a row, or, where neighbours in memory belong to different rows, a vector
of rows. A long part is walked in blocks (long_sums.py): each result is the sum before its block
plus the sum in it.
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
from mgn.passes.lower_kernels.scan.parts import before_part
from mgn.passes.schedules.scan import parts_of


def lower_rows(job: Job) -> Launch:
    """Writes a scan kernel whose work-items walk rows."""
    code = job.code
    space = row_space(job.body, Kind.SCAN)
    (scan,) = job.body.of_kind(Kind.SCAN)
    parts = parts_of(scan, space)
    width, local, inner = job.entry("width"), job.entry("items"), 1
    if space.innermost_is_kept:
        inner = next(size for size in reversed(space.kept_shape) if size != 1)
    vectors = ceil_div(inner, width)
    outer = space.rows // inner
    walks = vectors * outer * parts.count
    items = ceil_div(walks, local) * local
    item = code.counter(kernel.GlobalIdOp, 0, items)

    def one_part() -> None:
        own = code.known(item, walks)
        number, place = own % parts.count, own // parts.count
        column = (place % vectors * width).clamp(0, inner - width)
        column = code.known(column, inner - width + 1)
        row = place // vectors * inner + column + lanes(width)
        begin = number * parts.length
        evaluator = job.evaluator(width)
        operand = scan.operands[0]

        def add(turn: Index, held: SSAValue) -> SSAValue:
            element = code.known(begin + turn, space.length) if parts.count > 1 else turn
            index = space.index_in(operand, row, element)
            part = widened(code, evaluator.lanes_at(operand, index), scan.element)
            return combine(code, scan.name, scan.element, held, part)

        def write(turn: Index, total: SSAValue) -> None:
            element = code.known(begin + turn, space.length) if parts.count > 1 else turn
            evaluator.given[scan] = lambda _: narrowed(code, total, scan.element)
            job.write_at(evaluator, lambda node: space.index_in(node, row, element))

        (in_blocks,) = are_sums([scan])
        start = start_of(code, scan, width)
        first = before_part(evaluator, scan, space, row, number)
        long_scan(code, parts.length_at(begin), add, write, start, in_blocks, first)

    code.when(code.is_below(item, walks, 1), one_part)
    return Launch((items,), (local,))
