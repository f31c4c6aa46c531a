"""A work-group sorts runs in local memory by a bitonic network, whose exchanges all go one way.

Each step joins blocks in order to blocks of twice the size: the first exchange meets an element of
the one with its mirror image in the other, and those after it go on inside.
"""

from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.index import Counter, Index, of
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.order.keys import Record, Records
from mgn.passes.lower_kernels.order.register_networks import RegisterNetwork, spot
from mgn.passes.lower_kernels.order.rows import OrderedRows
from mgn.passes.schedules.order import GAP_AFTER

Pair = Callable[[Index], tuple[Index, Index]]


def lower_groups(job: Job) -> Launch:
    """Writes the kernel of groups that sort runs."""
    code, rows = job.code, OrderedRows(job)
    runs, records = rows.runs, rows.records
    slots, together, items = (job.entry(name) for name in ("slots", "together", "items"))
    groups = ceil_div(runs.all, together)
    group = code.counter(kernel.GroupIdOp, 0, groups)
    item = code.counter(kernel.LocalIdOp, 0, items)
    total, held = together * slots, job.entry("held")
    arrays = records.local(total + total // GAP_AFTER if held else total)
    at = spot if held else lambda place: place

    def each_slot(body: Callable[[Index, Index, Index, Index], None]) -> None:
        """For each slot of the group that has an element: its row, run, place and itself."""

        def one(step: Index) -> None:
            slot = code.known(step * items + item, together * slots)
            place = slot % slots
            number = group * together + slot // slots

            def in_run() -> None:
                own = code.known(number, runs.all)
                start = own % runs.count * runs.run
                body(own // runs.count, start, place, slot)

            code.when(code.is_below(number, runs.all, 1), in_run)

        code.each(0, together * slots // items, one)

    def fill(row: Index, start: Index, place: Index, slot: Index) -> None:
        def present() -> Record:
            return rows.record(row, start, place)

        def present_in_row() -> Record:
            within = code.is_below(start + place, runs.length, 1)
            return code.branch(within, present, records.absent)

        record = code.branch(code.is_below(place, runs.run, 1), present_in_row, records.absent)
        records.store(record, arrays, code.index(at(slot)))

    def put(row: Index, start: Index, place: Index, slot: Index) -> None:
        def present() -> None:
            position = records.position(records.load(arrays, code.index(at(slot))))
            source = code.index(start + of(Counter(position, 0, runs.run - 1)))
            rows.write(row, code.known(start + place, runs.length), source)

        def in_row() -> None:
            code.when(code.is_below(start + place, runs.length, 1), present)

        code.when(code.is_below(place, rows.kept, 1), in_row)

    each_slot(fill)
    code.barrier()
    if held:
        RegisterNetwork(code, records, arrays, total, slots, item, items).sort()
    else:
        sort_slots(code, records, arrays, total, item, items, slots)
    each_slot(put)
    return Launch((groups * items,), (items,))


def sort_slots(
    code: Code,
    records: Records,
    arrays: Sequence[SSAValue],
    slots: int,
    item: Index,
    items: int,
    run: int | None = None,
) -> None:
    """Sorts records in local memory, or each run of so many of them: a power of two."""

    def exchange(pair: Pair) -> None:
        def one(step: Index) -> None:
            number = code.known(step * items + item, slots // 2)
            low, high = (code.index(place) for place in pair(number))
            first, second = records.load(arrays, low), records.load(arrays, high)

            def swap() -> None:
                records.store(second, arrays, low)
                records.store(first, arrays, high)

            code.when(records.less(second, first), swap)

        code.each(0, slots // 2 // items, one)
        code.barrier()

    size = 2
    while size <= (run or slots):
        exchange(lambda number, size=size: _mirrored(number, size))
        stride = size // 4
        while stride:
            exchange(lambda number, stride=stride: _apart(number, stride))
            stride //= 2
        size *= 2


def _mirrored(number: Index, size: int) -> tuple[Index, Index]:
    half = size // 2
    block, place = number // half * size, number % half
    return block + place, block + place * -1 + (size - 1)


def _apart(number: Index, stride: int) -> tuple[Index, Index]:
    low = number // stride * (2 * stride) + number % stride
    return low, low + stride
