"""Tables of a scatter whose ids are in no order, on a GPU: a group has some places along the axis.

The totals of the places are a table in local memory. The group goes over all elements of its row, a
chunk at a time: each work-item brings one, whose place and value all others see. It adds up those
of the chunk that have its place, in their order. Of those that have one place, the last puts the
sum to what is in the table. So each place has one writer, and the order is always the same.
"""

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from mgn.passes.kernels.accumulation import accumulator
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.index import Counter, Index, of
from mgn.passes.lower_kernels.core.pure_code import INDEX, lane_of
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.scatter.block_totals import BlockTotals
from mgn.passes.lower_kernels.scatter.joining import join
from mgn.passes.schedules.scatter import no_change

TOGETHER = 4
"""Elements of a chunk that a work-item reads at a time."""


def lower_tables(job: Job) -> Launch:
    """Writes a scatter whose groups have tables of totals."""
    return _Tables(job).write()


class _Tables(BlockTotals):
    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.keys = self.code.local(i32, self.items)
        self.values = self.code.local(self.type, self.items)

    def write(self) -> Launch:
        self.start()
        trips = ceil_div(self.count, self.items)
        self.code.loop(0, trips, self._chunk, self._read(self.item))
        self.finish()
        return self.launch

    def _chunk(self, trip: Index, held: list[SSAValue]) -> list[SSAValue]:
        """Adds what a chunk has to the table; reads the next one meanwhile."""
        code, own = self.code, self.code.index(self.item)
        key, value = held
        code.store(key, self.keys, own)
        code.store(value, self.values, own)
        code.barrier()
        read = self._read((trip + 1) * self.items + self.item)
        nothing = no_change(self.node.values["combine"], accumulator(self.node.element))
        start = [code.constant(nothing, self.type), code.constant(-1, i32)]
        total, last = code.loop(0, self.items // TOGETHER, self._looked_at(key), start)
        is_last = code.compare_integers("eq", last, code.convert("index_cast", own, i32))
        is_named = code.compare_integers("sge", key, code.constant(0, i32))

        def put() -> None:
            place = of(Counter(code.convert("index_cast", key, INDEX), 0, self.block - 1))
            self.add(code.index(place), total)

        code.when(code.binary(arith.AndIOp, is_last, is_named), put)
        code.barrier()
        return read

    def _looked_at(self, key: SSAValue):
        """What looks at some elements of the chunk: the sum of those with a place, and the last."""

        def look(turn: Index, held: list[SSAValue]) -> list[SSAValue]:
            code, (total, last) = self.code, held
            first = turn * TOGETHER
            keys = code.load(self.keys, code.index(first), TOGETHER, first.multiple)
            values = code.load(self.values, code.index(first), TOGETHER, first.multiple)
            for lane in range(TOGETHER):
                named = lane_of(code, keys, lane)
                alike = code.compare_integers("eq", named, key)
                joined = join(code, self.node, total, lane_of(code, values, lane))
                total = code.select(alike, joined, total)
                number = code.convert("index_cast", code.index(first + lane), i32)
                last = code.select(alike, number, last)
            return [total, last]

        return look

    def _read(self, element: Index) -> list[SSAValue]:
        """The place in the block that an element is meant for, -1 for none, and its value."""
        code = self.code
        own = code.known(element.clamp(0, self.count - 1), self.count)
        place, none = self.from_first(own), code.constant(-1, i32)
        is_own = code.compare_integers("ult", place, code.constant(self.block, INDEX))
        key = code.select(is_own, code.convert("index_cast", place, i32), none)
        inside = code.is_below(element, self.count, 1)
        return [code.select(inside, key, none), self.value(own)]
