"""How often each digit occurs in each part of a row.

On a CPU a work-item counts a part. On a GPU a group does: some work-items share counts in local
memory, so that few wait for one another. Then each adds up some digits.
"""

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.index import Index
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.order.digits import DigitRows
from mgn.passes.schedules.order import COUNTING


def lower_counts(job: Job) -> Launch:
    """Writes the kernel that counts digits."""
    return _by_groups(job) if job.is_gpu else _by_items(job)


def _by_items(job: Job) -> Launch:
    code, rows = job.code, DigitRows(job)
    runs, one = rows.runs, code.constant(1, i32)
    item = code.counter(kernel.GlobalIdOp, 0, runs.all)
    row, part = item // runs.count, item % runs.count
    start = part * runs.run
    count = (start * -1 + runs.length).clamp(0, runs.run)
    counts = code.private(i32, rows.digits)

    def clear(digit: Index) -> None:
        code.store(code.constant(0, i32), counts, code.index(digit))

    def look(place: Index) -> None:
        element = code.known(start + place, runs.length)
        digit = code.index(rows.place(rows.digit(row, element), rows.digits))
        code.store(code.binary(arith.AddiOp, code.load(counts, digit), one), counts, digit)

    def put(digit: Index) -> None:
        _write(job, rows, row, digit, part, code.load(counts, code.index(digit)))

    code.each(0, rows.digits, clear)
    code.each(0, count, look)
    code.each(0, rows.digits, put)
    return Launch((runs.all,))


def _by_groups(job: Job) -> Launch:
    code, rows, items, held = job.code, DigitRows(job), job.entry("items"), job.entry("held")
    runs = rows.runs
    group = code.counter(kernel.GroupIdOp, 0, runs.all)
    item = code.counter(kernel.LocalIdOp, 0, items)
    row, part = group // runs.count, group % runs.count
    start = part * runs.run
    count = (start * -1 + runs.length).clamp(0, runs.run)
    counters = max(items // COUNTING, 1)
    cells = counters * rows.digits
    counts = code.local(i32, cells)
    first = item // ceil_div(items, counters) * rows.digits

    def clear(cell: Index) -> None:
        zero, own = code.constant(0, i32), code.index(cell)
        code.when(code.is_below(cell, cells, 1), lambda: code.store(zero, counts, own))

    def look(trip: Index) -> None:
        """Counts some elements of each work-item, which are read together."""
        places = [(trip * held + step) * items + item for step in range(held)]
        digits: list[SSAValue] = []
        for place in places:
            element = code.known((start + place).clamp(0, runs.length - 1), runs.length)
            digits.append(rows.digit(row, element))
        for place, digit in zip(places, digits, strict=True):
            cell = code.index(first + rows.place(digit, rows.digits))
            inside = True
            if runs.length % runs.run or runs.run % (items * held):
                inside = code.compare_integers("slt", code.index(place), code.index(count))
            code.when(inside, lambda cell=cell: count_one(cell))

    def count_one(cell: SSAValue) -> None:
        code.effect(kernel.CountOp, [counts, cell])

    def put(digit: Index) -> None:
        own = code.bounded(digit, rows.digits)
        total = code.load(counts, code.index(own))
        for number in range(1, counters):
            more = code.load(counts, code.index(own + number * rows.digits))
            total = rows.add(total, more)
        _write(job, rows, row, own, part, total)

    for step in range(ceil_div(cells, items)):
        clear(item + step * items)
    code.barrier()
    code.each(0, ceil_div(runs.run, items * held), look)
    code.barrier()
    for step in range(ceil_div(rows.digits, items)):
        digit = item + step * items
        code.when(code.is_below(digit, rows.digits, 1), lambda digit=digit: put(digit))
    return Launch((runs.all * items,), (items,))


def _write(
    job: Job, rows: DigitRows, row: Index, digit: Index, part: Index, count: SSAValue
) -> None:
    """Writes how often a digit occurs in a part."""
    evaluator = job.evaluator()
    evaluator.given[rows.node] = lambda _: count
    job.write_at(evaluator, lambda _: (row, digit, part))
