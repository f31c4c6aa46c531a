"""How often each digit occurs in each part of a row, and how many elements fall.

On a CPU a work-item counts a part. On a GPU a group does: some work-items share counts in local
memory, so that few wait for one another. Then each adds up some digits.
"""

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.index import Index, constant
from mgn.passes.lower_kernels.core.pure_code import INDEX
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.order.digits import DigitRows
from mgn.passes.schedules.order import COUNTING

MEETING = 16
"""Work-items that add up what all of a group have."""


def lower_counts(job: Job) -> Launch:
    """Writes the kernel that counts digits."""
    return _by_groups(job) if job.is_gpu else _by_items(job)


def _by_items(job: Job) -> Launch:
    code, rows = job.code, DigitRows(job)
    runs, zero, one = rows.runs, code.constant(0, i32), code.constant(1, i32)
    item = code.counter(kernel.GlobalIdOp, 0, runs.all)
    row, part = item // runs.count, item % runs.count
    start = part * runs.run
    count = (start * -1 + runs.length).clamp(0, runs.run)
    counts = code.private(i32, rows.digits)

    def clear(digit: Index) -> None:
        code.store(zero, counts, code.index(digit))

    def look(place: Index, falls: list[SSAValue]) -> list[SSAValue]:
        element = code.known(start + place, runs.length)
        digit = code.index(rows.place(rows.digit(row, element), rows.digits))
        code.store(code.binary(arith.AddiOp, code.load(counts, digit), one), counts, digit)
        return [rows.add(number, rows.falls_at(row, element)) for number in falls]

    def put(digit: Index) -> None:
        _write(job, rows, row, digit, part, code.load(counts, code.index(digit)))

    def walk() -> None:
        code.each(0, rows.digits, clear)
        falls = code.loop(0, count, look, [zero] if rows.counts_falls else [])
        code.each(0, rows.digits, put)
        for number in falls:
            _write(job, rows, row, constant(rows.digits), part, number)

    def leave() -> None:
        lines = rows.digits + rows.counts_falls
        code.each(0, lines, lambda line: _write(job, rows, row, line, part, zero))

    rows.unless_in_order(row, walk, leave)
    return Launch((runs.all,))


def _by_groups(job: Job) -> Launch:
    code, rows, items, held = job.code, DigitRows(job), job.entry("items"), job.entry("held")
    runs, zero = rows.runs, code.constant(0, i32)
    group = code.counter(kernel.GroupIdOp, 0, runs.all)
    item = code.counter(kernel.LocalIdOp, 0, items)
    row, part = group // runs.count, group % runs.count
    start = part * runs.run
    count = (start * -1 + runs.length).clamp(0, runs.run)
    counters = max(items // COUNTING, 1)
    cells = counters * rows.digits
    counts = code.local(i32, cells)
    first = item // ceil_div(items, counters) * rows.digits
    shares = code.local(i32, items) if rows.counts_falls else None

    def clear(cell: Index) -> None:
        own = code.index(cell)
        code.when(code.is_below(cell, cells, 1), lambda: code.store(zero, counts, own))

    def look(trip: Index, falls: list[SSAValue]) -> list[SSAValue]:
        """Counts some elements of each work-item, which are read together."""
        places = [(trip * held + step) * items + item for step in range(held)]
        digits: list[SSAValue] = []
        fallen: list[SSAValue] = []
        for place in places:
            element = code.known((start + place).clamp(0, runs.length - 1), runs.length)
            digits.append(rows.digit(row, element))
            fallen += [rows.falls_at(row, element) for _ in falls]
        for number, (place, digit) in enumerate(zip(places, digits, strict=True)):
            cell = code.index(first + rows.place(digit, rows.digits))
            inside = True
            if runs.length % runs.run or runs.run % (items * held):
                inside = code.compare_integers("slt", code.index(place), code.index(count))
            code.when(inside, lambda cell=cell: count_one(cell))
            if inside is not True and fallen:
                fallen[number] = code.select(inside, fallen[number], zero)
        return [_sum_of(rows, [*falls, *fallen])] if falls else []

    def count_one(cell: SSAValue) -> None:
        code.effect(kernel.CountOp, [counts, cell])

    def put(digit: Index) -> None:
        own = code.bounded(digit, rows.digits)
        total = code.load(counts, code.index(own))
        for number in range(1, counters):
            more = code.load(counts, code.index(own + number * rows.digits))
            total = rows.add(total, more)
        _write(job, rows, row, own, part, total)

    def walk() -> None:
        for step in range(ceil_div(cells, items)):
            clear(item + step * items)
        code.barrier()
        trips = ceil_div(runs.run, items * held)
        falls = code.loop(0, trips, look, [zero] if shares is not None else [])
        for number in falls:
            assert shares is not None
            code.store(number, shares, code.index(item))
        code.barrier()
        for step in range(ceil_div(rows.digits, items)):
            digit = item + step * items
            code.when(code.is_below(digit, rows.digits, 1), lambda digit=digit: put(digit))
        if shares is not None:
            total, last = _meet(rows, shares, item, items), constant(rows.digits)
            code.when(code.is_below(item, 1, 1), lambda: _write(job, rows, row, last, part, total))

    def leave() -> None:
        lines = rows.digits + rows.counts_falls
        for step in range(ceil_div(lines, items)):
            line = item + step * items
            own = code.bounded(line, lines)
            code.when(
                code.is_below(line, lines, 1),
                lambda own=own: _write(job, rows, row, own, part, zero),
            )

    rows.unless_in_order(row, walk, leave)
    return Launch((runs.all * items,), (items,))


def _sum_of(rows: DigitRows, values: Sequence[SSAValue]) -> SSAValue:
    """The sum of some i32."""
    total, *rest = values
    for value in rest:
        total = rows.add(total, value)
    return total


def _meet(rows: DigitRows, shares: SSAValue, item: Index, items: int) -> SSAValue:
    """What the work-items of a group have together, as the first of them finds it: a few add up
    some each, and it adds these up.
    """
    code, few = rows.code, min(MEETING, items)

    def add_some() -> None:
        own: list[SSAValue] = []
        for step in range(ceil_div(items, few)):
            place = item + step * few
            value = code.load(shares, code.index(place.clamp(0, items - 1)))
            inside = code.is_below(place, items, 1)
            if inside is not True:
                value = code.select(inside, value, code.constant(0, i32))
            own.append(value)
        code.store(_sum_of(rows, own), shares, code.index(item))

    code.when(code.is_below(item, few, 1), add_some)
    code.barrier()
    found = [code.load(shares, code.constant(number, INDEX)) for number in range(few)]
    return _sum_of(rows, found)


def _write(
    job: Job, rows: DigitRows, row: Index, digit: Index, part: Index, count: SSAValue
) -> None:
    """Writes how often a digit occurs in a part."""
    evaluator = job.evaluator()
    evaluator.given[rows.node] = lambda _: count
    job.write_at(evaluator, lambda _: (row, digit, part))
