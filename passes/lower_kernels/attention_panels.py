"""The operands of attention on a matrix unit, and the sizes of their tiles in local memory.

In: an attention whose operands are rounded to what the unit multiplies. Out: its two products as
panels (tensor_panels.py) see products: scores, rows by keys, and sums, rows by columns of values.
"""

from dataclasses import dataclass

from mgn.dialects.mgn.operation import Kind
from mgn.dialects.types import ELEMENT_TYPES, ElementType
from mgn.passes.choose_schedules import ENLARGED_MEMORY
from mgn.passes.lower_kernels.attention_node import Attention
from mgn.passes.lower_kernels.body import Indices, Node
from mgn.passes.lower_kernels.index import Index
from mgn.passes.lower_kernels.movement import broadcast_index
from mgn.passes.lower_kernels.product import Product
from mgn.passes.lower_kernels.template import Job, ceil_div, turns
from mgn.passes.lower_kernels.tensor_tiling import (
    CHUNK_BYTES,
    LINE_CHUNKS,
    STEP_CHUNKS,
    SUB_GROUP,
    TensorTiling,
)

UNIT_ROWS, UNIT_COLUMNS = 16, 8
"""Rows and columns of an instruction's result."""

STAGES = 2
"""Tiles of keys and values in local memory: one is copied while the other is multiplied."""

KEYS_BYTES = 128
"""Keys of a tile, times the bytes of an element: so many scores of a row fit into registers."""

QUAD = 4
"""Neighbours that hold the same rows of a result."""


def held_element(name: str) -> ElementType:
    """What an operand takes in local memory."""
    return ELEMENT_TYPES["f32" if name == "tf32" else name]


def _product_node(attention: Attention, left: Node, right: Node, transposed: bool) -> Node:
    values = {"transpose_a": False, "transpose_b": transposed}
    node = attention.node
    return Node("matmul", Kind.CONTRACTION, (left, right), values, node.shape, node.element)


@dataclass(frozen=True)
class Scores(Product):
    """Queries times keys of one key head.

    Where `paired`, columns 2 n and 2 n + 1 of eight are keys n and n + 4: then the scores that a
    work-item holds are what it must hold of them as an operand of 32-bit numbers.
    """

    attention: Attention
    head: Index
    paired: bool

    @staticmethod
    def of(attention: Attention, head: Index, paired: bool) -> "Scores":
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
        """The key that a column is of."""
        if not self.paired:
            return column
        own = column % UNIT_COLUMNS
        return column // UNIT_COLUMNS * UNIT_COLUMNS + own // 2 + own % 2 * (UNIT_COLUMNS // 2)


@dataclass(frozen=True)
class Sums(Product):
    """Weights times values of one key head; the weights are never in memory."""

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
class MatrixTiling:
    """A group has `warps` sub-groups of 16 rows each, and walks over tiles of `keys` keys.

    With `groups`, four sub-groups together multiply from local memory.
    """

    warps: int
    keys: int
    depth: int
    width: int
    element_bytes: int
    groups: bool = False

    @property
    def is_possible(self) -> bool:
        """Whether groups, if there are any, find whole lines of what they multiply."""
        lines = min(self.depth_line, self.width_line, self.keys) * self.element_bytes
        whole = lines >= LINE_CHUNKS * CHUNK_BYTES and self.warps % 4 == 0
        return not self.groups or (whole and self.element_bytes == 2)

    @property
    def items(self) -> int:
        return SUB_GROUP * self.warps

    @property
    def rows(self) -> int:
        return UNIT_ROWS * self.warps

    @property
    def step(self) -> int:
        """Steps of the shared axis of one instruction."""
        return STEP_CHUNKS * CHUNK_BYTES // self.element_bytes

    def _line(self, length: int) -> int:
        """Elements of a line in local memory: a power of two of chunks, or whole lines."""
        chunks = ceil_div(length * self.element_bytes, CHUNK_BYTES)
        if chunks > LINE_CHUNKS:
            chunks = ceil_div(chunks, LINE_CHUNKS) * LINE_CHUNKS
        else:
            chunks = max(1 << (chunks - 1).bit_length(), STEP_CHUNKS)
        return chunks * CHUNK_BYTES // self.element_bytes

    @property
    def depth_line(self) -> int:
        return self._line(self.depth)

    @property
    def width_line(self) -> int:
        return self._line(self.width)

    @property
    def queries_size(self) -> int:
        return self.rows * self.depth_line

    @property
    def keys_size(self) -> int:
        return self.keys * self.depth_line

    @property
    def stage(self) -> int:
        """Elements of a tile of keys and values."""
        return self.keys_size + self.keys * self.width_line

    @property
    def queries(self) -> int:
        """Where the queries lie: where the second tile will, or behind all."""
        return STAGES * self.stage if self.groups else self.stage

    @property
    def memory(self) -> int:
        """Elements of local memory."""
        return max(STAGES * self.stage, self.queries + self.queries_size)

    @property
    def memory_bytes(self) -> int:
        return self.memory * self.element_bytes

    def panel(self, length: int) -> TensorTiling:
        """The sizes of a panel whose shared axis is so long in local memory."""
        chunks = length * self.element_bytes // CHUNK_BYTES
        return TensorTiling(
            self.warps, 1, UNIT_ROWS, self.keys, 1, chunks, STAGES, self.element_bytes
        )


@dataclass(frozen=True)
class Shape:
    """A tiling, how many groups of it a compute unit holds, and the share of the best rate that it
    reaches: with one group there, and with as many as there is room for.
    """

    warps: int
    resident: int
    alone: float
    crowded: float
    groups: bool = False


SHAPES = (
    Shape(8, 2, 0.75, 1.50, True),
    Shape(4, 4, 0.55, 1.55, True),
    Shape(4, 3, 0.40, 1.00),
    Shape(2, 6, 0.25, 0.95),
    Shape(1, 12, 0.13, 0.80),
)
"""Measured on an NVIDIA H200 with heads of 64 and 128."""


def least_room(depth: int, width: int, name: str) -> int:
    """Bytes of local memory that the smallest tiling takes for heads of those sizes."""
    element_bytes, warps = held_element(name).bytes, min(shape.warps for shape in SHAPES)
    keys = KEYS_BYTES // element_bytes
    return MatrixTiling(warps, keys, depth, width, element_bytes).memory_bytes


def matrix_tiling(job: Job, attention: Attention, name: str) -> MatrixTiling | None:
    """The tiling that takes the least time; None where heads are too large for all."""
    units = job.number("units", 1)
    enlarged = job.schedule.get("matrix_unit") == "wgmma"
    room = ENLARGED_MEMORY if enlarged else job.number("local_memory", 1 << 15)
    found: list[tuple[float, MatrixTiling]] = []
    for shape in SHAPES:
        tiling = MatrixTiling(
            warps=job.number("tile_down", shape.warps),
            keys=job.number("tile_keys", KEYS_BYTES // held_element(name).bytes),
            depth=attention.depth,
            width=attention.width,
            element_bytes=held_element(name).bytes,
            groups=bool(job.number("groups", int(shape.groups))),
        )
        if not tiling.is_possible or (tiling.groups and not enlarged):
            continue
        resident = min(room // tiling.memory_bytes, shape.resident)
        if not resident or (attention.in_parts and attention.part_keys % tiling.keys):
            continue
        share = ceil_div(ceil_div(attention.rows, tiling.rows) * attention.groups, units)
        found.append((tiling.rows * turns(share, resident, shape.alone, shape.crowded), tiling))
    return min(found, key=lambda item: item[0])[1] if found else None
