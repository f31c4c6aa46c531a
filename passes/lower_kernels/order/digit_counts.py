"""How often each digit occurs in each part of a row.

On a CPU a work-item counts a part. On a GPU a group does: each of its work-items counts some
elements in bytes of its own, so that none waits for another; then each adds up some digits.
"""

from xdsl.dialects import arith
from xdsl.dialects.builtin import i8, i32
from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.index import Index
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.order.digits import DigitRows

MOST_IN_BYTES = 255
"""The largest number of a byte."""


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
    code, rows, items = job.code, DigitRows(job), job.entry("items")
    runs = rows.runs
    group = code.counter(kernel.GroupIdOp, 0, runs.all)
    item = code.counter(kernel.LocalIdOp, 0, items)
    row, part = group // runs.count, group % runs.count
    start = part * runs.run
    count = (start * -1 + runs.length).clamp(0, runs.run)
    cells = code.local(i8, rows.digits * items)
    own = ceil_div(rows.digits, items)
    totals = [code.constant(0, i32) for _ in range(own)]

    def clear(digit: Index) -> None:
        code.store(code.constant(0, i8), cells, code.index(digit * items + item))

    def look(place: Index) -> None:
        def count_one() -> None:
            element = code.known(start + place, runs.length)
            digit = rows.place(rows.digit(row, element), rows.digits)
            cell = code.index(digit * items + item)
            old = code.load(cells, cell)
            code.store(code.binary(arith.AddiOp, old, code.constant(1, i8)), cells, cell)

        inside = True
        if runs.length % runs.run or runs.run % items:
            inside = code.compare_integers("slt", code.index(place), code.index(count))
        code.when(inside, count_one)

    def trip(first: Index, held: list[SSAValue]) -> list[SSAValue]:
        """Counts as many elements as bytes hold."""
        code.each(0, rows.digits, clear)
        steps = min(MOST_IN_BYTES, ceil_div(runs.run, items))
        begin = first * (MOST_IN_BYTES * items)
        code.each(0, steps, lambda step: look(begin + step * items + item), unroll=8)
        code.barrier()
        found: list[SSAValue] = []
        for number, total in enumerate(held):
            digit = item + number * items

            def add(step: Index, sums: list[SSAValue], digit: Index = digit) -> list[SSAValue]:
                column = code.known((step + item) % items, items)
                place = code.bounded(digit, rows.digits) * items + column
                value = code.load(cells, code.index(place))
                return [code.binary(arith.AddiOp, sums[0], code.convert("extui", value, i32))]

            found += code.loop(0, items, add, [total], unroll=8)
        code.barrier()
        return found

    trips = ceil_div(runs.run, MOST_IN_BYTES * items)
    totals = code.loop(0, trips, trip, totals)
    for number, total in enumerate(totals):
        digit = item + number * items

        def put(digit: Index = digit, total: SSAValue = total) -> None:
            _write(job, rows, row, code.known(digit, rows.digits), part, total)

        code.when(code.is_below(digit, rows.digits, 1), put)
    return Launch((runs.all * items,), (items,))


def _write(
    job: Job, rows: DigitRows, row: Index, digit: Index, part: Index, count: SSAValue
) -> None:
    """Writes how often a digit occurs in a part."""
    evaluator = job.evaluator()
    evaluator.given[rows.node] = lambda _: count
    job.write_at(evaluator, lambda _: (row, digit, part))
