"""Copying lines of an operand into local memory, by all work-items of a group.

In: lines and where local memory keeps them. Out: values in registers, and later their stores: the
time between hides the memory's latency.
"""

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.ir import SSAValue

from mgn.passes.kernels.arithmetic import dividing_lanes
from mgn.passes.kernels.index import Index
from mgn.passes.lower_kernels.core.template import Job
from mgn.passes.lower_kernels.staging.pieces import Pieces

Read = Callable[[Index, Index, int], SSAValue]
"""Elements of a line from a column on."""


@dataclass(frozen=True)
class Lines:
    """`count` lines of `length` elements, each followed by zeros up to `size`; `place` says where
    in `memory` an element lies.
    """

    count: int
    length: int
    size: int
    memory: SSAValue
    place: Callable[[Index, Index], Index]


@dataclass(frozen=True)
class LineCopy:
    """Copies lines by vectors of up to `vector` elements; `own` is the work-item's number in its
    group of `items`.
    """

    job: Job
    lines: Lines
    items: int
    vector: int
    own: Index

    @property
    def width(self) -> int:
        """Elements read at once."""
        width = dividing_lanes(self.lines.length, self.vector)
        while self.lines.size % width:
            width //= 2
        return width

    @property
    def across(self) -> int:
        """Vectors of a line."""
        return self.lines.size // self.width

    @property
    def pieces(self) -> Pieces:
        """The vectors of all lines."""
        return Pieces(self.job.code, self.lines.count * self.across, self.items, self.own)

    def read(self, read: Read, turn: Index | int, together: int) -> list[SSAValue]:
        """The vectors of so many turns."""
        return [self._value(read, self._number(turn + n)) for n in range(together)]

    def _number(self, turn: Index | int) -> Index:
        """A piece of the work-item, or the last one."""
        return self.job.code.bounded(self.pieces.number(turn), self.pieces.count)

    def _value(self, read: Read, number: Index) -> SSAValue:
        code, lines, width = self.job.code, self.lines, self.width
        line, part = number // self.across, number % self.across
        if lines.size == lines.length:
            return read(line, part * width, width)
        inside = code.is_below(part, lines.length // width, 1)
        own = code.bounded(part, lines.length // width) * width
        return code.or_zeros(inside, read(line, own, width))

    def write(self, values: list[SSAValue], turn: Index | int) -> None:
        """Stores the vectors of turns."""
        code, lines = self.job.code, self.lines
        for n, value in enumerate(values):
            inside = self.pieces.is_there(turn + n)
            number = self._number(turn + n)
            place = lines.place(number // self.across, number % self.across * self.width)

            def put(value: SSAValue = value, place: Index = place) -> None:
                code.store(value, lines.memory, code.index(place), place.multiple)

            code.when(inside, put)

    def copy(self, read: Read, at_once: int) -> None:
        """Reads and stores all vectors, so many at once."""
        together, turns = at_once, self.pieces.turns
        while turns % together:
            together //= 2

        def some(turn: Index) -> None:
            self.write(self.read(read, turn, together), turn)

        self.job.code.each(0, turns // together, lambda number: some(number * together))
