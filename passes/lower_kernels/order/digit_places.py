"""A row is put in the order of a digit by work-items that walk its parts, on a CPU.

A work-item knows where the elements of a digit go that are in its part: behind those of lower
digits, and behind those of the same one in parts before. It is told how often they occur, or counts
them first.
"""

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.passes.kernels.index import Index
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.order.digit_tiles import lower_tiles
from mgn.passes.lower_kernels.order.digits import DigitRows


def lower_digits(job: Job) -> Launch:
    """Writes the kernel that puts rows in the order of a digit."""
    return lower_tiles(job) if job.is_gpu else _by_items(job)


def _by_items(job: Job) -> Launch:
    code, rows = job.code, DigitRows(job)
    runs, zero = rows.runs, code.constant(0, i32)
    item = code.counter(kernel.GlobalIdOp, 0, runs.all)
    row, part = item // runs.count, item % runs.count
    start = part * runs.run
    count = (start * -1 + runs.length).clamp(0, runs.run)
    places = code.private(i32, rows.digits)

    def digit_at(place: Index) -> tuple[Index, SSAValue]:
        element = code.known(start + place, runs.length)
        return element, code.index(rows.place(rows.digit(row, element), rows.digits))

    def advance(digit: SSAValue) -> SSAValue:
        """Where the next element of a digit goes; the one after it goes one further."""
        found = code.load(places, digit)
        code.store(rows.add(found, 1), places, digit)
        return found

    def behind_lower(digit: Index, held: list[SSAValue]) -> list[SSAValue]:
        own, first = code.index(digit), zero
        if rows.counted:
            total = rows.sums(row, digit, Index((), runs.count - 1, runs.count - 1, runs.count - 1))
            first = rows.before(row, digit, part)
        else:
            total = code.load(places, own)
        code.store(rows.add(held[0], first), places, own)
        return [rows.add(held[0], total)]

    def put(place: Index) -> None:
        element, digit = digit_at(place)
        payloads = rows.payloads(row, element)
        rows.put(row, rows.place(advance(digit), runs.length), payloads)

    def walk() -> None:
        if not rows.counted:
            code.each(0, rows.digits, lambda digit: code.store(zero, places, code.index(digit)))
            code.each(0, count, lambda place: advance(digit_at(place)[1]))
        code.loop(0, rows.digits, behind_lower, [zero])
        code.each(0, count, put)

    def leave() -> None:
        code.each(0, count, lambda place: rows.put_as_it_is(row, start + place))

    rows.unless_in_order(row, walk, leave)
    return Launch((runs.all,))
