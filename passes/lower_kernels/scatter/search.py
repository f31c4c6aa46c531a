"""Searches by all work-items of a group: how many of a row's ids, in order, are below some numbers.

In: ids whose order tells, by their elements, which are below each number. Out: for each number, the
first element whose id is not below it. In a turn each work-item looks at one element for each
number, and the next turn is about what lies between two of these. So all looks of a turn wait for
memory at once.
"""

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import i1, i32
from xdsl.ir import SSAValue

from mgn.passes.kernels.index import Counter, Index, constant, of
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.core.pure_code import INDEX
from mgn.passes.schedules.scatter_work import search_steps


class Search:
    """A search among `count` elements by the work-items of a group.

    `id`: the id of an element. `marks`: local memory of i32, a number for each work-item and each
    of `at_once` numbers that are searched for.
    """

    def __init__(
        self,
        code: Code,
        item: Index,
        items: int,
        count: int,
        id: Callable[[Index], SSAValue],
        marks: SSAValue,
        at_once: int,
    ) -> None:
        self.code, self.item, self.items, self.count = code, item, items, count
        self.id, self.marks = id, marks
        self.stretches = code.local(i32, at_once)  # how many are below each number

    def first_not_below(self, numbers: Sequence[Index]) -> list[Index]:
        """For each number, how many elements have ids below it. Barriers are inside; what `marks`
        hold is read no more.
        """
        wanted = [self.code.index(number) for number in numbers]
        lows = [constant(0)] * len(numbers)
        for step in search_steps(self.count, self.items):
            lows = self._nearer(lows, step, wanted)
        return lows

    def _nearer(self, lows: list[Index], step: int, wanted: list[SSAValue]) -> list[Index]:
        """A turn of the search: for each number, an element that is at most `step` - 1 before the
        first whose id is not below it.

        From `low` on each work-item has a stretch of `step` elements, and looks at the last of it.
        Where that is below the number, all of the stretch are.
        """
        code, one, zero = self.code, self.code.constant(1, i32), self.code.constant(0, i32)
        flags: list[SSAValue] = []
        for n, (low, target) in enumerate(zip(lows, wanted, strict=True)):
            place = low + (self.item * step + (step - 1))
            there = code.known(place.clamp(0, self.count - 1), self.count)
            below = code.compare_integers("slt", self.id(there), target)
            flag = code.all_of([below, code.is_below(place, self.count, 1)])
            assert isinstance(flag, SSAValue), "ids are read when the kernel runs"
            own = code.index(self.item + n * self.items)
            code.store(code.select(flag, one, zero), self.marks, own)
            flags.append(flag)
        code.barrier()
        right = (self.item + 1).clamp(0, self.items - 1)
        is_last = code.compare_integers("eq", code.index(self.item), code.index(self.items - 1))
        up_to_own = code.convert("index_cast", code.index(self.item + 1), i32)
        for n, flag in enumerate(flags):
            there = code.load(self.marks, code.index(right + n * self.items))
            ends = code.compare_integers("eq", there, zero)
            ends = code.binary(arith.AndIOp, flag, code.binary(arith.OrIOp, ends, is_last))
            cell = code.index(n)
            code.when(ends, lambda cell=cell: code.store(up_to_own, self.stretches, cell))
            none = code.binary(arith.XOrIOp, flag, code.constant(1, i1))
            none = code.all_of([none, code.is_below(self.item, 1, 1)])
            code.when(none, lambda cell=cell: code.store(zero, self.stretches, cell))
        code.barrier()
        return [
            self._behind(low, code.load(self.stretches, code.index(n)), step)
            for n, low in enumerate(lows)
        ]

    def _behind(self, low: Index, stretches: SSAValue, step: int) -> Index:
        """The element behind so many stretches that begin at `low`, or the end of all elements."""
        code = self.code
        stretches = code.binary(arith.MaxSIOp, stretches, code.constant(0, i32))
        stretches = code.binary(arith.MinSIOp, stretches, code.constant(self.items, i32))
        number = of(Counter(code.convert("index_cast", stretches, INDEX), 0, self.items))
        return code.known((low + number * step).clamp(0, self.count), self.count + 1)
