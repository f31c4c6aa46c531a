"""Sums of a CPU's product over a long shared axis: totals in memory, and chains in registers.

In: the blocks of the shared axis in their order. A register tile keeps its sums from one block to
the next, for as many blocks as make `CHAIN` steps: that is a *chain*. Out: the sums of all chains.
The sums of a chain are added to a first set of totals. After so many chains the first set is added
to a second set, and so on. These are the nested blocks of long_sums.py, for sums in memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from xdsl.ir import Attribute, SSAValue

from mgn.dialects.types import ElementType
from mgn.passes.kernels.index import Index
from mgn.passes.kernels.long_chains import BLOCK, CHAIN, sets_of_totals
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.core.pure_code import memory_type
from mgn.passes.lower_kernels.core.scalar import combine


@dataclass
class LongTotals:
    """The sums of a work-item's block of results: `size` of an element type, in vectors of `width`.

    The shared axis has `depth` steps, `steps` of them at a time.
    """

    code: Code
    element: ElementType
    size: int
    width: int
    depth: int
    steps: int

    @property
    def type(self) -> Attribute:
        return memory_type(self.element)

    @cached_property
    def chain(self) -> SSAValue:
        """The sums of the chain at hand."""
        return self.code.local(self.type, self.size)

    @cached_property
    def _totals(self) -> list[SSAValue]:
        sets = sets_of_totals(self.depth)
        return [self.code.local(self.type, self.size) for _ in range(sets)]

    @property
    def _blocks(self) -> int:
        """Blocks of a chain."""
        return max(CHAIN // self.steps, 1)

    def clear(self) -> None:
        """Before the first block."""
        zero = self.code.constant(0, self.type, self.width)
        for totals in self._totals:
            self.code.each(
                0,
                self.size // self.width,
                lambda n, totals=totals: self._put(zero, totals, n * self.width),
            )

    def begins(self, block: Index) -> SSAValue:
        """Whether a chain begins with a block."""
        own = block % self._blocks if self._totals else block
        return self.code.compare_integers("eq", self.code.index(own), self.code.index(0))

    def kept(self, place: Index) -> SSAValue:
        """A vector of the chain's sums."""
        return self._at(self.chain, place)

    def keep(self, places: Sequence[Index], values: Sequence[SSAValue]) -> None:
        """Stores the sums of a chain."""
        for place, value in zip(places, values, strict=True):
            self._put(value, self.chain, place)

    def carry(self, block: Index, places: Sequence[Index]) -> None:
        """After a block: where it was the last of a chain, the chain's sums are added to the
        totals.
        """
        self._add_on(block, self._blocks, self.chain, self._totals, places)

    def _add_on(
        self,
        block: Index,
        blocks: int,
        source: SSAValue,
        totals: Sequence[SSAValue],
        places: Sequence[Index],
    ) -> None:
        """Adds sums to the first of some sets where a block is the last of so many. Then adds that
        set to the next one, and clears it.
        """
        if not totals:
            return
        code, target = self.code, totals[0]
        nothing = code.constant(0, self.type, self.width)

        def add() -> None:
            for place in places:
                own = self._sum(self._at(target, place), self._at(source, place))
                self._put(own, target, place)
                if source is not self.chain:
                    self._put(nothing, source, place)
            self._add_on(block, blocks * BLOCK, target, totals[1:], places)

        code.when(code.is_below((block + 1) % blocks, 1, 1), add)

    def whole(self, place: Index, value: SSAValue) -> SSAValue:
        """The sum of all chains; the value is the sum of the last one."""
        for totals in self._totals:
            value = self._sum(self._at(totals, place), value)
        return value

    def _sum(self, left: SSAValue, right: SSAValue) -> SSAValue:
        return combine(self.code, "sum", self.element, left, right)

    def _at(self, buffer: SSAValue, place: Index) -> SSAValue:
        return self.code.load(buffer, self.code.index(place), self.width)

    def _put(self, value: SSAValue, buffer: SSAValue, place: Index) -> None:
        self.code.store(value, buffer, self.code.index(place))
