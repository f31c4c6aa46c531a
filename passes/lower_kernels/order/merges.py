"""Pairs of runs in order are merged: each work-item makes a part of the result.

It finds by bisection how many elements of either run are before its part. Of equal keys those of
the first run come first.
"""

from math import ceil, log2

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from mgn.dialects import kernel
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.index import Counter, Index, of
from mgn.passes.lower_kernels.core.pure_code import INDEX
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.order.rows import OrderedRows


def lower_merges(job: Job) -> Launch:
    """Writes the kernel of work-items that merge a part each."""
    return _Merges(job).write()


class _Merges:
    def __init__(self, job: Job) -> None:
        self.code, self.rows = job.code, OrderedRows(job)
        self.runs = self.rows.runs
        self.part, self.local = job.entry("part"), job.entry("items")

    def write(self) -> Launch:
        code, runs = self.code, self.runs
        kept = self.rows.kept if runs.count == 1 else runs.length
        parts = ceil_div(kept, self.part)
        items = ceil_div(runs.rows * parts, self.local) * self.local
        item = code.counter(kernel.GlobalIdOp, 0, items)

        def one_part() -> None:
            own = code.known(item, runs.rows * parts)
            self._merge(own // parts, own % parts * self.part, kept)

        code.when(code.is_below(item, runs.rows * parts, 1), one_part)
        return Launch((items,), (self.local,))

    def _merge(self, row: Index, start: Index, kept: int) -> None:
        """Merges a part of a row that begins at an element of the result."""
        code, runs = self.code, self.runs
        base = start // runs.run * runs.run if runs.count > 1 else start * 0
        middle = (base + runs.ordered).clamp(0, runs.length)
        end = (base + runs.run).clamp(0, runs.length)
        self.row, self.base, self.middle = row, code.index(base), code.index(middle)
        self.lefts, self.rights = code.index(middle - base), code.index(end - middle)
        before = code.index(start - base)
        left = self._search(before)
        right = self._of(arith.SubiOp, before, left)
        keys = [self._key(self.base, left), self._key(self.middle, right)]
        until = (start + self.part).clamp(0, kept)

        def one(place: Index, held: list[SSAValue]) -> list[SSAValue]:
            left, right, first, second = held
            one = code.constant(1, INDEX)
            has_left = code.compare_integers("slt", left, self.lefts)
            has_right = code.compare_integers("slt", right, self.rights)
            smaller = code.compare_integers("slt", second, first)
            no_left = code.binary(arith.XOrIOp, has_left, code.constant(1, has_left.type))
            takes_right = code.binary(arith.AndIOp, has_right, smaller)
            takes_right = code.binary(arith.OrIOp, takes_right, no_left)
            chosen = code.select(
                takes_right,
                self._of(arith.AddiOp, self.middle, right),
                self._of(arith.AddiOp, self.base, left),
            )
            self.rows.write(row, code.known(place, runs.length), chosen)
            next_left = code.select(takes_right, left, self._of(arith.AddiOp, left, one))
            next_right = code.select(takes_right, self._of(arith.AddiOp, right, one), right)
            origin = code.select(takes_right, self.middle, self.base)
            key = self._key(origin, code.select(takes_right, next_right, next_left))
            return [
                next_left,
                next_right,
                code.select(takes_right, first, key),
                code.select(takes_right, key, second),
            ]

        code.loop(start, until, one, [left, right, *keys], kept - 1)

    def _search(self, before: SSAValue) -> SSAValue:
        """How many elements of the first run are among so many of the result."""
        code = self.code
        least = self._of(arith.MaxSIOp, self._of(arith.SubiOp, before, self.rights), self._zero)
        most = self._of(arith.MinSIOp, before, self.lefts)

        def turn(_: Index, held: list[SSAValue]) -> list[SSAValue]:
            low, high = held

            def narrowed() -> list[SSAValue]:
                total = self._of(arith.AddiOp, low, high)
                half = self._of(arith.ShRUIOp, total, code.constant(1, INDEX))
                after = self._of(arith.AddiOp, half, code.constant(1, INDEX))
                other = self._of(arith.SubiOp, before, after)
                sooner = code.compare_integers(
                    "slt", self._key(self.middle, other), self._key(self.base, half)
                )
                return [code.select(sooner, low, after), code.select(sooner, half, high)]

            return code.branch(code.compare_integers("slt", low, high), narrowed, lambda: held)

        turns = ceil(log2(self.runs.ordered + 1)) + 1
        return code.loop(0, turns, turn, [least, most])[0]

    @property
    def _zero(self) -> SSAValue:
        return self.code.constant(0, INDEX)

    def _of(self, cls: type[Operation], left: SSAValue, right: SSAValue) -> SSAValue:
        return self.code.binary(cls, left, right)

    def _key(self, origin: SSAValue, place: SSAValue) -> SSAValue:
        """The key of an element of a run; of another one past its end."""
        element = self._of(arith.AddiOp, origin, place)
        last = self.code.constant(self.runs.length - 1, INDEX)
        element = self._of(arith.MinSIOp, element, last)
        return self.rows.key(self.row, of(Counter(element, 0, self.runs.length - 1)))
