"""Convolutions with 3 × 3 windows on a CPU whose filters lie transformed, once for all: 16 products
for four places in the place of 36 (`passes/kernels/winograd.py`).

Before:
    %y = fusion.kernel contraction (%a = %x : …, %b = %w : tensor<64x576xf32>)
        -> (tensor<784x64xf32>) {
      … mgn.windows … %0 = mgn.reshape … : … -> tensor<784x576xf32>
      %1 = mgn.matmul(%0, %b) transpose_b = true : …
      fusion.return %1 : tensor<784x64xf32>
    }
After:
    %u = fusion.kernel pointwise (%b = %w : tensor<64x576xf32>) -> (tensor<16x4x64x16xf32>) { … }
    %y = fusion.kernel contraction (%a = %x : …, %b = %u : …)
        -> (tensor<784x64xf32>) arranged {right = "transformed"} {
      … mgn.windows … %0 = mgn.reshape … : … -> tensor<784x576xf32>
      … mgn.sub … %1 = mgn.reshape … : … -> tensor<64x576xf32>
      %2 = mgn.matmul(%0, %1) transpose_b = true : …
      fusion.return %2 : tensor<784x64xf32>
    }

The kernel's body says what it computes: filters are found again in what they were made. Its
template reads the transformed filters alone: products, panels, channels, and the columns of a
panel.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from xdsl.ir import SSAValue

from mgn.dialects.fusion import KernelKind
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import shape_of
from mgn.dialects.types import element_of
from mgn.passes.arrangements.kernel_pieces import KernelPieces, Made
from mgn.passes.arrangements.prepack_products import TO_PANELS
from mgn.passes.kernels.winograd import (
    PLACES,
    SIDE,
    WINDOW,
    recovered_filters,
    transformed_filters,
)
from mgn.passes.schedules.core.figures import RIGHT
from mgn.passes.schedules.core.packed_blocking import TRANSFORMED

TO_PRODUCTS, TO_FILTERS = [2, 0, 3, 1], [1, 3, 0, 2]
"""Panels, columns, products and channels as they lie, and back."""


@dataclass(frozen=True)
class TransformedFilters:
    """A convolution's product whose right operand is transformed, and lies in panels of so many
    columns: where that is made once.
    """

    columns: int

    @property
    def text(self) -> str:
        return f"filters transformed for tiles of 2 × 2 places, in panels of {self.columns}"

    def write(self, pieces: KernelPieces) -> None:
        product = pieces.product
        left, right = product.operands
        turned = bool(product.values["transpose_b"])
        filters, depth = shape_of(right) if turned else reversed(shape_of(right))
        channels, panels = depth // (WINDOW * WINDOW), filters // self.columns

        def transform(b: Emitter, values: list[SSAValue]) -> list[SSAValue]:
            value = values[0] if turned else b.transpose(values[0], [1, 0])
            value = b.reshape(value, [filters, WINDOW, WINDOW, channels])
            for axis in (1, 2):
                parts = transformed_filters(_parts(b, value, axis), b.add, b.sub)
                value = b.concat(parts, axis=axis)
            value = b.reshape(value, [panels, self.columns, PLACES, channels])
            return [b.transpose(value, TO_PRODUCTS)]

        def multiply(b: Emitter, values: list[SSAValue]) -> SSAValue:
            own, value = values
            value = b.transpose(value, TO_FILTERS)
            value = b.reshape(value, [filters, SIDE, SIDE, channels])
            half = b.full([1, 1, 1, 1], 0.5, T=element_of(value.type))
            for axis in (1, 2):
                parts = recovered_filters(_parts(b, value, axis), b.sub, partial(b.mul, half))
                value = b.concat(parts, axis=axis)
            return b.matmul(own, b.reshape(value, [filters, depth]), transpose_b=True)

        made = pieces.add(KernelKind.POINTWISE, [right], finish=transform, facts={TO_PANELS: 1})
        pieces.finish(
            KernelKind.CONTRACTION, [Made(product, made, multiply, [left])], {RIGHT: TRANSFORMED}
        )


def _parts(b: Emitter, value: SSAValue, axis: int) -> Sequence[SSAValue]:
    """A value's elements along an axis."""
    shape = shape_of(value)

    def part(number: int) -> SSAValue:
        starts, ends = [0] * len(shape), list(shape)
        starts[axis], ends[axis] = number, number + 1
        return b.slice(value, starts, ends)

    return [part(number) for number in range(shape[axis])]
