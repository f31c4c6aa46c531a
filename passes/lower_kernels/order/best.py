"""A work-group finds the first few of a run: it keeps the best yet, and looks for better ones.

It goes over the run a tile at a time. What is before the last of the best is put behind them in
local memory, at places that work-items count together. When there might be no room for what the
next tile has, a network sorts all, and those behind the best few are dropped. In a row of random
order that happens seldom. Tiles are visited far from one another, so that it happens seldom in a
row that is in order, too, whichever way. A record has its position, by which equal ones are told
apart: the order of visits changes nothing.
"""

from math import gcd, log2

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.index import ZERO, Counter, Index, of
from mgn.passes.lower_kernels.core.pure_code import INDEX
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.order.keys import Record
from mgn.passes.lower_kernels.order.networks import sort_slots
from mgn.passes.lower_kernels.order.rows import OrderedRows

GOLDEN = 0.618
"""The share of all tiles that lie between one visit and the next: the golden section keeps visits
farthest from all that were before.
"""


def stride_over(tiles: int) -> int:
    """How many tiles on the next visit is, round and round, so that each is visited once."""
    return next(n for n in range(max(round(GOLDEN * tiles), 1), 2 * tiles) if gcd(n, tiles) == 1)


def lower_best(job: Job) -> Launch:
    """Writes the kernel of groups that find the first of a run each."""
    return _Best(job).write()


class _Best:
    def __init__(self, job: Job) -> None:
        self.code, self.rows = job.code, OrderedRows(job)
        self.slots, self.items = job.entry("slots"), job.entry("items")
        self.tile = self.slots // 2
        self.each = self.tile // self.items
        self.arrays = self.rows.records.local(self.slots)
        self.shares = [self.code.local(i32, self.items) for _ in range(2)]
        self.zero, self.one = (self.code.constant(number, i32) for number in (0, 1))

    def write(self) -> Launch:
        code, rows = self.code, self.rows
        self.row = code.counter(kernel.GroupIdOp, 0, rows.runs.rows)
        self.item = code.counter(kernel.LocalIdOp, 0, self.items)
        for step in range(2 * self.each):
            rows.records.store(rows.records.absent(), self.arrays, self._slot(step))
        code.barrier()
        length = rows.runs.length
        tiles = ceil_div(length, self.tile)
        stride = stride_over(tiles)

        def visit(turn: Index, held: list[SSAValue]) -> list[SSAValue]:
            return self._look(turn * stride % tiles, held)

        code.loop(0, tiles, visit, [self.zero, *rows.records.absent()])
        self._sort()

        def put(step: Index) -> None:
            place = step * self.items + self.item

            def present() -> None:
                own = code.known(place, rows.kept)
                record = rows.records.load(self.arrays, code.index(own))
                rows.write(self.row, own, rows.records.position(record))

            code.when(code.is_below(place, rows.kept, 1), present)

        code.each(0, ceil_div(rows.kept, self.items), put)
        return Launch((rows.runs.rows * self.items,), (self.items,))

    def _slot(self, step: int) -> SSAValue:
        return self.code.index(self.item + step * self.items)

    def _look(self, tile: Index, held: list[SSAValue]) -> list[SSAValue]:
        """Looks at a tile; carried is how many records there are, and the last of the best."""
        code, rows = self.code, self.rows
        length = rows.runs.length
        filled, *last = held
        found: list[tuple[Record, SSAValue]] = []
        count = self.zero
        for step in range(self.each):
            place = tile * self.tile + step * self.items + self.item
            own = code.known(place.clamp(0, length - 1), length)
            record = rows.record(self.row, ZERO, own)
            before = rows.records.less(record, last)
            inside = code.is_below(place, length, 1) if length % self.tile else True
            if not isinstance(inside, bool):
                before = code.binary(arith.AndIOp, before, inside)
            found.append((record, before))
            count = code.binary(arith.AddiOp, count, code.select(before, self.one, self.zero))
        up_to, total = self._sum_up_to(count)
        place = code.binary(arith.AddiOp, filled, code.binary(arith.SubiOp, up_to, count))
        for record, before in found:
            slot = of(Counter(code.convert("index_cast", place, INDEX), 0, self.slots - 1))

            def put(record: Record = record, slot: Index = slot) -> None:
                rows.records.store(record, self.arrays, code.index(slot))

            code.when(before, put)
            place = code.binary(arith.AddiOp, place, code.select(before, self.one, self.zero))
        code.barrier()
        filled = code.binary(arith.AddiOp, filled, total)
        full = code.compare_integers("sgt", filled, code.constant(self.slots - self.tile, i32))
        times = code.convert("index_cast", code.select(full, self.one, self.zero), INDEX)
        code.each(0, of(Counter(times, 0, 2)), lambda _: self._shrink())
        worst = rows.records.load(self.arrays, code.constant(rows.kept - 1, INDEX))
        return [
            code.select(full, code.constant(rows.kept, i32), filled),
            *(code.select(full, new, old) for new, old in zip(worst, last, strict=True)),
        ]

    def _sum_up_to(self, value: SSAValue) -> tuple[SSAValue, SSAValue]:
        """The sum of what the work-items have up to this one, and of what all have."""
        code = self.code
        source, target = self.shares
        own = code.index(self.item)
        code.store(value, source, own)
        code.barrier()
        for turn in range(int(log2(self.items))):
            reach = 1 << turn
            left = code.load(source, code.index(self.item.clamp(reach, self.items - 1) - reach))
            left = code.select(code.is_below(self.item, reach, 1), self.zero, left)
            value = code.binary(arith.AddiOp, value, left)
            code.store(value, target, own)
            code.barrier()
            source, target = target, source
        return value, code.load(source, code.constant(self.items - 1, INDEX))

    def _sort(self) -> None:
        sort_slots(self.code, self.rows.records, self.arrays, self.slots, self.item, self.items)

    def _shrink(self) -> None:
        """Keeps the best alone, in order."""
        code, rows = self.code, self.rows
        self._sort()
        for step in range(2 * self.each):
            place = self.item + step * self.items
            slot = code.index(place)

            def drop(slot: SSAValue = slot) -> None:
                rows.records.store(rows.records.absent(), self.arrays, slot)

            kept = code.is_below(place, rows.kept, 1)
            if kept is False:
                drop()
            elif kept is not True:
                code.branch(kept, lambda: None, drop)
        code.barrier()
