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


def noted_extremes(stages: Sequence[Sequence[Node]], space: RowSpace) -> list[Node]:
    """Extremes of rows that are found alone, and whose first place is all that another reduction,
    alone too, seeks.
    """
    alone = [nodes[0] for nodes in stages if len(nodes) == 1]
    return [extreme for node in alone if (extreme := _first_place_of(node, space)) in alone]


def _first_place_of(node: Node, space: RowSpace) -> Node | None:
    """The extreme whose first place in its row a reduction seeks, NaN counted as one, if it is such
    a reduction.
    """
    extreme = sought_by(node)
    if extreme is None or node.name != "min_reduce":
        return None
    test, place, _ = node.operands[0].operands
    if place.name != "iota" or len(place.shape) != len(space.shape):
        return None
    if tuple(space.reduced) != (place.values["axis"],) or not space.is_full(node.operands[0]):
        return None
    return extreme if test.name == "logical_or" or not extreme.element.is_float else None
