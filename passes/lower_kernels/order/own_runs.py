"""A work-item sorts a run in memory of its own: it merges ever longer parts, from one array into
another and back.
"""

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.passes.kernels.index import Counter, Index, of
from mgn.passes.lower_kernels.core.pure_code import INDEX
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.order.rows import OrderedRows


def lower_rows(job: Job) -> Launch:
    """Writes the kernel of work-items that sort a run each."""
    code, rows = job.code, OrderedRows(job)
    runs, records = rows.runs, rows.records
    item = code.counter(kernel.GlobalIdOp, 0, runs.all)
    row, start = item // runs.count, item % runs.count * runs.run
    count = (start * -1 + runs.length).clamp(0, runs.run)
    arrays = [records.private(runs.run) for _ in range(2 if runs.run > 1 else 1)]

    def fill(place: Index) -> None:
        own = code.known(place, runs.run)
        records.store(rows.record(row, start, own), arrays[0], code.index(own))

    def merge(width: int, source: Sequence[SSAValue], target: Sequence[SSAValue]) -> None:
        one = code.constant(1, INDEX)

        def one_pair(pair: Index) -> None:
            low = pair * (2 * width)
            middle, end = ((count - low).clamp(0, n * width) + low for n in (1, 2))
            last, middle_value, end_value = code.index(end - 1), code.index(middle), code.index(end)

            def one_record(place: Index, held: list[SSAValue]) -> list[SSAValue]:
                left, right = held
                first = records.load(source, left)
                second = records.load(source, code.binary(arith.MinSIOp, right, last))
                has_left = code.compare_integers("slt", left, middle_value)
                has_right = code.compare_integers("slt", right, end_value)
                takes_right = code.binary(arith.AndIOp, has_right, records.less(second, first))
                no_left = code.binary(arith.XOrIOp, has_left, code.constant(1, has_left.type))
                takes_right = code.binary(arith.OrIOp, takes_right, no_left)
                chosen = [
                    code.select(takes_right, b, a) for a, b in zip(first, second, strict=True)
                ]
                records.store(chosen, target, code.index(place))
                return [
                    code.select(takes_right, left, code.binary(arith.AddiOp, left, one)),
                    code.select(takes_right, code.binary(arith.AddiOp, right, one), right),
                ]

            code.loop(low, end, one_record, [code.index(low), middle_value], runs.run - 1)

        code.each(0, (count + (2 * width - 1)) // (2 * width), one_pair)

    code.each(0, count, fill)
    width = 1
    while width < runs.run:
        merge(width, arrays[0], arrays[1])
        arrays.reverse()
        width *= 2

    def put(place: Index) -> None:
        own = code.known(place, runs.run)
        position = records.position(records.load(arrays[0], code.index(own)))
        source = code.index(start + of(Counter(position, 0, runs.run - 1)))
        rows.write(row, code.known(start + own, runs.length), source)

    code.each(0, count.clamp(0, rows.kept), put)
    return Launch((runs.all,))
