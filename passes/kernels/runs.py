"""The axes along which a pointwise kernel walks over its elements, in the order of its results.

In: a body. Out: the sizes of the axes, whose product is the count of elements. A result may have
its elements from several axes as one: windows of an image, written as rows of a matrix, are `y · x`
places in a row. Within each axis, all that the body reads lies a stride apart, as far as the body's
moves say so; and neighbouring axes along which that goes on are one.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import prod
from operator import mul

from mgn.passes.kernels.body import Body, Node
from mgn.passes.kernels.index import Counter, Index
from mgn.passes.kernels.loads import is_plain, keeps_order, plain_loads
from mgn.passes.kernels.rows import RowSpace

Shape = tuple[int, ...]


def run_shape(body: Body) -> Shape:
    """The axes of the walk; those of the first result where its parts have no axes in common."""
    written = body.written[0]
    if not written.count:
        return written.shape
    shape = _refined(_shapes_in_order(written), written.shape)
    counters, loads = plain_loads(body, shape, counted=True)
    axes = [axis for axis in zip(shape, counters, strict=True) if axis[0] > 1]
    merged: list[tuple[int, Counter]] = []
    for size, counter in axes:
        if merged and all(_goes_on(index, merged[-1][1], counter, size) for _, index in loads):
            size *= merged.pop()[0]
        merged.append((size, counter))
    return tuple(size for size, _ in merged) or (1,)


def line_of_rows(body: Body, space: RowSpace) -> int:
    """How many elements of a row follow one another in all that its elements' results read: fewer
    than a row has where a number belongs to a part of it, as that of a channel in a group of them.
    """
    full = [node for node in body.written if space.is_full(node)]
    if not full or not space.length:
        return space.length
    line = run_shape(Body(body.inputs, full, body.nodes))[-1]
    return line if space.length % line == 0 else space.length


def _shapes_in_order(node: Node) -> list[Shape]:
    """The shapes of the values that have a result's elements in its order."""
    found: dict[Node, None] = {node: None}
    waiting = [node]
    while waiting:
        item = waiting.pop()
        if not keeps_order(item):
            continue
        for operand in item.operands:
            if operand.count == node.count and operand not in found:
                found[operand] = None
                waiting.append(operand)
    return list(dict.fromkeys(item.shape for item in found))


def _refined(shapes: Sequence[Shape], whole: Shape) -> Shape:
    """The axes that those of all shapes consist of; those of one where there are none such."""
    inner = {step for shape in shapes for step in accumulate(reversed(shape), mul)}
    steps = sorted(inner | {1, prod(whole)}, reverse=True)
    if prod(whole) == 0 or any(large % small for large, small in pairwise(steps)):
        return whole
    return tuple(large // small for large, small in pairwise(steps)) or (1,)


def _goes_on(index: Index, outer: Counter, inner: Counter, size: int) -> bool:
    """Whether a place goes on by the inner axis' stride where the outer one has a step."""
    strides = dict(index.terms)
    along = strides.get(inner, 0)
    return is_plain(index, outer, inner) and strides.get(outer, 0) == along * size
