"""A work-item finds the first few of a run: it keeps the best yet in order, and goes over the run.

An element that is not before the last of them is passed by, as nearly all are. So a vector of
elements is passed by where its first is, and a block of vectors where the first of all is.
"""

from functools import partial, reduce

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.passes.kernels.index import ZERO, Index, constant, lanes
from mgn.passes.lower_kernels.core.scalar import of_all_lanes
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.order.kept_records import KeptRecords
from mgn.passes.lower_kernels.order.rows import OrderedRows
from mgn.passes.schedules.order import Passing


def lower_selections(job: Job) -> Launch:
    """Writes the kernel of work-items that find the first of a run each."""
    selection = _Selection(job)
    selection.write()
    return Launch((selection.rows.runs.rows,))


class _Selection:
    def __init__(self, job: Job) -> None:
        self.code, self.rows = job.code, OrderedRows(job)
        rows = self.rows
        self.width, self.together = job.entry("width"), job.entry("together")
        self.wide = job.evaluator(self.width)
        self.row = self.code.counter(kernel.GlobalIdOp, 0, rows.runs.rows)
        self.best = KeptRecords(self.code, rows.records, rows.kept, max(self.width // 2, 1))

    def write(self) -> None:
        code, rows, width = self.code, self.rows, self.width
        if rows.kept > 1:
            self.best.clear()
        parts = Passing.of(rows.runs.length, rows.kept, width, self.together)
        held = code.loop(0, parts.first * width, self._look, list(rows.records.absent()))
        start, size = parts.first, self.together

        def block(number: Index, held: list[SSAValue]) -> list[SSAValue]:
            return self._look_at_vectors(number * size + start, size, held)

        def vector(number: Index, held: list[SSAValue]) -> list[SSAValue]:
            return self._look_at_vectors(number, 1, held)

        held = code.loop(0, parts.blocks, block, held)
        start += parts.blocks * size
        held = code.loop(start, parts.vectors, vector, held)
        held = code.loop(parts.vectors * width, rows.runs.length, self._look, held)
        code.each(0, rows.kept, lambda place: self._put(place, held))

    def _look_at_vectors(self, first: Index, count: int, held: list[SSAValue]) -> list[SSAValue]:
        """Looks at some vectors, of which all elements are behind those that are kept already, so
        that one of an equal key is after them.
        """
        code, keys = self.code, [self._keys(first + number) for number in range(count)]
        least = of_all_lanes(code, "minsi", reduce(partial(code.binary, arith.MinSIOp), keys))

        def closer() -> list[SSAValue]:
            if count == 1:
                return self._look_at_each(first, held)
            found = held
            for number in range(count):
                found = self._look_at_vectors(first + number, 1, found)
            return found

        before = code.compare_integers("slt", least, self._key(held))
        return code.branch(before, closer, lambda: held)

    def _keys(self, vector: Index) -> SSAValue:
        """The keys of a vector of elements."""
        rows, width = self.rows, self.width
        index = rows.index(self.row, vector * width + lanes(width))
        return rows.keys.of(self.wide.lanes_at(rows.values, index))

    def _key(self, record: list[SSAValue]) -> SSAValue:
        """The key of a record."""
        if not self.rows.records.packed:
            return record[0]
        high = self.code.binary(arith.ShRSIOp, record[0], self.code.constant(32, i64))
        return self.code.convert("trunci", high, i32)

    def _look_at_each(self, vector: Index, held: list[SSAValue]) -> list[SSAValue]:
        start = vector * self.width
        return self.code.loop(start, start + self.width, self._look, held)

    def _look(self, place: Index, held: list[SSAValue]) -> list[SSAValue]:
        code, rows, records = self.code, self.rows, self.rows.records
        own = code.known(place, rows.runs.length)
        record = rows.record(self.row, ZERO, own)

        before = records.less(record, held)
        if rows.kept == 1:
            return [code.select(before, a, b) for a, b in zip(record, held, strict=True)]

        def insert() -> list[SSAValue]:
            self.best.insert(record)
            return list(self.best.at(constant(rows.kept - 1)))

        return code.branch(before, insert, lambda: held)

    def _put(self, place: Index, held: list[SSAValue]) -> None:
        own = self.code.known(place, self.rows.kept)
        record = held if self.rows.kept == 1 else self.best.at(own)
        self.rows.write(self.row, own, self.rows.records.position(record))
