"""How a CPU's product is cut: register tiles, the block of a work-item, steps at a time.

In: the sizes of a product, a request. Out: a `Blocking` whose buffers fit into
local memory. The template and the price model ask for the same one.
"""

from dataclasses import dataclass, fields
from math import prod

from mgn.dialects.mgn.operation import Kind
from mgn.passes.kernels.accumulation import accumulator
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.body import Body, Node
from mgn.passes.kernels.index import Index
from mgn.passes.kernels.long_chains import sets_of_totals
from mgn.passes.kernels.product import Product
from mgn.passes.schedules.core.schedule import Entries, Request

LONGEST_VECTOR = 16

SIMPLE_EPILOGUE = 3
"""Up to how many operations after the product are written out for each vector of a tile."""

PANELS = "panels"
"""The schedule's word for a right operand that lies in memory as panels."""

TRANSFORMED = "transformed"
"""The same for filters that lie in memory transformed, in panels."""

LEFT_PADDING = 16
"""Elements between rows of a packed left tile: rows a power of two apart share a cache's sets."""

BLOCKS_A_UNIT = 4
"""Blocks that each compute unit should have, so that none waits long for the last."""

FEWEST_DOWN = 4
"""Tiles of a block, one below the other, that are worth a packed block of the right operand."""


NAMES = (
    *("width", "tile_vectors", "tile_rows", "tiles_down", "tiles_across", "block_depth"),
    *("copies_left", "copies_right"),
)
"""What a schedule calls the numbers of a blocking."""


@dataclass
class Blocking:
    """Sizes: `rows` x `vectors` of `width` lanes a register tile, `down` x `across` of those a
    work-item, `depth` steps of the shared axis at a time. `copies_left` and `copies_right` say
    which operands are packed into local memory; the others are read where they lie. A register tile
    has as many vectors of each of the `halves` of the columns, which are `apart`.
    """

    width: int
    vectors: int
    rows: int
    down: int
    across: int
    depth: int
    copies_left: bool
    copies_right: bool
    halves: int = 1
    apart: int = 0

    @staticmethod
    def of(entries: Entries, product: Product) -> "Blocking":
        """The blocking that a schedule says for a product."""
        width, vectors, rows, down, *rest = (int(entries[name]) for name in NAMES)
        across, depth, left, right = rest
        tiles = (width, vectors, rows, down, across, depth)
        apart = product.columns // product.halves
        return Blocking(*tiles, bool(left), bool(right), product.halves, apart)

    @property
    def entries(self) -> dict[str, int]:
        """The entries of a schedule that say it."""
        tiles = (self.width, self.vectors, self.rows, self.down, self.across, self.depth)
        numbers = (*tiles, int(self.copies_left), int(self.copies_right))
        return dict(zip(NAMES, numbers, strict=True))

    @property
    def columns(self) -> int:
        return self.vectors * self.width

    @property
    def span(self) -> int:
        """Columns of a register tile that lie side by side."""
        return self.columns // self.halves

    def vector(self, first: Index, j: Index | int) -> Index:
        """The column where vector `j` of a register tile begins."""
        own = self.vectors // self.halves
        if own == self.vectors:
            return first + j * self.width
        return first + j % own * self.width + j // own * self.apart


@dataclass(frozen=True)
class Extent:
    """The facts of a product that decide how it is cut: its sizes and the bytes of a sum. Rows of
    the left operand may be readable where they lie, and panels of the right one. Sums may leave
    registers in any case. A register tile has whole groups of `together` rows.
    """

    batches: int
    rows: int
    columns: int
    depth: int
    halves: int = 1
    sum_bytes: int = 4
    left_lies_ready: bool = True
    in_panels: bool = False
    keeps_totals: bool = False
    together: int = 1


@dataclass(frozen=True)
class Limits:
    """The entries of a request that bound a blocking."""

    lanes: int = 16
    tile_vectors: int = 2
    tile_rows: int = 8
    block_rows: int = 256
    block_columns: int = 256
    block_depth: int = 512
    units: int = 2
    local_memory: int = 256 * 1024

    @staticmethod
    def of(entries: Entries) -> "Limits":
        names = [field.name for field in fields(Limits)]
        return Limits(**{name: int(entries[name]) for name in names if name in entries})


def packed_blocking(request: Request, product: Product) -> Blocking:
    """The blocking of a product with what follows it."""
    limits = Limits.of(request.entries)
    extent = Extent(
        prod(product.batch),
        product.rows,
        product.columns,
        product.depth,
        product.halves,
        accumulator(product.element).bytes,
        _left_lies_ready(product),
        request.word("right") == PANELS and _are_tiles(product, limits),
        not is_simple(request.body, product),
        product.pool.members if product.pool else 1,
    )
    return cut_product(extent, limits)


def is_simple(body: Body, product: Product) -> bool:
    """Whether what follows a product is written out for each vector of a tile: else sums leave
    registers in any case.
    """
    after = body.dependent_on([product.node])
    return sum(node.kind is Kind.ELEMENTWISE for node in after) <= SIMPLE_EPILOGUE


def cut_product(product: Extent, limits: Limits) -> Blocking:
    """The blocking of a product of some sizes."""
    width, vectors = _tile_vectors(product.columns // product.halves, product.halves, limits)
    own = vectors // product.halves
    rows = tile_rows(product.rows, limits.tile_rows, vectors, product.together)
    tiles_down = ceil_div(product.rows, rows)
    tiles_across = ceil_div(product.columns // product.halves, own * width)
    steps = limits.block_depth // (1 if product.in_panels else 2)
    sizes = Blocking(
        width,
        vectors,
        rows,
        down=max(1, min(limits.block_rows // rows, tiles_down)),
        across=max(1, min(limits.block_columns // (vectors * width), tiles_across)),
        depth=(product.in_panels and panel_steps(product.depth, steps))
        or block_depth(product.depth, steps),
        copies_left=True,
        copies_right=not product.in_panels,
        halves=product.halves,
        apart=product.columns // product.halves,
    )
    wanted = BLOCKS_A_UNIT * limits.units

    def is_small_enough() -> bool:
        blocks = ceil_div(tiles_down, sizes.down) * ceil_div(tiles_across, sizes.across)
        return blocks * product.batches >= wanted

    while sizes.down * sizes.across > 1 and not is_small_enough():
        _halve(sizes)
    sizes.copies_left = sizes.across > 1 or not product.left_lies_ready
    _fit(sizes, product, limits.local_memory)
    sizes.down, sizes.across = evenly(tiles_down, sizes.down), evenly(tiles_across, sizes.across)
    return sizes


def _tile_vectors(columns: int, halves: int, limits: Limits) -> tuple[int, int]:
    """Lanes of a vector and vectors of a register tile, by the columns of each half."""
    width = limits.lanes
    while width > columns:
        width //= 2
    return width, halves * max(1, min(limits.tile_vectors // halves, columns // width))


def evenly(count: int, most: int) -> int:
    """The size of as many blocks as blocks of the most tiles would be, but of like size."""
    return ceil_div(count, ceil_div(count, most))


def may_lie_in_panels(right: Node) -> bool:
    """Whether panels may hold a right operand: a matrix of a type whose sums are its own."""
    return len(right.shape) == 2 and accumulator(right.element) is right.element


def panels_of(product: Product) -> Node:
    """The input that holds the right operand in panels: blocks, panels, steps and columns."""
    node = product.node.operands[1]
    while node.operands:
        node = node.operands[0]
    return node


def _are_tiles(product: Product, limits: Limits) -> bool:
    """Whether panels can be read for register tiles: not where the last panel overlaps and is not a
    tile.
    """
    width, vectors = _tile_vectors(product.columns // product.halves, product.halves, limits)
    held = panels_of(product).shape[-1]
    return width * vectors == held or product.columns % held == 0


def tile_rows(rows: int, most: int, vectors: int, together: int = 1) -> int:
    """Rows of a register tile, so that the tiles of all rows take the fewest multiplications: whole
    groups of so many, of which `most` has one.

    A step of a tile multiplies once a row and vector, and reads its vectors besides.
    """
    most = min(most, rows) // together * together
    return min(
        range(most, max(most // 2, together) - 1, -together),
        key=lambda count: ceil_div(rows, count) * (count + 1) * vectors,
    )


def _left_lies_ready(product: Product) -> bool:
    """Whether rows of the left operand may be read where they are."""
    return product.left_runs_along_depth and accumulator(product.element) is product.element


def block_depth(depth: int, most: int) -> int:
    """Steps at a time: all where they are at most twice as many as wanted, else whole vectors, in
    blocks of like size, rather without a rest.
    """
    blocks = 1 if depth <= 2 * most else ceil_div(depth, most)
    for count in range(blocks, 2 * blocks + 1):
        if depth % (count * LONGEST_VECTOR) == 0:
            return depth // count
    even = ceil_div(ceil_div(depth, blocks), LONGEST_VECTOR) * LONGEST_VECTOR
    return max(min(even, depth), 1)


def panel_steps(depth: int, most: int) -> int | None:
    """Steps of a panel, all of like size: blocks as they are cut, where these have no rest; else up
    to twice as many steps in whole vectors, else fewer. None where no number divides the axis so.
    """
    steps = block_depth(depth, most)
    if steps and depth % steps == 0:
        return steps
    blocks = ceil_div(depth, most)
    longer = [depth // count for count in range(blocks - 1, ceil_div(blocks, 2), -1)
              if depth % (count * LONGEST_VECTOR) == 0]  # fmt: skip
    shorter = [depth // count for count in range(blocks, 4 * blocks) if depth % count == 0]
    return next(iter(longer + shorter), None)


def _halve(sizes: Blocking) -> None:
    """Makes a block smaller: along its longer side, seen in elements, but rather narrower where
    each block packs the right operand.
    """
    is_tall = sizes.down * sizes.rows >= sizes.across * sizes.columns and not sizes.copies_right
    if sizes.down > 1 and (is_tall or sizes.across == 1):
        sizes.down = ceil_div(sizes.down, 2)
    else:
        sizes.across = ceil_div(sizes.across, 2)


def _fit(sizes: Blocking, product: Extent, memory: int) -> None:
    """Makes a block smaller until local memory holds what it needs there."""
    room = memory // product.sum_bytes
    keeps_totals = product.keeps_totals or sizes.depth < product.depth

    def right() -> int:
        return sizes.across * sizes.columns * sizes.depth if sizes.copies_right else 0

    def needed() -> int:
        left = sizes.rows * (sizes.depth + LEFT_PADDING) if sizes.copies_left else 0
        totals = sizes.down * sizes.rows * sizes.across * sizes.columns if keeps_totals else 0
        return left + right() + totals * (1 + sets_of_totals(product.depth))

    while needed() > room:
        if sizes.across > 1 and 2 * right() > room:
            sizes.across -= 1
        elif sizes.down > FEWEST_DOWN:
            sizes.down -= 1
        elif sizes.across > 1:
            sizes.across -= 1
        elif sizes.depth > LONGEST_VECTOR:
            sizes.depth = max(sizes.depth // 2 // LONGEST_VECTOR, 1) * LONGEST_VECTOR
            keeps_totals = True
        elif sizes.down > 1:
            sizes.down -= 1
        else:
            break
