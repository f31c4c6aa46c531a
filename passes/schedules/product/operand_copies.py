"""How operands of a product come to a matrix unit: past the registers, or computed on the way.

In: an operand of a product and the sizes of its tile. Out: whether it lies in memory as the unit
takes it, and how many of its elements are copied at once.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

from mgn.dialects.fusion.forms import MOVED
from mgn.dialects.types import ElementType
from mgn.passes.kernels.arithmetic import dividing_lanes
from mgn.passes.kernels.body import INPUT, Indices, Node
from mgn.passes.kernels.index import Counter, Index, lanes, of
from mgn.passes.kernels.index_maps import Place, bounded, is_zero_padding, padded_place_of
from mgn.passes.kernels.product import Product
from mgn.passes.schedules.core.schedule import Request
from mgn.passes.schedules.product.matrix_tiles import (
    DEEP_BYTES,
    LINE_CHUNKS,
    TensorTiling,
    any_tiling,
    held_element,
)


def lies_in_memory(node: Node, name: str) -> bool:
    """Whether a rounded value is moved, but not computed, from memory that can be copied. What is
    rounded to tf32 in a half type before is computed.
    """
    rounds = "round_tf32" if name == "tf32" else "cast"
    while _is_moved(node) or node.name == rounds:
        node = node.operands[0]
        if node.element.name == name:
            break
    while _is_moved(node):
        node = node.operands[0]
    return node.name == INPUT and node.element.name == ("f32" if name == "tf32" else name)


def _is_moved(node: Node) -> bool:
    """Whether a value is another one, moved or surrounded with zeros."""
    return node.name in MOVED or is_zero_padding(node)


def computes_windows(node: Node) -> bool:
    """Whether windows are computed on their way from memory, if only rounded."""
    has_windows = computed = False
    while node.name != INPUT and node.operands:
        has_windows |= node.name == "windows"
        computed |= not _is_moved(node)
        node, *others = node.operands
        if others and computed:
            break
    return has_windows and computed


@dataclass
class OperandCopies:
    """The tile of one operand: `size` rows or columns of `limit`; `place` is the work-item's number
    in its group. `by_depth` says that lines run along the shared axis.
    """

    product: Product
    sizes: TensorTiling
    name: str
    operand: int
    size: int
    limit: int
    batch: Indices
    place: Index

    @property
    def node(self) -> Node:
        return self.product.node.operands[self.operand]

    @cached_property
    def by_depth(self) -> bool:
        return self.runs_by_depth

    @cached_property
    def runs_by_depth(self) -> bool:
        """Whether the operand itself runs along the shared axis."""
        flag = ("transpose_a", "transpose_b")[self.operand]
        return bool(self.product.node.values[flag]) == (self.operand == 1)

    @property
    def element(self) -> ElementType:
        """What a number takes in local memory."""
        return held_element(self.name)

    @property
    def along(self) -> int:
        """Chunks of the tile along its lines."""
        return self.sizes.chunks if self.by_depth else self.size // self.sizes.chunk

    @property
    def lines(self) -> int:
        return self.size if self.by_depth else self.sizes.depth

    def index_of(self, own: Index, k: Index) -> Indices:
        """The operand's element of a row or column at a step."""
        return self.product.operand_index(self.operand, self.batch, own, k)

    @cached_property
    def asynchronous(self) -> bool:
        """Whether copies go past the registers."""
        return lies_in_memory(self.node, self.name) and self.width * self.element.bytes >= 4

    @property
    def whole(self) -> bool:
        """Whether all of it is copied past the registers, a chunk at a time."""
        return self.asynchronous and self.width == self.sizes.chunk

    @cached_property
    def width(self) -> int:
        """Elements that are copied at once: aligned, and inside the operand or outside."""
        limit = self.product.depth if self.runs_by_depth else self.limit
        width = dividing_lanes(limit, self.sizes.chunk)
        if not lies_in_memory(self.node, self.name):
            return width
        line = of(Counter(None, 0, self.lines - 1))
        while width > 1:
            index = self.source(line, self.place * width, width).index
            if index.lane_stride == 1 and index.at_lane(0).multiple % width == 0:
                break
            width //= 2
        return width

    def source(self, line: Index, start: Index, width: int, clamps: bool = True) -> Place:
        """The input and the place in it of an element of the operand and those after it."""
        own, k = self.bounds(line, start, width)
        return padded_place_of(self.node, self.index_of(own, k), clamps)

    def bounds(self, line: Index, start: Index, width: int) -> tuple[Index, Index]:
        """Row or column, and step, brought inside the operand; lanes run along the line."""
        if self.runs_by_depth:
            own = bounded(line, self.limit, 1)
            return own, bounded(start, self.product.depth, width) + lanes(width)
        k = bounded(line, self.product.depth, 1)
        return bounded(start, self.limit, width) + lanes(width), k


@lru_cache(maxsize=16)
def _any_copies(product: Product, name: str) -> tuple[OperandCopies, OperandCopies]:
    sizes = any_tiling(held_element(name).bytes)
    batch = tuple(of(Counter(None, 0, size - 1)) for size in product.batch)
    place = of(Counter(None, 0, sizes.items - 1))
    return (
        OperandCopies(product, sizes, name, 0, sizes.tile_rows, product.rows, batch, place),
        OperandCopies(product, sizes, name, 1, sizes.tile_columns, product.columns, batch, place),
    )


def suits_unit(request: Request, product: Product, name: str) -> bool:
    """Whether a unit can take the operands: without groups, smaller pieces than 4 bytes take longer
    than they save.
    """
    return by_groups(request) or in_pieces(product, name)


def by_groups(request: Request) -> bool:
    """Whether four sub-groups may multiply together."""
    return request.word("matrix_unit") == "wgmma"


def in_pieces(product: Product, name: str) -> bool:
    """Whether operands come in pieces of 4 bytes at least."""
    least = 4 // held_element(name).bytes
    return all(copies.width >= least for copies in _any_copies(product, name))


def copied_whole(request: Request, product: Product, name: str) -> bool:
    """Whether groups find their operands in memory as they multiply them."""
    whole = all(copies.whole for copies in _any_copies(product, name))
    return whole and (name != "tf32" or "rounded" in request.entries)


def copied_in_lines(request: Request, product: Product, name: str) -> bool:
    """The same of products whose columns, too, lie along the shared axis."""
    return copied_whole(request, product, name) and _any_copies(product, name)[1].runs_by_depth


STAGED = {16: 1.4, 8: 1.5, 4: 3.0, 2: 5.0}
"""Bytes of an operand that are copied at once → the time of a product whose operands pass through
registers, in the time of one whose operands do not.
"""


def staged_operands(request: Request, product: Product, name: str) -> dict[int, int]:
    """The operands that groups do not find as they multiply them → the bytes copied at once."""
    ready = _ready_operands(product, name)
    if name == "tf32" and "rounded" not in request.entries:
        ready = ()
    return {
        copies.operand: copies.width * copies.element.bytes
        for copies in _any_copies(product, name)
        if copies.operand not in ready
    }


def ready_once_rounded(product: Product, name: str) -> tuple[int, ...]:
    """The operands that groups would find as they multiply them if they were rounded before."""
    return _ready_operands(product, name) if name == "tf32" else ()


def _ready_operands(product: Product, name: str) -> tuple[int, ...]:
    """The operands that are copied whole, along the shared axis where the unit asks for that."""
    return tuple(
        copies.operand
        for copies in _any_copies(product, name)
        if copies.whole
        and product.depth % copies.sizes.chunk == 0
        and (name != "tf32" or copies.runs_by_depth)
    )


def is_computed(product: Product, name: str) -> bool:
    """Whether an operand is computed on its way to the unit."""
    return not all(lies_in_memory(operand, name) for operand in product.node.operands)


def fills_stages(product: Product, name: str) -> bool:
    """Whether many blocks of both operands may be on their way at once. Those of windows are not:
    finding their places and what surrounds them takes longer than a block is waited for.
    """
    length = product.depth * held_element(name).bytes
    windows = any(_is_of_windows(operand) for operand in product.node.operands)
    return length >= DEEP_BYTES and not windows and not is_computed(product, name)


def _is_of_windows(node: Node) -> bool:
    """Whether a value is windows that slide over another, moved or not."""
    while _is_moved(node):
        if node.name == "windows":
            return True
        node = node.operands[0]
    return False


def has_whole_lines(product: Product, name: str, tiling: TensorTiling) -> bool:
    """Whether lines across the shared axis are whole parts, or divide one: chunks of other lines
    would lie in the places of others.
    """
    sizes = (tiling.tile_rows, tiling.tile_columns)
    across = [
        size // tiling.chunk
        for size, copies in zip(sizes, _any_copies(product, name), strict=True)
        if not copies.runs_by_depth
    ]
    return all(count % LINE_CHUNKS == 0 or LINE_CHUNKS % count == 0 for count in across)


def has_rows_in_order(product: Product, name: str) -> bool:
    """Whether the work-items of a sub-group have rows of results in order: numbers of 32 bits do
    not where lines of a tile are steps of the shared axis.
    """
    return name != "tf32" or all(item.runs_by_depth for item in _any_copies(product, name))


def may_keep_rows(request: Request, product: Product, name: str) -> bool:
    """Whether a tile's rows are worth to be kept: computed on the way, the shared axis along."""
    left, _ = _any_copies(product, name)
    return by_groups(request) and left.runs_by_depth and not left.asynchronous


def staged_factor(request: Request, product: Product, name: str) -> float:
    """How much longer a product on a unit takes than one whose operands lie as it takes them."""
    if not by_groups(request) or is_computed(product, name):
        return 1.0
    staged = staged_operands(request, product, name)
    return max((STAGED[bytes] for bytes in staged.values()), default=1.0)
