"""The axis along which a product's right operand is contiguous, where it lies in memory."""

from mgn.dialects.fusion.forms import MOVED
from mgn.passes.kernels.body import INPUT, Node
from mgn.passes.kernels.index import Counter, of
from mgn.passes.kernels.index_maps import place_of
from mgn.passes.kernels.product import Product, is_unpacked

COLUMNS, DEPTH = "columns", "depth"
"""The axes of a right operand, in which neighbours in memory may differ."""

CONVERTED = frozenset({"cast", "round_tf32"})
"""What may be done to each element as it is read."""


def right_axis(product: Product) -> str | None:
    """The axis in which neighbours in the right operand's memory differ; None if it is computed,
    but for what is unpacked on the way.
    """
    node = product.node.operands[1]
    if is_unpacked(node) and product.right_runs_along_depth:
        return DEPTH
    if not _is_moved(node) or len(node.shape) < 2:
        return None
    k = Counter(None, 0, product.depth - 1)
    column = Counter(None, 0, product.columns - 1)
    batch = tuple(of(Counter(None, 0, size - 1)) for size in product.batch)
    _, place = place_of(node, product.right_index(batch, of(k), of(column)))
    strides = dict(place.terms)
    if strides.get(column) == 1:
        return COLUMNS
    return DEPTH if strides.get(k) == 1 else None


def _is_moved(node: Node) -> bool:
    """Whether a value is an input, moved, of another type or rounded."""
    while node.name in MOVED or node.name in CONVERTED:
        node = node.operands[0]
    return node.name == INPUT
