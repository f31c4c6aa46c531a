"""A walk of attention's gradient on a matrix unit: a sub-group has 16 rows of its own in registers.

In: an operation whose operands are numbers that the unit multiplies, so that products are exact in
f32. Out: copies of the tiles that are walked, each while the one before is multiplied, and the
products of own rows and lines. What is made of them is in matrix_totals.py and matrix_sums.py.
"""

import math as numbers

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.index import Index, constant
from mgn.passes.lower_kernels.attention.mask import FragmentMask, Seen
from mgn.passes.lower_kernels.attention.products import QUAD
from mgn.passes.lower_kernels.attention.weights import HELD, Weights
from mgn.passes.lower_kernels.attention_gradient.head_products import HeadProduct
from mgn.passes.lower_kernels.attention_gradient.node import (
    LSE,
    OWN,
    AttentionGradient,
    G,
    HeadOperands,
    K,
    Q,
    V,
    at,
)
from mgn.passes.lower_kernels.core.pure_code import memory_type
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.product.sub_group_product import INSTRUCTIONS
from mgn.passes.lower_kernels.staging.pieces import Pieces
from mgn.passes.lower_kernels.staging.tensor_panels import Panel
from mgn.passes.schedules.attention.gradient_matrix import MatrixWalk
from mgn.passes.schedules.attention.matrix import STAGES, UNIT_COLUMNS, UNIT_ROWS
from mgn.passes.schedules.product.matrix_tiles import SUB_GROUP
from mgn.passes.schedules.product.operand_copies import held_element

OWN_ROWS = 2
"""Rows of a result that a work-item holds; the second is 8 further."""

BLOCK, MOST_TILES = 64, 128
"""Tiles of a block of a long walk. A walk of at most so many tiles stays one loop."""

Vectors = list[SSAValue]


def _seen(attention: AttentionGradient) -> Seen:
    """What is walked that a row needs: keys that a query sees, or queries that see a key."""
    if not attention.of_keys:
        return Seen.of(attention)
    sizes = (attention.rows, attention.window > 0, int(attention.causal))
    return Seen(*sizes, attention.first_row, attention.row_limit)


class MatrixWalking:
    """A group with its rows, at what it walks."""

    def __init__(self, job: Job, attention: AttentionGradient, name: str) -> None:
        self.job, self.attention, self.code, self.name = job, attention, job.code, name
        self.sizes = MatrixWalk.of(job.schedule, attention, name)
        self.weights = Weights(job.code, attention.element, name)
        code, sizes = self.code, self.sizes
        self.memory = code.local(memory_type(held_element(name)), sizes.memory)
        self.products_of = range(1 if attention.of_totals else 2)
        self.one_of: list[SSAValue] = []
        if attention.of_keys:
            self.one_of = [code.local(f32, STAGES * sizes.tile.keys) for _ in (LSE, OWN)]

    def write(self) -> Launch:
        """Writes the kernel."""
        attention, sizes, code = self.attention, self.sizes.tile, self.code
        blocks = ceil_div(attention.own, sizes.rows)
        groups = blocks * attention.groups
        group = code.counter(kernel.GroupIdOp, 0, groups)
        self.place = code.counter(kernel.LocalIdOp, 0, sizes.items)
        block = group // attention.groups
        if attention.causal and not attention.of_keys:
            block = block * -1 + (blocks - 1)
        _, self.batch, self.head = attention.place(group % attention.groups)
        self.first_row = block * sizes.rows
        self.lane = self.place % SUB_GROUP
        own = self.place // SUB_GROUP * UNIT_ROWS + self.lane // QUAD
        self.own_rows = [self.first_row + own + which * 8 for which in range(OWN_ROWS)]
        self.rows = [code.bounded(row, attention.own) for row in self.own_rows]
        self.operands = HeadOperands(self.job, attention, self.batch, self.head)
        seen = _seen(attention)
        self.mask = FragmentMask(code, seen, self.rows, self.lane, sizes.keys, sizes.keys, False)
        self.first_tile, self.count = self._visited()
        self._copy(constant(0))
        self.held = self._own_fragments()
        self.write_results()
        return Launch((groups * sizes.items,), (sizes.items,))

    def write_results(self) -> None:
        """Walks, and writes what that comes to."""
        raise NotImplementedError

    def _visited(self) -> tuple[Index, Index]:
        """The first tile that some row of the group needs, and how many there are."""
        attention, code, keys = self.attention, self.code, self.sizes.tile.keys
        seen = _seen(attention)
        first = code.bounded(self.first_row, attention.own)
        last = code.bounded(self.first_row + (self.sizes.tile.rows - 1), attention.own)
        begin, end = at(seen.first(first)), at(seen.limit(last))
        tiles = ceil_div(attention.walked, keys)
        first_tile = code.bounded(begin // keys, tiles)
        count = (end + (keys - 1)) // keys - first_tile
        return first_tile, count.clamp(0, tiles)

    # Operands

    @property
    def _own(self) -> tuple[int, int]:
        return (K, V) if self.attention.of_keys else (Q, G)

    @property
    def walked(self) -> tuple[int, int]:
        """The operands that are walked."""
        return (Q, G) if self.attention.of_keys else (K, V)

    def line(self, which: int) -> int:
        """Numbers of a line in local memory."""
        return (self.sizes.tile.depth_line, self.sizes.tile.width_line)[which]

    def length(self, which: int) -> int:
        """Numbers of a line."""
        return (self.attention.depth, self.attention.width)[which]

    def base(self, which: int) -> int:
        """Where the lines of a product begin in a stage."""
        return which * self.sizes.tile.keys_size

    def _scored(self, which: int) -> HeadProduct:
        """The product of own rows and lines."""
        numbers_of = (self._own[which], self.walked[which])
        return HeadProduct.of(self.attention, self.head, numbers_of, True)

    def _lines(self, which: int, turn: Index) -> Panel:
        """A tile of lines as columns of scores, as it is copied."""
        sizes, attention = self.sizes.tile, self.attention
        product = self._scored(which)
        tile = (self.name, 1, sizes.keys, attention.walked)
        own = (self.batch, self.place, self.job, (self.first_tile + turn) * sizes.keys)
        return Panel(
            product, sizes.panel(self.line(which)), *tile, *own, self.base(which), self.memory
        )

    def _own_fragments(self) -> list[Vectors]:
        """The sub-group's fragments of its rows, of both products."""
        attention, sizes, code = self.attention, self.sizes.tile, self.code
        panels: list[Panel] = []
        for which in self.products_of:
            base = self.sizes.own + which * sizes.queries_size
            tile = (self.name, 0, sizes.rows, attention.own, self.batch, self.place)
            tiling = sizes.panel(self.line(which))
            own = (self.job, self.first_row, base, self.memory)
            panel = Panel(self._scored(which), tiling, *tile, *own)
            panel.copy(constant(0), constant(0), panel.read(constant(0)))
            panels.append(panel)
        code.effect(kernel.CommitCopiesOp, [])
        code.block.add_op(kernel.WaitCopiesOp(0))
        code.barrier()
        row = self.place // SUB_GROUP * UNIT_ROWS
        return [
            [
                panel.operands(constant(0), row, UNIT_ROWS, constant(step))[0]
                for step in range(ceil_div(self.length(which), sizes.step))
            ]
            for which, panel in zip(self.products_of, panels, strict=True)
        ]

    def stage(self, turn: Index) -> Index:
        """Where a tile begins."""
        return turn % STAGES * self.sizes.tile.stage

    def _copy(self, turn: Index) -> None:
        """Copies a tile into its stage, and of queries what each has one of."""
        for which in self.products_of:
            panel = self._lines(which, turn)
            panel.copy(constant(0), self.stage(turn), panel.read(constant(0)))
        if not self.one_of:
            return
        code, attention, sizes = self.code, self.attention, self.sizes.tile
        pieces = Pieces(code, sizes.keys, sizes.items, self.place)

        def one(number: int) -> None:
            line = code.bounded(pieces.number(number), pieces.count)
            row = (self.first_tile + turn) * sizes.keys + line
            own = code.bounded(row, attention.walked)
            total, sent = (self.operands.of_row(n, own, 1) for n in (LSE, OWN))
            none = code.constant(numbers.inf, f32)
            total = code.select(code.is_below(row, attention.walked, 1), total, none)
            place = code.index(turn % STAGES * sizes.keys + line)
            for value, memory in zip((total, sent), self.one_of, strict=True):
                code.store(value, memory, place)

        for number in range(pieces.turns):
            pieces.inside(number, lambda number=number: one(number))

    # A tile

    def arrive(self, turn: Index) -> Index:
        """Waits for a tile, and starts to copy the next one. Gives the tile's first line."""
        code, later = self.code, turn + 1
        code.block.add_op(kernel.WaitCopiesOp(0))
        code.barrier()
        inside = code.compare_integers("slt", code.index(later), code.index(self.count))
        code.when(inside, lambda: self._copy(later))
        code.effect(kernel.CommitCopiesOp, [])
        return (self.first_tile + turn) * self.sizes.tile.keys

    def products(self, which: int, turn: Index) -> Vectors:
        """Own rows times the lines of a tile."""
        code, keys = self.code, self.sizes.tile.keys
        panel = self._lines(which, turn)
        totals = [code.constant(0, f32, HELD)] * (keys // UNIT_COLUMNS)
        for step, row in enumerate(self.held[which]):
            fragments = panel.operands(self.stage(turn), constant(0), keys, constant(step))
            totals = [
                self.multiply(row, fragment, total)
                for fragment, total in zip(fragments, totals, strict=True)
            ]
        return totals

    def multiply(self, left: SSAValue, right: SSAValue, held: SSAValue) -> SSAValue:
        """The unit's product of two fragments, added to a result."""
        op = kernel.MmaOp(INSTRUCTIONS[self.name], left, right, held)
        self.code.block.add_op(op)
        return op.result
