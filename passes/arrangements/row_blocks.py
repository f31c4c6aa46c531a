"""Sums down columns, cut so that a kernel of rows may add up its own block of them.

Before:
    %y = fusion.kernel reduction (%a = %x : tensor<16384x4096xf32>) -> (tensor<4096xf32>) {
      %0 = mgn.sum(%a) axis = [0] : (tensor<16384x4096xf32>) -> tensor<4096xf32>
      fusion.return %0 : tensor<4096xf32>
    }
After:
    %p = fusion.kernel row_blocks (%a = %x : tensor<16384x4096xf32>) -> (tensor<256x4096xf32>) {
      %0 = mgn.block_sums(%a) rows = 64, leading = 1 : …
      fusion.return %0 : tensor<256x4096xf32>
    }
    %y = fusion.kernel reduction (%a = %p : tensor<256x4096xf32>) -> (tensor<4096xf32>) {
      … mgn.sum …
    }

The first kernel is worth little by itself. It may be one with a kernel that goes over the same
rows, as that of a norm's gradient: `passes/saturate/horizontal_fusion/column_joins.py`. Sums of
half precision are kept in f32.
"""

from dataclasses import dataclass

from xdsl.ir import SSAValue

from mgn.dialects.fusion import KernelKind
from mgn.dialects.fusion.forms import BLOCK_SUMS
from mgn.dialects.kernel import Device
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import shape_of
from mgn.dialects.mgn.operation import Kind, TensorOp
from mgn.dialects.types import element_of
from mgn.passes.arrangements.kernel_pieces import KernelPieces, Made, as_element
from mgn.passes.arrangements.split_reductions import BUSY, LEAST_ELEMENTS
from mgn.passes.kernels.accumulation import accumulator
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.schedules.reduction.row_blocks import (
    GROUP_ITEMS,
    MOST_ITEMS,
    MOST_ROWS,
    RESIDENT_ITEMS,
    TILE_SHARES,
    row_shares,
)

VECTOR, WORDS = 4, 4
"""Elements that a work-item reads at once, and words that it holds for each of a row that is
reduced: two inputs and two sums.
"""

LEAST_TURNS, MOST_TURNS = 4, 128
"""Rows that a sum passes through: with fewer, what blocks come to is much; more are no short chain
of additions.
"""

SLACK = 8
"""By which part of them blocks may be larger where they are whole then."""

BLOCKS_A_UNIT = 8
"""Blocks that each unit of a CPU should have."""


def choose_block(rows: int, length: int, reduces: bool, device: Device) -> int | None:
    """How many rows a block should have; None where the device would be idle, or little is read.

    `reduces` says that the kernel of blocks also reduces rows, and so has them whole.
    """
    if rows * length < LEAST_ELEMENTS:
        return None
    if device.is_cpu:
        found = min(MOST_TURNS, rows // (BLOCKS_A_UNIT * device.compute_units))
        return _dividing(rows, found, 1) if found >= LEAST_TURNS else None
    if reduces:
        vectors = ceil_div(length, VECTOR)
        shares, tiles = row_shares(vectors, VECTOR, WORDS, MOST_ITEMS), 1
    else:
        shares = TILE_SHARES
        tiles = ceil_div(length, VECTOR * TILE_SHARES)
    if shares is None:
        return None
    side_by_side = max(GROUP_ITEMS // shares, 1)
    wanted = device.compute_units * max(RESIDENT_ITEMS // (side_by_side * shares), 1)
    turns = ceil_div(rows * tiles, wanted * side_by_side)
    found = side_by_side * min(max(turns, LEAST_TURNS), MOST_TURNS)
    found = _dividing(rows, min(found, MOST_ROWS), side_by_side)
    groups = ceil_div(rows, found) * tiles
    return found if groups >= BUSY * device.compute_units and 2 * found <= rows else None


def _dividing(rows: int, found: int, step: int) -> int:
    """Rows of blocks that are whole, where there are such a little larger."""
    near = range(found, found + found // SLACK + 1, step)
    return next((count for count in near if rows % count == 0), found)


@dataclass(frozen=True)
class SumsOfBlocks:
    """Sums over the first axes, which are first made of blocks of so many rows."""

    rows: int
    leading: int

    @property
    def text(self) -> str:
        return f"sums of columns by {self.rows} rows"

    def write(self, pieces: KernelPieces) -> None:
        sums = [
            op
            for op in pieces.fused.block.ops
            if isinstance(op, TensorOp) and op.spec.kind is Kind.REDUCTION
        ]
        partial = pieces.add(
            KernelKind.ROW_BLOCKS,
            [op.operands[0] for op in sums],
            finish=lambda b, values: [self._of_blocks(b, value) for value in values],
        )
        made = [
            Made(op, [value], lambda b, parts, op=op: self._whole(b, op, parts[0]))
            for op, value in zip(sums, partial, strict=True)
        ]
        pieces.finish(KernelKind.REDUCTION, made)

    def _of_blocks(self, b: Emitter, value: SSAValue) -> SSAValue:
        value = as_element(b, value, accumulator(element_of(value.type)))
        return b.call(BLOCK_SUMS, value, rows=self.rows, leading=self.leading)

    def _whole(self, b: Emitter, op: TensorOp, partial: SSAValue) -> SSAValue:
        """A sum, of what blocks come to: these are on the first axis, others are reduced."""
        axes, (blocks, *rest) = op.values["axis"], shape_of(partial)
        if len(axes) > 1:
            partial = b.reshape(partial, [blocks, *(1 for _ in axes[1:]), *rest])
        value = b.sum(partial, axis=list(axes), keepdims=op.values["keepdims"])
        return as_element(b, value, element_of(op.results[0].type))
