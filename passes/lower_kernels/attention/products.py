"""The two products of attention: scores, rows by keys, and sums, rows by columns of values.

In: an attention and a key head. Out: its products, whose operands all templates read as those of
any product (operand.py): queries, keys and values.
"""

from dataclasses import dataclass

from mgn.dialects.mgn.operation import Kind
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.body import Indices, Node
from mgn.passes.kernels.index import Index
from mgn.passes.kernels.index_maps import broadcast_index
from mgn.passes.kernels.product import Product
from mgn.passes.lower_kernels.attention.node import Attention
from mgn.passes.lower_kernels.core.operand import RIGHT, Operand
from mgn.passes.lower_kernels.core.template import Job
from mgn.passes.schedules.attention.matrix import UNIT_COLUMNS

QUAD = 4
"""Neighbouring work-items that have the same rows of a result."""


def _product_node(attention: Attention, left: Node, right: Node, transposed: bool) -> Node:
    values = {"transpose_a": False, "transpose_b": transposed}
    node = attention.node
    return Node("matmul", Kind.CONTRACTION, (left, right), values, node.shape, node.element)


@dataclass(frozen=True)
class Scores(Product):
    """Queries times keys of one key head.

    Where `paired`, columns 2 n and 2 n + 1 of eight are keys n and n + 4. The layout of the scores
    as a result is then their layout as an operand of 32-bit numbers, and no work-item moves one.
    """

    attention: Attention
    head: Index
    paired: bool

    @staticmethod
    def of(attention: Attention, head: Index, paired: bool = False) -> "Scores":
        q, k = attention.node.operands[:2]
        node = _product_node(attention, q, k, True)
        columns = ceil_div(attention.keys, UNIT_COLUMNS) * UNIT_COLUMNS
        sizes = (attention.batch, attention.rows, columns, attention.depth)
        return Scores(node, *sizes, attention, head, paired)

    def left_index(self, batch: Indices, row: Index, k: Index) -> Indices:
        shape = self.node.operands[0].shape
        return (*broadcast_index(batch, shape[:-2]), *self.attention.query_place(self.head, row, k))

    def right_index(self, batch: Indices, k: Index, column: Index) -> Indices:
        shape = self.node.operands[1].shape
        key = self.key(column).clamp(0, self.attention.keys - 1)
        return (*broadcast_index(batch, shape[:-2]), key, self.head * self.depth + k)

    def key(self, column: Index) -> Index:
        """The key of a column."""
        if not self.paired:
            return column
        own = column % UNIT_COLUMNS
        return column // UNIT_COLUMNS * UNIT_COLUMNS + own // 2 + own % 2 * (UNIT_COLUMNS // 2)


@dataclass(frozen=True)
class Sums(Product):
    """Weights times values of one key head. The weights stay in registers."""

    attention: Attention
    head: Index

    @staticmethod
    def of(attention: Attention, head: Index) -> "Sums":
        v = attention.node.operands[2]
        sizes = (attention.batch, attention.rows, attention.width, attention.keys)
        return Sums(_product_node(attention, v, v, False), *sizes, attention, head)

    def right_index(self, batch: Indices, k: Index, column: Index) -> Indices:
        shape = self.node.operands[1].shape
        own = (k, self.head * self.attention.width + column)
        return (*broadcast_index(batch, shape[:-2]), *own)


@dataclass(frozen=True)
class Operands:
    """The queries, keys and values of a key head of a batch."""

    queries: Operand
    keys: Operand
    values: Operand

    @staticmethod
    def of(job: Job, attention: Attention, batch: Indices, head: Index) -> "Operands":
        queries, keys = Operand.both(job, Scores.of(attention, head), batch)
        return Operands(queries, keys, Operand(job, Sums.of(attention, head), batch, RIGHT))
