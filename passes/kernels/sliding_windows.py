"""Windows that a reduction combines, as a GPU's work-items walk them: a few places each.

In: a body with its rows. Out: `SlidingWindows`, where each row of the reduction is a window.

Neighbouring windows share elements: a work-item that computes a tile of neighbouring places reads
each of the source's elements once, and keeps it in a register for all the windows that have it.
"""

from dataclasses import dataclass
from itertools import product
from math import prod

from mgn.dialects.mgn.operation import Kind
from mgn.passes.kernels.body import Body, Node
from mgn.passes.kernels.rows import RowSpace, stages_of

MOST_ELEMENTS = 64
"""Elements of a window up to which all are written out, one after the other."""

Place = tuple[int, ...]


@dataclass(frozen=True)
class SlidingWindows:
    """The windows of a body whose reductions have a row for each of them."""

    node: Node

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(self.node.values["sizes"])

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(self.node.values["strides"])

    @property
    def dilation(self) -> tuple[int, ...]:
        return tuple(self.node.values["dilation"])

    @property
    def axes(self) -> int:
        """Over how many axes windows slide."""
        return len(self.sizes)

    @property
    def places(self) -> tuple[int, ...]:
        """How many windows there are along each of these axes."""
        return self.node.shape[-2 * self.axes : -self.axes]

    @property
    def line(self) -> int:
        """Elements of a line of what windows slide over, in its padding or without."""
        source = self.node.operands[0]
        return (source.operands[0] if source.name == "pad" else source).shape[-1]

    def lines_read(self, rows: int) -> int:
        """How many lines of the source so many windows below one another have."""
        if self.axes == 1:
            return 1
        step, apart = self.strides[-2], self.dilation[-2]
        lines = {row * step + y * apart for row in range(rows) for y in range(self.sizes[-2])}
        return prod(self.sizes[:-2]) * len(lines)

    def line_read(self, columns: int) -> int:
        """How many elements of a line so many windows beside one another have."""
        step, apart = self.strides[-1], self.dilation[-1]
        return len({n * step + x * apart for n in range(columns) for x in range(self.sizes[-1])})

    def steps(self, rows: int, columns: int) -> list[tuple[Place, int, int]]:
        """An element of a window, and the row and the column of it, for each element of a tile of
        windows: those that read the same line of the source together, and each window's in order.
        """
        elements = product(*map(range, self.sizes))
        step, apart = (self.strides[-2], self.dilation[-2]) if self.axes > 1 else (0, 0)

        def line(item: tuple[Place, int, int]) -> tuple[Place, int, int, int, int]:
            place, row, column = item
            y = place[-2] if self.axes > 1 else 0
            return place[:-2], row * step + y * apart, place[-1], row, column

        return sorted(product(elements, range(rows), range(columns)), key=line)


def sliding_windows(body: Body, space: RowSpace) -> SlidingWindows | None:
    """The windows of floats that a body reduces, if each of its rows is one, of few elements.

    Of integers, NVIDIA's compiler (580.159) gets some minima of negated and chosen ones wrong.
    """
    found = [node for node in body.nodes if node.name == "windows"]
    if len(found) != 1 or not found[0].element.is_float:
        return None
    if not 2 <= space.length <= MOST_ELEMENTS or not space.rows:
        return None
    windows = SlidingWindows(found[0])
    alike = space.reduced_shape == windows.sizes and space.innermost_is_kept
    alike &= space.kept_shape[-windows.axes :] == windows.places
    if not alike or any(space.is_full(node) for node in body.written):
        return None
    one_walk = len(stages_of(body, space).reductions) == 1
    return windows if one_walk and len(body.of_kind(Kind.REDUCTION)) == 1 else None
