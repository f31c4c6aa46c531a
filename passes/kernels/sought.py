"""Reductions that look for where a row's extreme is: only who has met it has to look again.

In: a reduction such as that of `argmax`, which is the least index of the elements that are the
row's largest one, or NaN. Out: the reduction that it seeks. A work-item whose own elements come to
less has none of them, and nothing but the reduction's first number to give. Where the index is an
element's place in its row, nobody looks again who has noted when the extreme came first.
"""

from collections.abc import Sequence

from mgn.passes.kernels.accumulation import neutral
from mgn.passes.kernels.body import SPLAT, Node
from mgn.passes.kernels.rows import RowSpace

EXTREMES = ("max_reduce", "min_reduce")

TRIP_BYTES = 4
"""Bytes of the number of a trip through a row."""


def sought_by(node: Node) -> Node | None:
    """The extreme that is sought by a reduction, if it is such a one."""
    if node.name not in EXTREMES or node.operands[0].name != "where":
        return None
    test, _, other = node.operands[0].operands
    if other.name not in (SPLAT, "full"):
        return None
    if other.values["value"] != neutral(node.name, node.element):
        return None
    for part in test.operands if test.name == "logical_or" else (test,):
        if part.name == "eq":
            return _extreme_of(test, *part.operands)
    return None


def _extreme_of(test: Node, left: Node, right: Node) -> Node | None:
    """The side that is an extreme of the other, where nothing else but NaN passes the test."""
    for extreme, value in ((left, right), (right, left)):
        if extreme.name in EXTREMES and extreme.operands[0] is value:
            others = [part for part in test.operands if test.name == "logical_or"]
            known = all(
                (part.name == "eq" and set(part.operands) == {left, right})
                or (part.name == "isnan" and part.operands[0] is value)
                for part in others
            )  # fmt: skip
            return extreme if known else None
    return None


def first_places(stages: Sequence[Sequence[Node]], space: RowSpace) -> dict[Node, Node]:
    """Reductions that seek the first place of a row's extreme and nothing else, each with its
    extreme. Both are found alone.
    """
    alone = [nodes[0] for nodes in stages if len(nodes) == 1]
    sought = [(node, _whose_first_place(node, space)) for node in alone]
    return {node: extreme for node, extreme in sought if extreme is not None and extreme in alone}


def _whose_first_place(node: Node, space: RowSpace) -> Node | None:
    """The extreme whose first place in its row a reduction seeks, NaN counted as one, if it is such
    a reduction.
    """
    extreme = sought_by(node)
    if extreme is None or node.name != "min_reduce":
        return None
    test, place, _ = node.operands[0].operands
    if not _is_place(place, space):
        return None
    tells_nan = any(part.name == "isnan" for part in test.operands)
    return extreme if tells_nan or not extreme.element.is_float else None


def _is_place(node: Node, space: RowSpace) -> bool:
    """Whether a value is the place of each element in its row, in integers that count trips too."""
    if node.name != "iota" or node.element.is_float or node.element.bytes < TRIP_BYTES:
        return False
    axis, before = node.values["axis"], len(space.shape) - len(node.shape)
    return space.reduced == (axis + before,) and node.shape[axis] == space.length
