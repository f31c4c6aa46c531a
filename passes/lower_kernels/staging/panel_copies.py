"""Copying tiles of a product's operands into local memory, by all work-items of a group.

In: an operand, the first row or column of its tile, a block of the shared axis. Out: values in
registers, and later their stores. The time between hides the memory's latency. In local memory the
rows or columns of a step lie side by side. What comes before the product is evaluated as it is
read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd

from xdsl.ir import SSAValue

from mgn.passes.kernels.index import Index
from mgn.passes.kernels.product import Product
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.core.operand import Operand
from mgn.passes.lower_kernels.core.pure_code import lane_of
from mgn.passes.lower_kernels.staging.held_operand import HeldOperand
from mgn.passes.lower_kernels.staging.pieces import Pieces
from mgn.passes.lower_kernels.staging.tile_copies import Spot
from mgn.passes.schedules.product.local_tiles import Tiling

WARP, VECTOR = 32, 4
"""Work-items that run together, and elements of a vector of local memory that lie in its banks."""

NEIGHBOURS, BANKS = 8, 32
"""Rows from which the work-items of a warp read vectors, where a tile is transposed and not
swizzled. They are few, since each is a line of memory. They are enough that the stores of one lane
use a bank of local memory twice at most. The second number is that of banks of four bytes.
"""


@dataclass
class Panel:
    """The tile of one operand: `size` rows or columns of `limit`, from `first` on.

    `by_depth` says that memory runs along the shared axis; then vectors of it are transposed.
    `base` and `stride` place it within a stage of local memory.

    `beside` is how many vectors of a row the work-items of a warp read, where the transposed tile
    is swizzled: whole lines of memory. The stores of one lane of these vectors then go to as many
    steps of some rows. So that they use every bank once, rows lie in another order at each step.
    """

    code: Code
    size: int
    limit: int
    first: Index
    by_depth: bool
    base: int
    stride: int
    beside: int

    def place(self, step: Index, own: Index) -> Index:
        """Where local memory holds a row or column at a step, within a stage."""
        if not self.beside:
            return step * self.stride + own + self.base
        vectors, turns = self.size // VECTOR, BANKS // VECTOR // self.beside
        key = step // VECTOR % self.beside * turns
        swizzled = self.code.exclusive_or(own // VECTOR, key, vectors)
        return step * self.stride + swizzled * VECTOR + own % VECTOR + self.base


def left_panel(code: Code, product: Product, sizes: Tiling, first: Index) -> Panel:
    """The rows of a tile."""
    shape = product.node.operands[0].shape
    by_depth = not (product.node.values["transpose_a"] and len(shape) > 1)
    own = (sizes.tile_rows, product.rows)
    return _panel(code, product, sizes, own, first, by_depth, 0)


def right_panel(code: Code, product: Product, sizes: Tiling, first: Index) -> Panel:
    """The columns of a tile."""
    by_depth = bool(product.node.values["transpose_b"]) or len(product.node.operands[1].shape) == 1
    base = sizes.steps * (sizes.tile_rows + sizes.padding)
    own = (sizes.tile_columns, product.columns)
    return _panel(code, product, sizes, own, first, by_depth, base)


def _panel(
    code: Code,
    product: Product,
    sizes: Tiling,
    own: tuple[int, int],
    first: Index,
    by_depth: bool,
    base: int,
) -> Panel:
    size, limit = own
    whole = sizes.width == VECTOR and product.depth % VECTOR == 0 and size % BANKS == 0
    beside = gcd(sizes.steps // VECTOR, BANKS // VECTOR) if whole and by_depth else 0
    stride = size if beside else size + sizes.padding
    return Panel(code, size, limit, first, by_depth, base, stride, beside)


@dataclass
class Copier:
    """Copies one panel; `place` is the work-item's number in its group."""

    operand: Operand
    sizes: Tiling
    panel: Panel
    place: Index

    @property
    def width(self) -> int:
        """Elements read at once: what divides the axis that memory runs along."""
        along = self.operand.product.depth if self.panel.by_depth else self.panel.limit
        width = self.sizes.width
        while along % width or (not self.panel.by_depth and self.panel.size % width):
            width //= 2
        return width

    @cached_property
    def pieces(self) -> Pieces:
        """The vectors of the tile."""
        vectors = self.sizes.steps * self.panel.size // self.width
        return Pieces(self.operand.job.code, vectors, self.sizes.items, self.place)

    def _spot(self, number: Index) -> Spot:
        """The step and the row or column where a vector begins."""
        panel, width = self.panel, self.width
        if not panel.by_depth:
            across = panel.size // width
            return number // across, number % across * width
        across, beside = self.sizes.steps // width, panel.beside or WARP // NEIGHBOURS
        rows = WARP // beside
        if width == 1 or across % beside or panel.size % rows:
            return number % across * width, number // across
        warp = number // WARP
        step = (warp % (across // beside) * beside + number % beside) * width
        return step, warp // (across // beside) * rows + number // beside % rows

    @cached_property
    def held(self) -> HeldOperand:
        """The operand as it waits in registers."""
        return HeldOperand(self.operand, self.width, self.panel.by_depth, self.panel.limit)

    @property
    def count(self) -> int:
        """Vectors of a block that wait in a work-item's registers."""
        return self.pieces.turns * self.held.count

    def read(self, block: Index) -> list[SSAValue]:
        """What this work-item copies of a block of the shared axis, as it waits in registers."""
        spots = [self._spot(self.pieces.number(turn)) for turn in range(self.pieces.turns)]
        return [value for spot in spots for value in self.held.read(*self._element(block, *spot))]

    def write(
        self, block: Index, values: Sequence[SSAValue], memory: SSAValue, stage: Index
    ) -> None:
        """Stores what was read of a block into the stage that begins at an element of `memory`."""
        count = self.held.count
        for turn in range(self.pieces.turns):
            own, spot = values[turn * count :][:count], self._spot(self.pieces.number(turn))
            value = self.held.finish(*self._element(block, *spot), list(own))
            self.pieces.inside(
                turn, lambda spot=spot, value=value: self._store(spot, value, memory, stage)
            )

    def _element(self, block: Index, step: Index, own: Index) -> tuple[Index, Index]:
        """The row or column of the operand and the step that a spot of a block's tile is."""
        return self.panel.first + own, block * self.sizes.steps + step

    def _store(self, spot: Spot, value: SSAValue, memory: SSAValue, stage: Index) -> None:
        panel, width, code = self.panel, self.width, self.operand.job.code
        step, own = spot
        if not panel.by_depth or width == 1:
            target = stage + panel.place(step, own)
            code.store(value, memory, code.index(target), target.multiple)
            return
        for lane in range(width):
            target = stage + panel.place(step + lane, own)
            code.store(lane_of(code, value, lane), memory, code.index(target))
