"""A matmul node as schedules and templates see it: sizes, and index maps of its operands.

In: a body with one matmul. Out: its `Product`.
"""

from dataclasses import dataclass

from mgn.dialects.fusion.forms import HALVES
from mgn.dialects.mgn.operation import Kind
from mgn.dialects.types import ElementType
from mgn.passes.kernels.body import INPUT, SPLAT, Body, Indices, Node
from mgn.passes.kernels.index import Index
from mgn.passes.kernels.index_maps import broadcast_index, reshaped_index
from mgn.passes.kernels.pooled_products import ProductPool, product_pool


@dataclass(frozen=True)
class Product:
    """The sizes of a matmul node and the index maps of its operands and its result."""

    node: Node
    batch: tuple[int, ...]
    rows: int
    columns: int
    depth: int

    @staticmethod
    def of_body(body: Body) -> "Product":
        (node,) = body.of_kind(Kind.CONTRACTION)
        left, right = (operand.shape for operand in node.operands)
        rows = left[-1 if node.values["transpose_a"] else -2] if len(left) > 1 else 1
        depth = left[-2 if node.values["transpose_a"] else -1]
        columns = right[-2 if node.values["transpose_b"] else -1] if len(right) > 1 else 1
        own = (len(left) > 1) + (len(right) > 1)
        batch = node.shape[: len(node.shape) - own]
        pool = product_pool(body, node)
        if pool is not None:
            return PooledProduct(node, batch, rows, columns, depth, pool)
        kind = HalvedProduct if _halves_meet(body, node) else Product
        return kind(node, batch, rows, columns, depth)

    @property
    def halves(self) -> int:
        """How many parts of the columns are combined, the n-th columns of each: 2, or else 1."""
        return 1

    @property
    def interleaved(self) -> "Product":
        """The same, with columns that are combined as neighbours."""
        return self

    @property
    def pool(self) -> ProductPool | None:
        """How neighbouring rows or columns are combined behind the product, if they are."""
        return None

    @property
    def grouped(self) -> "Product":
        """The same with rows or columns that are combined as neighbours."""
        return self

    @property
    def element(self) -> ElementType:
        return self.node.element

    @property
    def left_runs_along_depth(self) -> bool:
        """Whether the left operand is in memory and its rows are contiguous."""
        left = self.node.operands[0]
        return lies_in_memory(left) and not self.node.values["transpose_a"]

    @property
    def right_runs_along_depth(self) -> bool:
        """Whether the right operand is in memory, packed or not, and its columns are contiguous."""
        right = self.node.operands[1]
        transposed = self.node.values["transpose_b"] or len(right.shape) == 1
        return transposed and (lies_in_memory(right) or is_unpacked(right))

    def left_index(self, batch: Indices, row: Index, k: Index) -> Indices:
        """The element of the left operand that a row takes at a step."""
        shape = self.node.operands[0].shape
        if len(shape) == 1:
            return (k,)
        own = (k, row) if self.node.values["transpose_a"] else (row, k)
        return (*broadcast_index(batch, shape[:-2]), *own)

    def right_index(self, batch: Indices, k: Index, column: Index) -> Indices:
        """The element of the right operand that a column takes at a step."""
        shape = self.node.operands[1].shape
        if len(shape) == 1:
            return (k,)
        own = (column, k) if self.node.values["transpose_b"] else (k, column)
        return (*broadcast_index(batch, shape[:-2]), *own)

    def operand_index(self, side: int, batch: Indices, own: Index, k: Index) -> Indices:
        """The element of operand 0 or 1 that a row or a column takes at a step."""
        return self.right_index(batch, k, own) if side else self.left_index(batch, own, k)

    def result_index(self, node: Node, batch: Indices, row: Index, column: Index) -> Indices:
        """The index of a value after the product that belongs to a row and a column. Columns that
        are combined have one result.
        """
        full = (*self.batch, self.rows, self.columns // self.halves)
        return reshaped_index((*batch, row, column), full, node.shape)


class HalvedProduct(Product):
    """A product whose kernel combines column n with column n + half, as a gated layer does."""

    @property
    def halves(self) -> int:
        return 2

    @property
    def interleaved(self) -> Product:
        return _Interleaved(self.node, self.batch, self.rows, self.columns, self.depth)


class _Interleaved(HalvedProduct):
    """The same with its columns reordered: columns n and n + half are neighbours."""

    def right_index(self, batch: Indices, k: Index, column: Index) -> Indices:
        return super().right_index(batch, k, column % 2 * (self.columns // 2) + column // 2)


@dataclass(frozen=True)
class PooledProduct(Product):
    """A product whose kernel combines few neighbouring rows or columns."""

    combines: ProductPool

    @property
    def pool(self) -> ProductPool | None:
        return self.combines

    @property
    def grouped(self) -> Product:
        pool, count = self.combines, self.combines.groups * self.combines.members
        rows, columns = (count, self.columns) if pool.combines_rows else (self.rows, count)
        return _Grouped(self.node, self.batch, rows, columns, self.depth, pool)


class _Grouped(PooledProduct):
    """The same with its rows, or columns, group by group: without those of no group."""

    def left_index(self, batch: Indices, row: Index, k: Index) -> Indices:
        own = self.combines.place(row) if self.combines.combines_rows else row
        return super().left_index(batch, own, k)

    def right_index(self, batch: Indices, k: Index, column: Index) -> Indices:
        own = column if self.combines.combines_rows else self.combines.place(column)
        return super().right_index(batch, k, own)


def lies_in_memory(node: Node) -> bool:
    """Whether a value is an input, in any shape, or an input of two bytes an element that is
    widened as it is read.
    """
    return lying_input(node) is not None


def lying_input(node: Node) -> Node | None:
    """The input as which a value lies in memory, element by element; None where it is computed."""
    node = _in_any_shape(node)
    if node.name == "cast" and node.element.name == "f32":
        (source,) = node.operands
        node = _in_any_shape(source) if source.element.name in HALVES else node
    return node if node.name == INPUT else None


def _in_any_shape(node: Node) -> Node:
    """What a value is a reshape of: all elements lie in the same order."""
    while node.name == "reshape":
        (node,) = node.operands
    return node


UNPACKING = frozenset(
    {"cast", "mul", "add", "sub", "floor", "reshape", "broadcast_to", "concat", "full", SPLAT}
)
"""What computes the values of a block format from its parts."""


def is_unpacked(node: Node) -> bool:
    """Whether a value is computed from less than half of its bytes, which lie in its order: a
    parameter of a block format.
    """
    inputs: set[Node] = set()
    pending = [node]
    while pending:
        item = pending.pop()
        if item.name == INPUT:
            inputs.add(item)
        elif item.name not in UNPACKING:
            return False
        else:
            pending.extend(item.operands)
    if not any(item.element.bits == 8 for item in inputs):
        return False
    read = sum(item.count * item.element.bytes for item in inputs)
    return 0 < 2 * read < node.count * node.element.bytes


def _halves_meet(body: Body, product: Node) -> bool:
    """Whether a body takes slices of a product's columns."""
    after = {product}
    for node in body.nodes:
        if not after.isdisjoint(node.operands):
            if node.name == "slice":
                return True
            after.add(node)
    return False


def values_of_rows(body: Body, product: Product) -> list[Node]:
    """The values, one for each row of the product, that a kernel computes and reads elsewhere."""
    reductions = body.of_kind(Kind.REDUCTION)
    if not reductions:
        return []
    outer = product.node.shape[:-1]
    beside = body.dependent_on(reductions) - body.dependent_on([product.node])
    rows = {node for node in beside if node.shape in (outer, (*outer, 1))}
    read = {item for node in body.nodes if node not in rows for item in node.operands}
    return [node for node in body.nodes if node in rows and node in read]


def statistics_bytes(body: Body, product: Product) -> int:
    """Local memory for what a kernel computes of a row of its product."""
    return sum(node.element.bytes for node in values_of_rows(body, product))
