"""Views by strides as views by axes, which mgn has.

In: an FX graph that AOT autograd has made. Out: the same graph. A view by strides that sees each
element of a tensor once, or repeats it along axes, becomes a view, a permutation and an expansion.
A value that is scattered over all of a tensor takes the tensor's place. Other views stay as they
are.
"""

from collections.abc import Sequence
from typing import Any

from mgn.frontend.torch.library import library
from mgn.torch.lying import dense_order, lies_plainly, numbers


def without_strides(graph: Any) -> None:
    """Rewrites a graph's views by strides."""
    for node in list(graph.nodes):
        name = str(node.target)
        if name == "aten.as_strided.default":
            _view(graph, node)
        elif name == "aten.as_strided_scatter.default":
            _scatter(graph, node)


def _order(sizes: Sequence[int], strides: Sequence[int]) -> list[int]:
    """The axes as they lie in memory, the outermost first."""
    return sorted(range(len(sizes)), key=lambda axis: (-strides[axis], axis))


def _all_in_order(value: Any) -> list[int] | None:
    """The axes of a tensor as they lie; None where it is not known to be all of its memory."""
    if not isinstance(value, library("torch._subclasses").FakeTensor) or value.storage_offset():
        return None
    if lies_plainly(value):
        return list(range(value.ndim))
    found = dense_order(value)
    return None if found is None else list(found)


def _view(graph: Any, node: Any) -> None:
    whole, seen = node.args[0].meta.get("val"), node.meta.get("val")
    aten = library().ops.aten
    if numbers(whole) == numbers(seen) and whole.storage_offset() == seen.storage_offset():
        node.target, node.args, node.kwargs = aten.alias.default, (node.args[0],), {}
        return
    lying = _all_in_order(whole)
    if lying is None or seen.storage_offset():
        return
    strides = seen.stride()
    sizes = [1 if step == 0 else size for size, step in zip(seen.shape, strides, strict=True)]
    order = _order(sizes, strides)
    if not _fills(sizes, strides, order, whole.numel()):
        return
    with graph.inserting_before(node):
        flat = _added(graph, aten.permute.default, node.args[0], lying)
        flat = _added(graph, aten.reshape.default, flat, [sizes[axis] for axis in order])
        turned = _added(
            graph, aten.permute.default, flat, [order.index(axis) for axis in range(len(order))]
        )
    node.target, node.args = aten.expand.default, (turned, list(seen.shape))
    node.kwargs = {}


def _scatter(graph: Any, node: Any) -> None:
    whole, source = node.args[0].meta.get("val"), node.args[1]
    sizes, strides = list(node.args[2]), list(node.args[3])
    offset = node.args[4] if len(node.args) > 4 else None
    order = _order(sizes, strides)
    if _all_in_order(whole) is None or not lies_plainly(whole) or offset:
        return
    if not _fills(sizes, strides, order, whole.numel()):
        return
    aten = library().ops.aten
    with graph.inserting_before(node):
        laid = _added(graph, aten.permute.default, source, order)
    node.target, node.args = aten.reshape.default, (laid, list(whole.shape))
    node.kwargs = {}


def _fills(sizes: Sequence[int], strides: Sequence[int], order: Sequence[int], count: int) -> bool:
    """Whether axes in that order see so many elements that lie side by side, each once."""
    step = 1
    for axis in reversed(order):
        if sizes[axis] != 1 and strides[axis] != step:
            return False
        step *= sizes[axis]
    return step == count


def _added(graph: Any, target: Any, first: Any, second: list[int]) -> Any:
    """A call more, with what it gives; what it is given where it would change nothing."""
    value = first.meta["val"]
    if target is library().ops.aten.permute.default and second == list(range(value.ndim)):
        return first
    made = graph.call_function(target, (first, second))
    with value.fake_mode:
        made.meta["val"] = target(value, second)
    return made
