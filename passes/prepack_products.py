"""Large products on a CPU: the right operand is laid out in panels by a kernel of its own, once.

Before:
    %y = fusion.kernel contraction (%a = %x : tensor<2048x1024xf32>, %b = %w : tensor<1024x512xf32>)
        -> (tensor<2048x512xf32>) {
      %0 = mgn.matmul(%a, %b) : …
      fusion.return %0 : tensor<2048x512xf32>
    }
After:
    %p = fusion.kernel pointwise (%b = %w : tensor<1024x512xf32>) -> (tensor<4x16x256x32xf32>) {
      %0 = mgn.reshape(%b) shape = [4, 256, 16, 32] : …
      %1 = mgn.transpose(%0) perm = [0, 2, 1, 3] : …
      fusion.return %1 : tensor<4x16x256x32xf32>
    }
    %y = fusion.kernel contraction (%a = %x : …, %b = %p : tensor<4x16x256x32xf32>)
        -> (tensor<2048x512xf32>) {
      %0 = mgn.transpose(%b) perm = [0, 2, 1, 3] : …
      %1 = mgn.reshape(%0) shape = [1024, 512] : …
      %2 = mgn.matmul(%a, %1) : …
      fusion.return %2 : tensor<2048x512xf32>
    }

A panel holds the columns of a register tile for one block of the shared axis. Without this, each
work-item would pack what it needs of the operand, and many pack the same.
"""

from dataclasses import dataclass

from xdsl.ir import SSAValue

from mgn.dialects.fusion import KernelKind
from mgn.dialects.mgn.build import Emitter
from mgn.passes.choose_schedules import RIGHT
from mgn.passes.kernel_pieces import KernelPieces, Made
from mgn.passes.lower_kernels.packed_blocking import PANELS, block_depth

TO_PANELS = "to_panels"
"""The fact of a kernel that packs."""

LEAST_ROWS = 768
"""Products of fewer rows have few blocks that would pack the same panels."""

LEAST_SIZE = 64
"""The least size of both axes of an operand that is worth a launch."""

_TURNED = [0, 2, 1, 3]
"""Blocks, steps, panels and columns to blocks, panels, steps and columns, and back."""


def choose_panels(
    rows: int, columns: int, depth: int, most: int, across: int
) -> "PackedOperand | None":
    """The panels of a product's right operand; None where it should not be packed. `most` is how
    many steps a panel should have, `across` how many columns it has.
    """
    steps = block_depth(depth, most)
    if columns % across or depth % steps:
        return None
    if min(columns, depth) < LEAST_SIZE or rows < LEAST_ROWS:
        return None
    return PackedOperand(steps, across)


@dataclass(frozen=True)
class PackedOperand:
    """A product whose right operand is packed into panels: an `Arrangement`."""

    steps: int
    columns: int

    @property
    def text(self) -> str:
        return f"right operand in panels of {self.steps} × {self.columns}"

    def write(self, pieces: KernelPieces) -> None:
        product = pieces.product
        right = product.operands[1]
        turned = bool(product.values["transpose_b"])
        shape = right.type.get_shape()  # type: ignore
        columns, depth = shape if turned else reversed(shape)
        blocks, panels = depth // self.steps, columns // self.columns
        by_step = [blocks, self.steps, panels, self.columns]

        def pack(b: Emitter, values: list[SSAValue]) -> list[SSAValue]:
            if turned:
                value = b.reshape(values[0], [panels, self.columns, blocks, self.steps])
                return [b.transpose(value, [2, 0, 3, 1])]
            return [b.transpose(b.reshape(values[0], by_step), _TURNED)]

        def multiply(b: Emitter, values: list[SSAValue]) -> SSAValue:
            left, packed = values
            unpacked = b.reshape(b.transpose(packed, _TURNED), [depth, columns])
            return b.matmul(left, unpacked, transpose_a=product.values["transpose_a"])

        packed = pieces.add(KernelKind.POINTWISE, [right], finish=pack, facts={TO_PANELS: 1})
        made = Made(product, packed, multiply, [product.operands[0]])
        pieces.finish(KernelKind.CONTRACTION, [made], {RIGHT: PANELS})
