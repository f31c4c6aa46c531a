"""Movement as index maps: the element of an operand that is at an index of the result.

In: shapes, or a node, and the index of an element of the result. Out: the index of the operand's
element; through several moves, the input of the kernel and the element's place in it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mgn.passes.kernels.body import INPUT, SPLAT, Indices, Node
from mgn.passes.kernels.index import ZERO, Index, delinearised, linear


def broadcast_index(index: Indices, shape: tuple[int, ...]) -> Indices:
    """The element of an operand of that shape that NumPy broadcasts to an index."""
    trailing = index[len(index) - len(shape) :]
    return tuple(ZERO if size == 1 else part for part, size in zip(trailing, shape, strict=True))


def reshaped_index(index: Indices, shape: tuple[int, ...], source: tuple[int, ...]) -> Indices:
    """The element of a tensor of another shape that has the same row-major number."""
    if [size for size in shape if size != 1] == [size for size in source if size != 1]:
        kept = iter([part for part, size in zip(index, shape, strict=True) if size != 1])
        return tuple(ZERO if size == 1 else next(kept) for size in source)
    return delinearised(linear(index, shape), source)


def _transposed(node: Node, index: Indices) -> Indices:
    source: list[Index] = [ZERO] * len(index)
    for axis, part in zip(node.values["perm"], index, strict=True):
        source[axis] = part
    return tuple(source)


def _sliced(node: Node, index: Indices) -> Indices:
    starts, steps = node.values["starts"], node.values["steps"]
    return tuple(
        part * step + start for part, start, step in zip(index, starts, steps, strict=True)
    )


def _flipped(node: Node, index: Indices) -> Indices:
    axes = node.values["axis"]
    return tuple(
        part * -1 + (size - 1) if axis in axes else part
        for axis, (part, size) in enumerate(zip(index, node.shape, strict=True))
    )


def _windowed(node: Node, index: Indices) -> Indices:
    """The element of the operand that is at an index of its windows."""
    steps = list(zip(node.values["strides"], node.values["dilation"], strict=True))
    outer = len(index) - 2 * len(steps)
    places, elements = index[outer : outer + len(steps)], index[outer + len(steps) :]
    rows = zip(places, elements, steps, strict=True)
    return (*index[:outer], *(place * step + part * apart for place, part, (step, apart) in rows))


MOVES: Mapping[str, Callable[[Node, Indices], Indices]] = {
    "reshape": lambda node, index: reshaped_index(index, node.shape, node.operands[0].shape),
    "transpose": _transposed,
    "broadcast_to": lambda node, index: broadcast_index(index, node.operands[0].shape),
    "slice": _sliced,
    "flip": _flipped,
    "windows": _windowed,
}
"""Movement of one operand → the element of the operand that is at an index of the result."""


def place_of(node: Node, index: Indices) -> tuple[Node, Index]:
    """The input, and the place in it, from which an element is moved, of another type or not."""
    while node.name != INPUT:
        if node.name in MOVES:
            index = MOVES[node.name](node, index)
        (node,) = node.operands
    return node, linear(index, node.shape)


def first_of_run(gather: Node) -> tuple[Node, int] | None:
    """The first of a gather's ids, and the largest number that it may be, where the ids count up
    from it inside the table, as those of a slice do that begins anywhere; None for other ids.
    """
    table, ids = gather.operands
    if ids.name != "add" or len(ids.shape) != 1 or ids.element.name not in ("i32", "i64"):
        return None
    for line, start in (ids.operands, ids.operands[::-1]):
        if line.name == "iota" and line.shape == ids.shape and start.count == 1:
            low, high = _bound(start, "max"), _bound(start, "min")
            room = table.shape[gather.values["axis"]] - ids.count
            if low == 0 and high is not None and 0 <= high <= room:
                return start, high
    return None


def _bound(node: Node, name: str) -> int | None:
    """The number that a node, or what it is the least or the largest of, is compared with."""
    for _ in range(2):
        if node.name not in ("max", "min"):
            return None
        splats = [item for item in node.operands if item.name == SPLAT]
        others = [item for item in node.operands if item.name != SPLAT]
        if len(splats) != 1:
            return None
        if node.name == name:
            return int(splats[0].values["value"])
        (node,) = others
    return None


@dataclass(frozen=True)
class Place:
    """An element of an input, or zero: it is the input's where all `inside` tests hold, each of
    which says that an index, which may be negative, is an axis' of so many.
    """

    node: Node
    index: Index
    inside: tuple[tuple[Index, int], ...] = ()


def is_zero_padding(node: Node) -> bool:
    """Whether an operation surrounds its operand with zeros."""
    return node.name == "pad" and node.values["value"] == 0 and node.operands[0].count > 0


def padded_place_of(node: Node, index: Indices, clamps: bool = True) -> Place:
    """The same as `place_of`, through padding with zeros besides. The place is then clamped to what
    is padded, unless nothing is read where a test does not hold.
    """
    inside: list[tuple[Index, int]] = []
    while node.name != INPUT:
        (source,) = node.operands
        if is_zero_padding(node):
            index = tuple(
                part - low for part, (low, _) in zip(index, node.values["padding"], strict=True)
            )
            axes = list(zip(index, source.shape, strict=True))
            inside += [(part, size) for part, size in axes if part.low < 0 or part.high >= size]
            if clamps:
                index = tuple(part.clamp(0, size - 1) for part, size in axes)
        elif node.name in MOVES:
            index = MOVES[node.name](node, index)
        node = source
    return Place(node, linear(index, node.shape), tuple(inside))


def bounded(index: Index, limit: int, width: int) -> Index:
    """The start of a vector, a multiple of its width, clamped to an axis."""
    if index.high + width <= limit:
        return index
    return (index // width).clamp(0, limit // width - 1) * width
