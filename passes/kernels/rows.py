"""The spaces of a reduction: rows, the elements of a row, and which values live where.

In: a body with reductions over the same axes. Out: the kept and the reduced axes, the index of
an element of a row, the stage in which each value can be computed, and what is worth storing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from math import prod

from mgn.dialects.fusion.forms import BLOCK_SUMS
from mgn.dialects.mgn.element_cost import ELEMENT_COST
from mgn.dialects.mgn.operation import Kind
from mgn.passes.kernels.arithmetic import dividing_lanes
from mgn.passes.kernels.body import Body, Indices, Node
from mgn.passes.kernels.index import Index, delinearised
from mgn.passes.kernels.index_maps import reshaped_index

_WEIGHTS = {
    **dict.fromkeys(("gather", "pad", "concat"), 4),
    **dict.fromkeys(("input", "splat", "reshape"), 0),
}
"""What an operation that is not elementwise counts for, in additions, where it is not 1."""

_BY_COST = ((60.0, 8), (19.0, 3))
"""What an elementwise one counts for, by the least multiply-adds that it costs a CPU."""

_IN_PLACE = ("reshape", "broadcast_to")
"""Movements whose elements are those of their operand in its order."""

SEGMENT = 128
"""Bytes of memory that the work-items of a group on a GPU should at least read side by side."""

STORE_FROM = 4
"""The cost, in additions, from which a value is stored for the next stage."""


@dataclass
class RowSpace:
    """The full space `shape`, cut into rows (`kept` axes) of elements (`reduced` axes)."""

    shape: tuple[int, ...]
    reduced: tuple[int, ...]

    @property
    def kept(self) -> tuple[int, ...]:
        return tuple(axis for axis in range(len(self.shape)) if axis not in self.reduced)

    @property
    def kept_shape(self) -> tuple[int, ...]:
        return tuple(self.shape[axis] for axis in self.kept)

    @property
    def reduced_shape(self) -> tuple[int, ...]:
        return tuple(self.shape[axis] for axis in self.reduced)

    @property
    def rows(self) -> int:
        return prod(self.kept_shape)

    @property
    def length(self) -> int:
        return prod(self.reduced_shape)

    @property
    def innermost_is_kept(self) -> bool:
        """Whether neighbours in memory belong to different rows."""
        for axis in reversed(range(len(self.shape))):
            if self.shape[axis] != 1:
                return axis not in self.reduced
        return False

    def full_index(self, row: Index, element: Index) -> Indices:
        """The index of an element of a row in the full space."""
        index: list[Index | None] = [None] * len(self.shape)
        for axis, part in zip(self.kept, delinearised(row, self.kept_shape), strict=True):
            index[axis] = part
        lines = self._reduced_lines
        starts = delinearised(element, tuple(prod(self.shape[i] for i in line) for line in lines))
        for line, start in zip(lines, starts, strict=True):
            parts = delinearised(start, tuple(self.shape[axis] for axis in line))
            for axis, part in zip(line, parts, strict=True):
                index[axis] = part
        return tuple(part for part in index if part is not None)

    @property
    def _reduced_lines(self) -> list[list[int]]:
        """The reduced axes, neighbours together: these are one line in memory."""
        lines: list[list[int]] = []
        for axis in self.reduced:
            if lines and lines[-1][-1] == axis - 1:
                lines[-1].append(axis)
            else:
                lines.append([axis])
        return lines

    def is_full(self, node: Node) -> bool:
        """Whether a node has a value for each element, and not only for each row, or for each block
        of rows.
        """
        if node.name == BLOCK_SUMS:
            return False
        return node.count == prod(self.shape) and (self.length != 1 or node.shape == self.shape)

    def is_of_row(self, node: Node) -> bool:
        """Whether a node has one value for each row."""
        return node.name != BLOCK_SUMS and not self.is_full(node)

    def index_in(self, node: Node, row: Index, element: Index) -> Indices:
        """The index of a node's value that belongs to an element of a row."""
        if self.is_full(node):
            return reshaped_index(self.full_index(row, element), self.shape, node.shape)
        kept = delinearised(row, self.kept_shape)
        return reshaped_index(kept, self.kept_shape, node.shape)


def columns_side_by_side(space: RowSpace, inputs: Iterable[tuple[int, int]]) -> int:
    """How many neighbouring rows fill a segment of memory; inputs are elements and their bytes."""
    full = space.rows * space.length
    return SEGMENT // min((size for count, size in inputs if count == full), default=4)


@dataclass
class Stages:
    """Reductions by the stage that computes them, and the values that each stage stores."""

    reductions: list[list[Node]]
    stored: list[list[Node]]


def row_space(body: Body, kind: Kind = Kind.REDUCTION) -> RowSpace:
    """The spaces of a body's reductions."""
    first = body.of_kind(kind)[0]
    axis = first.values["axis"]
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    return RowSpace(first.operands[0].shape, axes)


def block_sums_of(body: Body) -> list[Node]:
    """The sums of blocks of rows in a body."""
    return [node for node in body.nodes if node.name == BLOCK_SUMS]


def block_space(body: Body) -> RowSpace:
    """The rows that sums of blocks are of."""
    first = block_sums_of(body)[0]
    shape = first.operands[0].shape
    return RowSpace(shape, tuple(range(first.values["leading"], len(shape))))


def elements_in_line(body: Body, space: RowSpace) -> int:
    """How many elements of a row lie in one line. It is all elements of the reduced axes behind the
    kept ones, where every operand has them in order; else those of the innermost axis.
    """
    walked = [*body.of_kind(Kind.REDUCTION), *block_sums_of(body)]
    roots = [node.operands[0] for node in walked]
    roots += [node for node in body.written if space.is_full(node)]
    in_order = all(
        node.name == "reshape" or node.kind in (Kind.ELEMENTWISE, Kind.CONSTANT)
        for node in _backward_slice(roots, set(), space)
    )
    innermost = [axis for axis in space.reduced if space.shape[axis] != 1][-1:]
    last = max((axis for axis in space.kept if space.shape[axis] != 1), default=-1)
    together = [axis for axis in space.reduced if axis > last] if in_order else innermost
    return prod(space.shape[axis] for axis in together)


def lanes_along(space: RowSpace, in_line: int, most: int) -> int:
    """The lanes of a CPU's vectors along rows, of which `in_line` elements lie in one line. Vectors
    end where a line of a row does. The last vector of a whole row may be cut.
    """
    lanes = most if in_line == space.length else dividing_lanes(in_line, most)
    while lanes > 1 and lanes > space.length:
        lanes //= 2
    return lanes


def stages_of(body: Body, space: RowSpace) -> Stages:
    """The order in which rows must be walked."""
    level: dict[Node, int] = {}
    for node in body.nodes:
        below = max((level[operand] for operand in node.operands), default=0)
        level[node] = below + (node.kind is Kind.REDUCTION)
    count = max([level[node] for node in body.of_kind(Kind.REDUCTION)], default=0)
    reductions: list[list[Node]] = [[] for _ in range(count)]
    for node in body.of_kind(Kind.REDUCTION):
        reductions[level[node] - 1].append(node)
    roots = [[node.operands[0] for node in stage] for stage in reductions]
    summed = [node.operands[0] for node in block_sums_of(body)]
    roots.append([*(node for node in body.written if space.is_full(node)), *summed])
    return Stages(reductions, _stored(roots, space))


def _stored(roots: list[list[Node]], space: RowSpace) -> list[list[Node]]:
    """For each stage, its expensive values that a later stage reads. They are read back at the
    element that the walk is at, so that a value of which another element is read is not stored.
    """
    if space.length == 0:
        return [[] for _ in roots[:-1]]
    stored: list[list[Node]] = []
    available: set[Node] = set()
    moved = _read_elsewhere([node for later in roots[1:] for node in later])
    for stage, walked in enumerate(roots[:-1]):
        here = _backward_slice(walked, available, space)
        wanted: list[Node] = []
        for later in roots[stage + 1 :]:
            for node in _frontier(later, here | available, space):
                dear = node in here and _cost(node, available) >= STORE_FROM
                if dear and node not in moved and node not in wanted:
                    wanted.append(node)
        stored.append(wanted)
        available.update(wanted)
    return stored


def _read_elsewhere(roots: list[Node]) -> set[Node]:
    """Values that the roots read at another element than their own: those behind a movement."""
    moves = [
        node
        for node in _behind(roots)
        if node.kind in (Kind.MOVEMENT, Kind.INDEXING) and node.name not in _IN_PLACE
    ]
    return _behind([operand for node in moves for operand in node.operands])


def _behind(roots: list[Node]) -> set[Node]:
    """The roots and what they are computed from, as far as reductions."""
    found: set[Node] = set()
    pending = list(roots)
    while pending:
        node = pending.pop()
        if node not in found and node.kind is not Kind.REDUCTION:
            found.add(node)
            pending.extend(node.operands)
    return found


def _backward_slice(roots: list[Node], stop: set[Node], space: RowSpace) -> set[Node]:
    """Values in the full space computed on the way to the roots."""
    found: set[Node] = set()
    pending = list(roots)
    while pending:
        node = pending.pop()
        if node in found or node in stop or node.kind is Kind.REDUCTION:
            continue
        if space.is_full(node):
            found.add(node)
            pending.extend(node.operands)
    return found


def _frontier(roots: list[Node], known: set[Node], space: RowSpace) -> list[Node]:
    """The known values nearest to the roots, on all paths to them."""
    found: list[Node] = []
    seen: set[Node] = set()
    pending = list(roots)
    while pending:
        node = pending.pop()
        if node in seen or node.kind is Kind.REDUCTION or not space.is_full(node):
            continue
        seen.add(node)
        if node in known:
            found.append(node)
        else:
            pending.extend(node.operands)
    return found


@cache
def _weight(name: str) -> int:
    cost = ELEMENT_COST[name].cpu if name in ELEMENT_COST else 0.0
    return next((weight for least, weight in _BY_COST if cost >= least), _WEIGHTS.get(name, 1))


def _cost(node: Node, available: set[Node]) -> int:
    seen: set[Node] = set()
    pending, total = [node], 0
    while pending:
        current = pending.pop()
        if current in seen or current in available or current.kind is Kind.REDUCTION:
            continue
        seen.add(current)
        total += _weight(current.name)
        pending.extend(current.operands)
    return total
