"""Tiles of a transpose whose lines begin anywhere between two vectors of memory.

In: the loads that go through tiles, and axes whose length is no multiple of a vector's. Out: a
kernel that moves whole aligned vectors. A group reads a line from the vector in which its tile
begins. It writes a line from one boundary of segments to another: so it leaves less than a segment
of the line to the next tile, and writes as much of the tile before. It reads that much of its
neighbour's lines, too. Numbers move one by one only at the ends of the results' lines and of an
operand.
"""

from collections.abc import Callable

from xdsl.ir import SSAValue

from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.index import ZERO, Counter, Index, lanes, linear, of
from mgn.passes.lower_kernels.core.pure_code import memory_type
from mgn.passes.lower_kernels.core.template import Launch
from mgn.passes.lower_kernels.pointwise.tiles import Tiles, substituted
from mgn.passes.schedules.transposes import Turned

SEGMENT_BYTES = 32
"""What memory writes at a time."""

SIDE_BY_SIDE = 8
"""Vectors of a line that neighbouring work-items write before the next line. So many columns of
local memory lie in different banks.
"""


class RaggedTiles(Tiles):
    """A kernel of such tiles."""

    def lower(self) -> Launch:
        """Writes the kernel."""
        width = self.width = self.job.number("lanes", 4)
        self.pitch = self.rows + 2 * (width - 1) + 1
        self.segment = max(width, SEGMENT_BYTES // self.job.body.written[0].element.bytes)
        self.overlap = self.segment - 1 if self.inner % width else 0
        self.lines = self.columns + self.overlap
        launch = self.begin(self.overlap)
        self._fetch_lines()
        self.code.barrier()
        self._write_lines()
        return launch

    def _vectors(self) -> int:
        """Vectors of a line that hold a tile's rows."""
        row = self.transposed.counters[self.axis]
        steps = [
            number
            for load in self.transposed.loads
            for atom, number in (*load.index.terms, (None, load.index.constant))
            if atom is not row
        ]
        return self.rows // self.width + any(number % self.width for number in steps)

    def _fetch_lines(self) -> None:
        """The vectors that hold a tile's lines: all are under way before the first is stored."""
        vectors = self._vectors()
        count = self.lines * vectors
        stores: list[Callable[[], object]] = []
        for step in range(ceil_div(count, self.items)):
            number = self.bounded(self.place + step * self.items, count)
            for load, buffer in zip(self.transposed.loads, self.memory, strict=True):
                stores.append(self._fetch_vector(load, buffer, number // vectors, number % vectors))
        for store in stores:
            store()

    def _fetch_vector(
        self, load: Turned, buffer: SSAValue, line: Index, vector: Index
    ) -> Callable[[], object]:
        """Reads a vector of a line; what is returned stores it."""
        code, width = self.code, self.width
        node, source = self.job.body.inputs[load.number], self.job.inputs[load.number]
        count, element = node.count, node.element
        column = self.first_column - self.overlap + line
        column = code.known(column.clamp(0, self.inner - 1), self.inner)
        start = substituted(load.index, self.values(self.first_row, column))
        number, whole = start // width + vector, count // width
        place = line * self.pitch + vector * width - start % width + (width - 1)
        inside = code.is_below(number, whole, 1)
        wide, narrow = self.job.evaluator(width), self.job.evaluator(1)

        def read() -> list[SSAValue]:
            known = code.known(number, whole)
            return [wide.load(source, known * width + lanes(width))]

        def nothing() -> list[SSAValue]:
            return [code.constant(0, memory_type(element), width)]

        def last_numbers() -> None:
            for rest in range(count % width):
                value = narrow.load(source, ZERO + (whole * width + rest))
                code.store(value, buffer, code.index(place + rest))

        (value,) = code.branch(inside, read, nothing)

        def store() -> None:
            code.when(inside, lambda: code.store(value, buffer, code.index(place)))
            if inside is not True and count % width:
                last = code.compare_integers("eq", code.index(number), code.index(whole))
                code.when(last, last_numbers)

        return store

    def _write_lines(self) -> None:
        """The vectors of a tile's lines of results."""
        across = self.columns // self.width
        side = min(SIDE_BY_SIDE, across)
        lines = min(self.items // side, self.rows)
        count = self.rows * across
        for step in range(ceil_div(count, self.items)):
            number = self.bounded(self.place + step * self.items, count)
            column, line = number % side, number // side
            column += line // lines % (across // side) * side
            line = line % lines + line // (lines * (across // side)) * lines
            self._write_vector(line, column)

    def _write_vector(self, line: Index, vector: Index) -> None:
        code, width = self.code, self.width
        row = self.bounded(self.first_row + line, self.along)
        begin, start = (self._place(row, column) for column in (ZERO, self.first_column))
        segment = self.segment if self.overlap else 1
        back = start % segment
        column = start // segment * segment - begin + vector * width
        place = (vector * width - back + self.overlap) * self.pitch + line + (width - 1)
        number = of(
            Counter(
                code.index(self.first_column - back + vector * width),
                -self.overlap,
                self.first_column.high + self.columns - width,
            )
        )

        def narrow(lane: Index) -> None:
            inside = code.is_below(number + lane, self.inner, 1)
            here = (number + lane).clamp(0, self.inner - 1)
            known = code.known(here, self.inner)
            own = place + lane * self.pitch
            from_start = code.is_below((number + lane) * -1, 1, 1)
            code.when(inside, lambda: code.when(from_start, lambda: self.write(1, row, known, own)))

        def wide() -> None:
            self.write(width, row, column + lanes(width), place + lanes(width) * self.pitch)

        def both() -> None:
            whole = number.clamp(0, self.inner - width)
            test = code.compare_integers("eq", code.index(whole), code.index(number))
            code.branch(test, wide, lambda: code.each(0, width, narrow))

        code.when(code.is_below(self.first_row + line, self.along, 1), both)

    def _place(self, row: Index, column: Index) -> Index:
        """Where an element of the results lies."""
        values = self.values(row, column)
        index = tuple(values[counter] for counter in self.transposed.counters)
        return linear(index, self.shape)
