"""Convolutions on a CPU: the weights, a product's left operand, lie turned in panels, once for all.

Before:
    %y = fusion.kernel contraction (%a = %w : tensor<64x256xf32>, %b = %x : tensor<256x49xf32>)
        -> (tensor<64x49xf32>) {
      %0 = mgn.matmul(%a, %b) : …
      fusion.return %0 : tensor<64x49xf32>
    }
After:
    %p = fusion.kernel pointwise (%a = %w : tensor<64x256xf32>) -> (tensor<2x256x32xf32>) {
      %0 = mgn.reshape(%a) shape = [2, 32, 256] : …
      %1 = mgn.transpose(%0) perm = [0, 2, 1] : …
      fusion.return %1 : tensor<2x256x32xf32>
    }
    %y = fusion.kernel contraction (%a = %p : …, %b = %x : …) -> (tensor<64x49xf32>) {
      %0 = mgn.transpose(%a) perm = [0, 2, 1] : …
      %1 = mgn.reshape(%0) shape = [64, 256] : …
      %2 = mgn.matmul(%1, %b) : …
      fusion.return %2 : tensor<64x49xf32>
    }

Vectors of the product then lie along its rows: few columns, which fill no vectors, cost nothing.
"""

from dataclasses import dataclass

from xdsl.ir import SSAValue

from mgn.dialects.fusion import KernelKind
from mgn.dialects.mgn.build import Emitter
from mgn.passes.arrangements.kernel_pieces import KernelPieces, Made
from mgn.passes.arrangements.prepack_products import TO_PANELS
from mgn.passes.schedules.core.figures import LEFT
from mgn.passes.schedules.core.packed_blocking import PANELS

_TURNED = [0, 2, 1]
"""Panels, rows and steps to panels, steps and rows, and back."""


@dataclass(frozen=True)
class PackedWeights:
    """A product whose left operand is packed into panels of so many rows: where it is made once."""

    rows: int

    @property
    def text(self) -> str:
        return f"left operand in panels of {self.rows} rows"

    def write(self, pieces: KernelPieces) -> None:
        product = pieces.product
        left, right = product.operands
        rows, depth = left.type.get_shape()  # type: ignore

        def pack(b: Emitter, values: list[SSAValue]) -> list[SSAValue]:
            panels = b.reshape(values[0], [rows // self.rows, self.rows, depth])
            return [b.transpose(panels, _TURNED)]

        def multiply(b: Emitter, values: list[SSAValue]) -> SSAValue:
            own, packed = values
            return b.matmul(b.reshape(b.transpose(packed, _TURNED), [rows, depth]), own)

        packed = pieces.add(KernelKind.POINTWISE, [left], finish=pack, facts={TO_PANELS: 1})
        made = Made(product, packed, multiply, [right])
        pieces.finish(KernelKind.CONTRACTION, [made], {LEFT: PANELS})
