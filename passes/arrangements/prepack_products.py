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

A panel holds the columns of a register tile for one block of the shared axis. Where the number of
columns is no multiple of a panel's, the last panel ends with the last column, and overlaps the
panel before it, as the tiles do. Without this arrangement each work-item packs the part of the
operand that it reads, and many work-items pack the same part.
"""

from dataclasses import dataclass

from xdsl.ir import SSAValue

from mgn.dialects.fusion import KernelKind
from mgn.dialects.mgn.build import Emitter
from mgn.passes.arrangements.kernel_pieces import KernelPieces, Made
from mgn.passes.schedules.core.figures import RIGHT
from mgn.passes.schedules.core.packed_blocking import PANELS, panel_steps

TO_PANELS = "to_panels"
"""The fact of a kernel that packs."""

LEAST_ROWS = 384
"""The fewest rows for which packing pays in every run: with fewer, few blocks share a panel. Where
parameters are packed once, it does for any number of rows.
"""

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
    steps = panel_steps(depth, most) if depth else None
    if steps is None or min(columns, depth) < max(LEAST_SIZE, across):
        return None
    return PackedOperand(steps, across, rows < LEAST_ROWS, rows == 1)


@dataclass(frozen=True)
class PackedOperand:
    """A product whose right operand is packed into panels. `once`: this pays only where the panels
    are made once, of parameters. `single`: there is a single row, so that little is gained: not the
    memory for panels of what a run reads as it lies, too.
    """

    steps: int
    columns: int
    once: bool = False
    single: bool = False

    @property
    def text(self) -> str:
        return f"right operand in panels of {self.steps} × {self.columns}"

    def write(self, pieces: KernelPieces) -> None:
        product = pieces.product
        right = product.operands[1]
        transposed = bool(product.values["transpose_b"])
        shape = right.type.get_shape()  # type: ignore
        columns, depth = shape if transposed else reversed(shape)
        rest = columns % self.columns

        def pack(b: Emitter, values: list[SSAValue]) -> list[SSAValue]:
            whole = self._panels(b, values[0], 0, columns - rest, transposed)
            if not rest:
                return [whole]
            last = self._panels(b, values[0], columns - self.columns, columns, transposed)
            return [b.concat([whole, last], axis=1)]

        def multiply(b: Emitter, values: list[SSAValue]) -> SSAValue:
            left, packed = values
            whole = columns // self.columns
            unpacked = self._columns(b, packed, 0, whole) if rest else self._columns(b, packed)
            if rest:
                last = self._columns(b, packed, whole, whole + 1)
                own = b.slice(last, [0, self.columns - rest], [depth, self.columns])
                unpacked = b.concat([unpacked, own], axis=1)
            return b.matmul(left, unpacked, transpose_a=product.values["transpose_a"])

        packed = pieces.add(KernelKind.POINTWISE, [right], finish=pack, facts={TO_PANELS: 1})
        made = Made(product, packed, multiply, [product.operands[0]])
        pieces.finish(KernelKind.CONTRACTION, [made], {RIGHT: PANELS})

    def _panels(
        self, b: Emitter, right: SSAValue, start: int, end: int, transposed: bool
    ) -> SSAValue:
        """Columns of the right operand in panels."""
        shape = right.type.get_shape()  # type: ignore
        depth = shape[1 if transposed else 0]
        if end - start < shape[0 if transposed else 1]:
            low, high = ([start, 0], [end, depth]) if transposed else ([0, start], [depth, end])
            right = b.slice(right, low, high)
        blocks, panels = depth // self.steps, (end - start) // self.columns
        if transposed:
            value = b.reshape(right, [panels, self.columns, blocks, self.steps])
            return b.transpose(value, [2, 0, 3, 1])
        return b.transpose(b.reshape(right, [blocks, self.steps, panels, self.columns]), _TURNED)

    def _columns(
        self, b: Emitter, packed: SSAValue, start: int = 0, end: int | None = None
    ) -> SSAValue:
        """The columns that panels hold side by side."""
        blocks, panels, steps, columns = packed.type.get_shape()  # type: ignore
        if end is not None:
            packed = b.slice(packed, [0, start, 0, 0], [blocks, end, steps, columns])
            panels = end - start
        return b.reshape(b.transpose(packed, _TURNED), [blocks * steps, panels * columns])
