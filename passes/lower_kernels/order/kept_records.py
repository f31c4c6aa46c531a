"""The first few records of a work-item, in order, and how one more is put among them.

A record that is one number is put in its place by vectors: behind those before it, each place gets
what was one place before, or the record itself. That is the larger of the record before and of the
lesser of the new one and the one there.
"""

from dataclasses import dataclass
from functools import cached_property

from xdsl.dialects import arith
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from mgn.passes.kernels.arithmetic import ceil_div, power_above
from mgn.passes.kernels.index import Index, constant
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.order.keys import Record, Records

LEAST = -(1 << 63)
"""A record before all others."""


@dataclass
class KeptRecords:
    """So many records, of which as many as `lanes` are moved at once where they are one number."""

    code: Code
    records: Records
    count: int
    lanes: int

    @property
    def _width(self) -> int:
        return min(self.lanes, power_above(self.count))

    @property
    def _steps(self) -> int:
        """Vectors of records, of which the last may go beyond those that are kept."""
        return ceil_div(self.count, self._width)

    @cached_property
    def _arrays(self) -> list[SSAValue]:
        """The records behind the least one."""
        return list(self.records.private(1 + self._steps * self._width))

    def clear(self) -> None:
        """Puts records at all places that are behind those of all elements."""
        code = self.code

        def one(place: Index) -> None:
            self.records.store(self.records.absent(), self._arrays, code.index(place + 1))

        if self.records.packed:
            code.store(code.constant(LEAST, i64), self._arrays[0], code.index(0))
        code.each(0, self._steps * self._width, one)

    def at(self, place: Index) -> Record:
        """The record at a place."""
        return self.records.load(self._arrays, self.code.index(place + 1))

    def insert(self, record: Record) -> None:
        """Puts a record in its place; the last one goes."""
        if self.records.packed:
            self._insert_number(record[0])
        else:
            self._insert_one_by_one(record)

    def _insert_number(self, record: SSAValue) -> None:
        code, (array,), width = self.code, self._arrays, self._width

        def move(step: Index) -> None:
            place = (constant(self._steps - 1) - step) * width
            before = code.load(array, code.index(place), width)
            there = code.load(array, code.index(place + 1), width)
            least = code.binary(arith.MinSIOp, there, record)
            moved = code.binary(arith.MaxSIOp, before, least)
            code.store(moved, array, code.index(place + 1))

        code.each(0, self._steps, move)

    def _insert_one_by_one(self, record: Record) -> None:
        code, records = self.code, self.records

        def one(place: Index, moving: list[SSAValue]) -> list[SSAValue]:
            there = self.at(place)
            before = records.less(moving, there)
            pairs = list(zip(moving, there, strict=True))
            first = [code.select(before, new, old) for new, old in pairs]
            records.store(first, self._arrays, code.index(place + 1))
            return [code.select(before, old, new) for new, old in pairs]

        code.loop(0, self.count, one, list(record))
