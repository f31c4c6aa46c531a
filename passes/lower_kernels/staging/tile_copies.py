"""Copies of tiles to local memory through registers, by all work-items of a group.

In: a tile in pieces, vectors of its lines; how a vector is read, and how it is stored. Out: values
in registers, and later their stores: the time between hides the memory's latency.
"""

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.ir import SSAValue

from mgn.passes.kernels.arithmetic import dividing_lanes
from mgn.passes.kernels.index import Index
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.staging.pieces import Pieces

Spot = tuple[Index, Index]
"""A line of a tile, and where in it a vector begins."""

Read = Callable[[Index, Index], SSAValue]
"""The vector of a line from a place on."""


Store = Callable[[Index, Index, SSAValue], None]
"""Writes such a vector to local memory."""


@dataclass(frozen=True)
class TileCopy:
    """Copies the vectors of a tile; `spot` says which one a piece is."""

    pieces: Pieces
    spot: Callable[[Index], Spot]

    def read(self, read: Read, turn: Index | int = 0, together: int = 0) -> list[SSAValue]:
        """The vectors of so many turns from one on, or of all."""
        turns = range(together or self.pieces.turns)
        return [read(*self.spot(self.pieces.number(turn + n))) for n in turns]

    def write(self, values: list[SSAValue], store: Store, turn: Index | int = 0) -> None:
        """Stores the vectors of turns from one on."""
        for n, value in enumerate(values):
            test, spot = self.pieces.is_there(turn + n), self.spot(self.pieces.number(turn + n))
            self.pieces.code.when(test, lambda spot=spot, value=value: store(*spot, value))

    def copy(self, read: Read, store: Store, at_once: int) -> None:
        """Reads and stores all vectors, at most so many at once."""
        turns = self.pieces.turns
        while turns % at_once:
            at_once //= 2

        def some(number: Index) -> None:
            turn = number * at_once
            self.write(self.read(read, turn, at_once), store, turn)

        self.pieces.code.each(0, turns // at_once, some)


@dataclass(frozen=True)
class Lines:
    """`count` lines of `length` elements, each followed by zeros up to `size`; `place` says where
    in `memory` an element lies. They are copied by vectors of up to `vector` elements.
    """

    code: Code
    count: int
    length: int
    size: int
    vector: int
    memory: SSAValue
    place: Callable[[Index, Index], Index]

    @property
    def width(self) -> int:
        """Elements read at once."""
        width = dividing_lanes(self.length, self.vector)
        while self.size % width:
            width //= 2
        return width

    def copied_by(self, items: int, own: Index) -> TileCopy:
        """The copies of a work-item in its group."""
        across, code = self.size // self.width, self.code
        pieces = Pieces(code, self.count * across, items, own)

        def spot(number: Index) -> Spot:
            number = code.bounded(number, pieces.count)
            return number // across, number % across * self.width

        return TileCopy(pieces, spot)

    def store(self, line: Index, start: Index, value: SSAValue) -> None:
        """Writes a vector of a line to local memory."""
        place = self.place(line, start)
        self.code.store(value, self.memory, self.code.index(place), place.multiple)

    def padded(self, read: Callable[[Index, Index, int], SSAValue]) -> Read:
        """Reads so many elements of a line; past its length they are zeros."""
        code, width = self.code, self.width
        if self.size == self.length:
            return lambda line, start: read(line, start, width)
        vectors = self.length // width

        def read_inside(line: Index, start: Index) -> SSAValue:
            part = start // width
            inside = code.is_below(part, vectors, 1)
            return code.or_zeros(inside, read(line, code.bounded(part, vectors) * width, width))

        return read_inside
