"""Where in memory an operand's elements lie, if it is moved from there but not computed.

In: an operand of a product, an index. Out: the buffer and the index of the element; or the axis
along which neighbours in memory belong to the right operand.
"""

from xdsl.ir import Block, SSAValue

from mgn.dialects.kernel_forms import MOVED
from mgn.dialects.mgn.operation import Kind
from mgn.passes.lower_kernels.body import INPUT, Indices, Node
from mgn.passes.lower_kernels.emission import Code
from mgn.passes.lower_kernels.evaluate import Evaluator
from mgn.passes.lower_kernels.index import Counter, Index, linear, of
from mgn.passes.lower_kernels.movement import MOVEMENT_ROWS
from mgn.passes.lower_kernels.product import Product
from mgn.passes.lower_kernels.template import Job

COLUMNS, DEPTH = "columns", "depth"
"""What neighbours in memory differ by."""


class Places(Evaluator):
    """Finds where in memory a rounded value lies, instead of loading it."""

    def __init__(self, code: Code, buffers: "list[SSAValue]", width: int) -> None:
        super().__init__(code, buffers, width)
        self.found: tuple[SSAValue, Index] | None = None

    def at(self, node: Node, index: Indices) -> SSAValue:
        if node.name == INPUT:
            self.found = self.buffers[node.number], linear(index, node.shape)
            return self.buffers[node.number]
        if node.kind is Kind.MOVEMENT:
            return MOVEMENT_ROWS[node.name](self, node, index)
        return self.at(node.operands[0], index)


def right_axis(job: Job, product: Product) -> str | None:
    """What neighbours in the right operand's memory differ by; None where it is computed."""
    node = product.node.operands[1]
    if not _is_moved(node) or len(node.shape) < 2:
        return None
    k = Counter(None, 0, product.depth - 1)
    column = Counter(None, 0, product.columns - 1)
    batch = tuple(of(Counter(None, 0, size - 1)) for size in product.batch)
    places = Places(Code(Block()), list(job.inputs), 1)
    places.at(node, product.right_index(batch, of(k), of(column)))
    assert places.found is not None
    strides = dict(places.found[1].terms)
    if strides.get(column) == 1:
        return COLUMNS
    return DEPTH if strides.get(k) == 1 else None


def _is_moved(node: Node) -> bool:
    """Whether a value is an input, moved or of another type."""
    while node.name in MOVED or node.name == "cast":
        node = node.operands[0]
    return node.name == INPUT
