"""Results of a matrix unit in longer pieces, by shuffles between the work-items of a row.

In: a few neighbouring tiles of eight columns. Each of four neighbours in a sub-group has a pair of
numbers of each tile's row. Out: in each work-item, as many columns of one tile as fill 16 bytes.
`Shuffle` says of which. Without shuffles a work-item stores pairs: of 16-bit results these fill
half of a segment of memory at best.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.passes.kernels.index import Index
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.core.pure_code import INDEX, lane_of
from mgn.passes.lower_kernels.staging.tensor_panels import EIGHT

NEIGHBOURS = 4
"""Work-items that have parts of one row of a tile of eight columns."""

PIECE_BYTES = 16


@dataclass(frozen=True)
class Shuffle:
    """Shuffles between `tiles` that follow each other, for one work-item of a sub-group."""

    code: Code
    lane: Index
    tiles: int

    @property
    def width(self) -> int:
        """How many columns a work-item has after it."""
        return 2 * self.tiles

    @property
    def column(self) -> Index:
        """The first of them, counted from the first tile's."""
        own = self.lane % NEIGHBOURS
        return own % self.tiles * EIGHT + own // self.tiles * self.width

    def __call__(self, pairs: Sequence[SSAValue]) -> SSAValue:
        """Neighbouring columns of one tile, of the pairs of all."""
        held = [[lane_of(self.code, pair, n) for n in range(2)] for pair in pairs]
        distance = 1
        while len(held) > 1:
            held = list(_halved(self.code, self.lane, distance, held))
            distance *= 2
        return self.code.joined(held[0])


def _halved(
    code: Code, lane: Index, distance: int, held: Sequence[list[SSAValue]]
) -> Iterator[list[SSAValue]]:
    """One of every two parts, twice as long: this work-item's part and its partner's."""
    partner = code.pure(arith.XOrIOp, [code.index(lane), code.constant(distance, INDEX)], INDEX)
    odd = code.compare_integers("sgt", code.index(lane // distance % 2), code.index(0))
    for first, second in zip(held[::2], held[1::2], strict=True):
        given = [code.select(odd, a, b) for a, b in zip(first, second, strict=True)]
        got = [
            code.effect(
                kernel.SubGroupShuffleOp, [value, partner], result_types=[value.type]
            ).results[0]
            for value in given
        ]
        low = [code.select(odd, other, own) for other, own in zip(got, first, strict=True)]
        high = [code.select(odd, own, other) for other, own in zip(got, second, strict=True)]
        yield low + high
