"""Attention over very many keys: sums restart in each block of tiles (long_sums.py).

In: a loop over tiles of keys. It carries the largest score of each row, and sums relative to it.
Out: a short loop stays as it is. A long loop becomes a loop over blocks of tiles. The sums of a
block start at zero; its largest scores start at those of the blocks before. After the block, the
sums of the blocks before are rescaled to the new largest scores, and the block's sums are added.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir import Attribute, SSAValue

from mgn.passes.kernels.index import Index
from mgn.passes.lower_kernels.attention.node import Attention
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.core.long_sums import loop_of_blocks
from mgn.passes.lower_kernels.core.product import multiply_add
from mgn.passes.lower_kernels.core.pure_code import lane_count, scalar_type

Values = list[SSAValue]
BLOCK, MOST_TILES = 64, 128
"""Tiles of a block. A loop of at most so many tiles stays one loop."""


def loop_over_keys(
    code: Code,
    attention: Attention,
    start: Index | int,
    end: Index,
    tile: Callable[[Index, Values], Sequence[SSAValue]],
    held: Values,
    rows: int,
    factors_of: Callable[[Values], Values],
) -> Values:
    """A loop over tiles of keys.

    `held` are `rows` largest scores, then sums, then what is no sum. `factors_of` spreads a factor
    of each row over the sums.
    """
    count = len(factors_of(held[:rows]))
    sums = slice(rows, rows + count)

    def begin(before: Values) -> Values:
        zeros = [code.constant(0, scalar_type(v), lane_count(v)) for v in before[sums]]
        return [*before[:rows], *zeros, *before[rows + count :]]

    def join(before: Values, found: Values) -> Values:
        changes = [
            attention.power(code, old, attention.shift(code, new))
            for old, new in zip(before[:rows], found[:rows], strict=True)
        ]
        triples = zip(before[sums], factors_of(changes), found[sums], strict=True)
        added = [multiply_add(code, attention.element, *triple) for triple in triples]
        return [*found[:rows], *added, *found[rows + count :]]

    how = {"block": BLOCK, "most": MOST_TILES}
    return loop_of_blocks(code, start, end, tile, held, begin, join, **how)


@dataclass
class FarSums:
    """The results of all blocks before the present one, in memory, for `count` rows: the sums of a
    row, their total, and the largest score that they are relative to. The same of the present block
    are the `near` ones.
    """

    code: Code
    attention: Attention
    type: Attribute
    count: int
    width: int
    lanes: int
    near: tuple[SSAValue, SSAValue, SSAValue]

    def __post_init__(self) -> None:
        sizes = (self.count * self.width, self.count, self.count)
        self.far = tuple(self.code.local(self.type, size) for size in sizes)

    def clear(self) -> None:
        """Before the first block."""
        code = self.code
        sums, totals, largest = self.far
        nothing = code.constant(float("-inf"), self.type)

        def one_row(row: Index) -> None:
            self._clear(sums, totals, row)
            code.store(nothing, largest, code.index(row))

        code.each(0, self.count, one_row)

    def carry(self) -> None:
        """After a block: adds the near sums to the far ones, and sets the near ones to zero."""

        def one_row(row: Index) -> None:
            self._merge(row, self.far)
            self._clear(*self.near[:2], row)

        self.code.each(0, self.count, one_row)

    def finish(self) -> None:
        """After the last block: adds the far sums to the near ones."""
        self.code.each(0, self.count, lambda row: self._merge(row, self.near))

    def _merge(self, row: Index, target: Sequence[SSAValue]) -> None:
        """Adds near and far sums, and stores the result as one of them."""
        code, attention, place = self.code, self.attention, self.code.index(row)
        largest = code.load(self.near[2], place)
        shift = attention.shift(code, largest)
        factor = attention.power(code, code.load(self.far[2], place), shift)

        def sum_of(number: int, place: SSAValue, lanes: int) -> None:
            far, near = (
                code.load(memory[number], place, lanes) for memory in (self.far, self.near)
            )
            own = code.spread(factor, lanes)
            code.store(multiply_add(code, attention.element, far, own, near), target[number], place)

        code.each(
            0,
            self.width // self.lanes,
            lambda n: sum_of(0, code.index(row * self.width + n * self.lanes), self.lanes),
        )
        sum_of(1, place, 1)
        code.store(largest, target[2], place)

    def _clear(self, sums: SSAValue, totals: SSAValue, row: Index) -> None:
        code = self.code
        zero = code.constant(0, self.type, self.lanes)
        code.each(
            0,
            self.width // self.lanes,
            lambda n: code.store(zero, sums, code.index(row * self.width + n * self.lanes)),
        )
        code.store(code.constant(0, self.type), totals, code.index(row))
