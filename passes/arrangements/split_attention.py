"""Attention of few rows over many keys, cut so that the whole device has work.

Before:
    %y = fusion.kernel attention (%a = %q : tensor<1x512xf32>, %b = %k : tensor<8192x512xf32>, …) {
      %0 = mgn.attention(%a, %b, %c) heads = 8 … -> tensor<1x512xf32>
      fusion.return %0 : tensor<1x512xf32>
    }
After:
    %p = fusion.kernel attention (…) -> (tensor<32x1x8x66xf32>) {
      %0 = mgn.attention_parts(%a, %b, %c) heads = 8, each = 256 … -> tensor<32x1x8x66xf32>
      fusion.return %0 : tensor<32x1x8x66xf32>
    }
    %y = fusion.kernel reduction (%a = %p : tensor<32x1x8x66xf32>) -> (tensor<1x512xf32>) {
      … sums over the parts, each weighted by its largest score …
    }

What follows attention is part of the second kernel where it is elementwise, else a third one.
"""

from dataclasses import dataclass

from xdsl.ir import SSAValue

from mgn.dialects.fusion import FusedKernelOp, KernelKind
from mgn.dialects.kernel import Device
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.operation import Kind, TensorOp
from mgn.dialects.mgn.operations.products.attention import merge_attention_parts
from mgn.dialects.types import element_of
from mgn.passes.arrangements.kernel_pieces import KernelPieces, Made, as_element
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.attention import AttentionSizes

TILE_ROWS = 64
"""Rows of a group's usual tile."""

GROUPS = 4
"""How many groups a compute unit of a GPU should have, so that loads are always in flight."""

PLACES = 2
"""Groups of a compute unit that walk few keys each: nothing hides what a further tile waits for."""

MOST_SHORT = 32
"""The most parts for the sake of short walks. What puts more together has larger groups than other
kernels, and a resident launch so few registers.
"""

LEAST_KEYS, LEAST_PARTS = 128, 4
"""The fewest keys of a part where groups are many, and how many parts are worth a second launch."""

WHOLE = 64
"""The number of keys of a part is a multiple of this, so that whole tiles of keys fit."""


def choose_keys(attention: AttentionSizes, device: Device) -> int | None:
    """The number of keys of a part, where parts of the keys make more groups on a GPU than rows and
    key heads do; None where the keys are not to be cut.
    """
    sizes = attention.keys, attention.window, attention.groups, attention.rows
    return part_keys(*sizes, device)


def part_keys(keys: int, window: int, groups: int, rows: int, device: Device) -> int | None:
    """The same of so many keys and groups, which have so many rows each."""
    if 0 < window < keys:
        return None
    groups = max(groups * ceil_div(rows, TILE_ROWS), 1)
    places = PLACES * device.compute_units // groups
    parts = min(GROUPS * device.compute_units // groups, keys // LEAST_KEYS)
    if parts < places:  # a tile of keys each is a shorter walk
        parts = max(min(places, ceil_div(keys, WHOLE), MOST_SHORT), parts)
    if parts < LEAST_PARTS:
        return None
    return ceil_div(ceil_div(keys, parts), WHOLE) * WHOLE


@dataclass(frozen=True)
class SplitAttention:
    """An attention whose keys are cut into parts of `each`."""

    each: int

    @property
    def text(self) -> str:
        return f"keys in parts of {self.each}"

    def write(self, pieces: KernelPieces) -> None:
        (attention,) = (
            op
            for op in pieces.fused.block.ops
            if isinstance(op, TensorOp) and op.spec.name == "attention"
        )

        def partial(b: Emitter, operands: list[SSAValue]) -> list[SSAValue]:
            values = {**attention.values, "each": self.each}
            found = b.call("attention_parts", *operands, **values)
            assert isinstance(found, SSAValue)
            return [found]

        def whole(b: Emitter, parts: list[SSAValue]) -> SSAValue:
            value = merge_attention_parts(b, parts[0])
            return as_element(b, value, element_of(attention.results[0].type))

        parts = pieces.add(KernelKind.ATTENTION, list(attention.operands), finish=partial)
        made = [Made(attention, parts, whole)]
        if _is_elementwise(pieces.fused, attention):
            pieces.finish(KernelKind.REDUCTION, made)
            return
        result = attention.results[0]
        (pieces.known[result],) = pieces.add(KernelKind.REDUCTION, [result], made)
        pieces.finish(KernelKind.POINTWISE)


def _is_elementwise(fused: FusedKernelOp, attention: TensorOp) -> bool:
    """Whether all that follows attention has its shape, and may be computed row by row."""
    reached: set[SSAValue] = {attention.results[0]}
    for op in fused.block.ops:
        if isinstance(op, TensorOp) and reached.intersection(op.operands):
            same = op.results[0].type.get_shape() == attention.results[0].type.get_shape()  # type: ignore
            if op.spec.kind is not Kind.ELEMENTWISE or not same:
                return False
            reached.update(op.results)
    return True
