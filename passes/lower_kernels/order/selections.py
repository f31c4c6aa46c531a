"""A work-item finds the first few of a run: it keeps the best yet in order, and goes over the run.

An element that is not before the last of them is passed by, as nearly all are.
"""

from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.passes.kernels.index import ZERO, Index
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.order.rows import OrderedRows


def lower_selections(job: Job) -> Launch:
    """Writes the kernel of work-items that find the first of a run each."""
    code, rows = job.code, OrderedRows(job)
    runs, records, kept = rows.runs, rows.records, rows.kept
    row = code.counter(kernel.GlobalIdOp, 0, runs.rows)
    best = records.private(kept)

    def clear(place: Index) -> None:
        records.store(records.absent(), best, code.index(place))

    def look(place: Index, held: list[SSAValue]) -> list[SSAValue]:
        own = code.known(place, runs.length)
        record = rows.record(row, ZERO, own)

        def insert() -> list[SSAValue]:
            def one(spot: Index, moving: list[SSAValue]) -> list[SSAValue]:
                there = records.load(best, code.index(spot))
                before = records.less(moving, there)
                pairs = list(zip(moving, there, strict=True))
                records.store([code.select(before, a, b) for a, b in pairs], best, code.index(spot))
                return [code.select(before, b, a) for a, b in pairs]

            code.loop(0, kept, one, list(record))
            return list(records.load(best, code.index(kept - 1)))

        return code.branch(records.less(record, held), insert, lambda: held)

    def put(place: Index) -> None:
        own = code.known(place, kept)
        position = records.position(records.load(best, code.index(own)))
        rows.write(row, own, position)

    code.each(0, kept, clear)
    code.loop(0, runs.length, look, list(records.absent()))
    code.each(0, kept, put)
    return Launch((runs.rows,))
