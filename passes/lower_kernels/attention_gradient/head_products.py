"""The products of attention's gradient as any product's operands are read (staging/).

In: an operation, a key head, the numbers of two operands. Out: their product: rows of one times
lines of another, or of a tile of weights in registers and lines as steps.
"""

from dataclasses import dataclass

from mgn.dialects.mgn.operation import Kind
from mgn.passes.kernels.body import Indices, Node
from mgn.passes.kernels.index import Index
from mgn.passes.kernels.index_maps import broadcast_index
from mgn.passes.kernels.product import Product
from mgn.passes.lower_kernels.attention_gradient.node import AttentionGradient, K, Q, V


@dataclass(frozen=True)
class HeadProduct(Product):
    """The product of two operands of a key head; the right one's lines are columns, or steps."""

    attention: AttentionGradient
    head: Index
    numbers: tuple[int, int]
    by_columns: bool

    @staticmethod
    def of(
        attention: AttentionGradient, head: Index, numbers: tuple[int, int], by_columns: bool
    ) -> "HeadProduct":
        operands = tuple(attention.node.operands[number] for number in numbers)
        values = {"transpose_a": False, "transpose_b": by_columns}
        own = attention.node
        node = Node("matmul", Kind.CONTRACTION, operands, values, own.shape, own.element)
        length = attention.depth if numbers[1] in (Q, K) else attention.width
        columns, depth = attention.walked, length
        if not by_columns:
            columns, depth = depth, columns
        sizes = (attention.batch, attention.own, columns, depth)
        return HeadProduct(node, *sizes, attention, head, numbers, by_columns)

    def left_index(self, batch: Indices, row: Index, k: Index) -> Indices:
        return self._place(0, batch, row, k)

    def right_index(self, batch: Indices, k: Index, column: Index) -> Indices:
        line, own = (column, k) if self.by_columns else (k, column)
        return self._place(1, batch, line, own)

    def _place(self, side: int, batch: Indices, line: Index, column: Index) -> Indices:
        """The element of an operand in a line of its head."""
        attention, number = self.attention, self.numbers[side]
        size = attention.depth if number in (Q, K) else attention.width
        front = broadcast_index(batch, self.node.operands[side].shape[:-2])
        if number in (K, V):
            return (*front, line, self.head * size + column)
        head = self.head * attention.group + line % attention.group
        return (*front, attention.query(line), head * size + column)
