"""Where in memory the inputs of a body are read for one element of its results.

In: a body. Out: each load's input and its place there, at an index of plain counters; whether a
place depends on counters by a stride alone; whether all values lie in the results' order.
"""

from collections.abc import Sequence

from mgn.dialects.mgn.operation import Kind
from mgn.passes.kernels.body import INPUT, SPLAT, Body, Indices, Node
from mgn.passes.kernels.index import (
    ZERO,
    Clamped,
    Counter,
    Index,
    Quotient,
    Remainder,
    linear,
    of,
)
from mgn.passes.kernels.index_maps import MOVES, broadcast_index, first_of_run, reshaped_index

Load = tuple[int, Index]
"""The number of an input, and a place in it."""

Part = tuple[Node, int]
"""An operand of a concatenation, and where it begins."""


COUNTED = -1
"""In the place of an input's number: the numbers of an `iota`, as of a table of them."""


def plain_loads(
    body: Body, shape: tuple[int, ...], counted: bool = False
) -> tuple[tuple[Counter, ...], list[Load]]:
    """What is loaded for the results' element at an index of plain counters, and these; `shape` may
    have other axes than the results. With `counted`, so is what is numbered along an axis.
    """
    counters, reader = _read(body, shape, counted)
    return counters, reader.loads


def row_breaks(body: Body, shape: tuple[int, ...]) -> list[int]:
    """The places along the innermost axis of a walk at which padding begins or ends, or another
    part of a concatenation begins.
    """
    counters, reader = _read(body, shape, counted=False)
    found: set[int] = set()
    for place, bound in (_unclamped(*test) for test in reader.tests):
        if place.terms == ((counters[-1], 1),):
            found.add(bound - place.constant)
        elif place.terms == ((counters[-1], -1),):
            found.add(place.constant - bound + 1)
    return sorted(number for number in found if 0 < number < shape[-1])


def _unclamped(index: Index, bound: int) -> tuple[Index, int]:
    """The same test of what is clamped around the bound."""
    ((atom, coefficient), *others) = index.terms
    own = bound - index.constant
    if others or coefficient != 1 or not isinstance(atom, Clamped):
        return index, bound
    return _unclamped(atom.inner, own) if atom.low < own <= atom.high else (index, bound)


def _read(
    body: Body, shape: tuple[int, ...], counted: bool
) -> tuple[tuple[Counter, ...], "_Reader"]:
    """Follows the results' element at an index of plain counters; these, and what was found."""
    counters = tuple(Counter(None, 0, size - 1) for size in shape)
    reader, index = _Reader(counted), tuple(of(counter) for counter in counters)
    for node in body.written:
        reader.at(node, reshaped_index(index, shape, node.shape))
    return counters, reader


class _Reader:
    """Follows the indices of a body's values down to its inputs, and notes which of them are asked
    whether they are below a bound.
    """

    def __init__(self, counted: bool) -> None:
        self._counted = counted
        self.loads: list[Load] = []
        self.tests: list[tuple[Index, int]] = []
        self._seen: set[tuple[Node, Indices]] = set()

    def at(self, node: Node, index: Indices) -> None:
        """Notes the loads for an element of a node."""
        if (node, index) in self._seen:
            return
        self._seen.add((node, index))
        if node.name == INPUT:
            self.loads.append((node.number, linear(index, node.shape)))
        elif node.name == "iota":
            if self._counted:
                self.loads.append((COUNTED, index[node.values["axis"]]))
        elif node.name == "pad":
            self._pad(node, index)
        elif node.name == "concat":
            self._concat(node, index)
        elif node.name == "gather":
            self._gather(node, index)
        elif node.name == "run_bounds":
            self._anywhere(node, index)
        elif node.name in MOVES:
            self.at(node.operands[0], MOVES[node.name](node, index))
        elif node.name not in (SPLAT, "full") and node.kind is not Kind.REDUCTION:
            for operand in node.operands:
                self.at(operand, broadcast_index(index, operand.shape))

    def _pad(self, node: Node, index: Indices) -> None:
        """The operand's nearest element, where any index may have one."""
        (source,) = node.operands
        if not source.count:
            return
        lows = [low for low, _ in node.values["padding"]]
        moved = [part - low for part, low in zip(index, lows, strict=True)]
        before = [part.below(low) for part, low in zip(index, lows, strict=True)]
        inside = [part.below(size) for part, size in zip(moved, source.shape, strict=True)]
        if True in before or False in inside:
            return
        sides = zip(index, moved, lows, source.shape, strict=True)
        for (part, inner, low, size), *known in zip(sides, before, inside, strict=True):
            self._note(part, low, known[0])
            self._note(inner, size, known[1])
        if any(test is not False for test in before) or any(test is not True for test in inside):
            sizes = source.shape
            moved = [part.clamp(0, size - 1) for part, size in zip(moved, sizes, strict=True)]
        self.at(source, tuple(moved))

    def _note(self, index: Index, bound: int, known: object) -> None:
        if not isinstance(known, bool):
            self.tests.append((index, bound))

    def _concat(self, node: Node, index: Indices) -> None:
        axis, start = node.values["axis"], 0
        parts: list[Part] = []
        for operand in node.operands:
            if operand.shape[axis]:
                parts.append((operand, start))
            start += operand.shape[axis]
        self._parts(parts, axis, index)

    def _parts(self, parts: Sequence[Part], axis: int, index: Indices) -> None:
        """The parts that may have the element."""
        if len(parts) == 1:
            operand, start = parts[0]
            moved = list(index)
            moved[axis] = (index[axis] - start).clamp(0, operand.shape[axis] - 1)
            self.at(operand, tuple(moved))
            return
        lower, upper = parts[: len(parts) // 2], parts[len(parts) // 2 :]
        test = index[axis].below(upper[0][1])
        self._note(index[axis], upper[0][1], test)
        if test is not False:
            self._parts(lower, axis, index)
        if test is not True:
            self._parts(upper, axis, index)

    def _gather(self, node: Node, index: Indices) -> None:
        table, ids = node.operands
        axis, rank = node.values["axis"], len(ids.shape)
        run = first_of_run(node)
        if run is not None:
            start, most = run
            self.at(start, (ZERO,) * len(start.shape))
            picked = of(Counter(None, 0, most)) + index[axis]
        else:
            self.at(ids, index[axis : axis + rank])
            picked = of(Counter(None, 0, table.shape[axis] - 1))
        self.at(table, (*index[:axis], picked, *index[axis + rank :]))

    def _anywhere(self, node: Node, index: Indices) -> None:
        """Any element along the axis."""
        (source,), axis = node.operands, node.values["axis"]
        if source.shape[axis]:
            picked = of(Counter(None, 0, source.shape[axis] - 1))
            self.at(source, (*index[:axis], picked, *index[axis + 1 :]))


def is_plain(index: Index, *counters: Counter) -> bool:
    """Whether an index depends on counters in no other way than by a stride."""
    return not any(
        isinstance(atom, Quotient | Remainder | Clamped) and _mentions(atom.inner, counter)
        for atom, _ in index.terms
        for counter in counters
    )


def _mentions(index: Index, counter: Counter) -> bool:
    return any(
        atom is counter
        or (isinstance(atom, Quotient | Remainder | Clamped) and _mentions(atom.inner, counter))
        for atom, _ in index.terms
    )


def is_flat(body: Body, shape: tuple[int, ...]) -> bool:
    """Whether every value has the results' elements in the results' order, or is one number."""
    count = body.written[0].count
    for node in body.nodes:
        if node.count != 1 and (node.count != count or not keeps_order(node)):
            return False
    return True


def keeps_order(node: Node) -> bool:
    """Whether a value has its operands' elements in their order."""
    return node.kind is Kind.ELEMENTWISE or node.name in (INPUT, "reshape", "full", "splat")


def in_place_pairs(body: Body) -> tuple[tuple[int, int], ...]:
    """Inputs read only at the element being written: (input, result) positions of arguments."""
    pairs: list[tuple[int, int]] = []
    moved = _read_elsewhere(body)
    for source in body.inputs:
        if source in moved or source not in body.nodes:
            continue
        for number, written in enumerate(body.written):
            if source.count == written.count and source.element.bytes == written.element.bytes:
                pairs.append((source.number, len(body.inputs) + number))
    return tuple(pairs)


def _read_elsewhere(body: Body) -> set[Node]:
    """Nodes evaluated at another element than the one written."""
    count = body.written[0].count
    moved: set[Node] = set()
    for node in reversed(body.nodes):
        keeps = node not in moved and node.count == count and keeps_order(node)
        for operand in node.operands:
            if not keeps or operand.count != count:
                moved.add(operand)
    return moved
