"""Products of few tiles and a long shared axis, cut so that the whole device has work.

Before:
    %y = fusion.kernel contraction (%a = %x : tensor<64x20000xf32>, %b = %w : …) -> (…) {
      %0 = mgn.matmul(%a, %b) : (…) -> tensor<64x1000xf32>
      %1 = mgn.relu(%0) …
      fusion.return %1 : tensor<64x1000xf32>
    }
After:
    %p = fusion.kernel contraction (…) -> (tensor<10x64x1000xf32>) {
      … mgn.matmul of tensor<10x64x2000xf32> and tensor<10x2000x1000xf32> …
    }
    %y = fusion.kernel reduction (%a = %p : tensor<10x64x1000xf32>) -> (tensor<64x1000xf32>) {
      … mgn.sum(%a) axis = [0] … mgn.relu …
    }

The parts of the shared axis become a batch of products, whose results the second kernel adds up.
They are kept in the type that sums are kept in.
"""

from dataclasses import dataclass
from math import prod

from xdsl.ir import SSAValue

from mgn.dialects.fusion import FusedKernelOp, KernelKind
from mgn.dialects.kernel import Device
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.operation import Kind, TensorOp
from mgn.dialects.types import element_of
from mgn.passes.kernel_pieces import KernelPieces
from mgn.passes.lower_kernels.few_rows import FEW_ROWS
from mgn.passes.lower_kernels.scalar import accumulator

TILE, NARROW_TILE = 64, 32
"""Rows and columns of a group's usual tile, and its columns where there are few rows."""

GROUPS = 2
"""How many groups a compute unit should have."""

LEAST_PART, LEAST_PARTS = 1024, 4
"""The least length of a part of the shared axis, and how many parts are worth a second launch."""

WHOLE = 16
"""Steps that a part should be a multiple of, so that its lines are copied in whole chunks."""


@dataclass(frozen=True)
class _Sizes:
    batch: tuple[int, ...]
    rows: int
    columns: int
    depth: int

    @staticmethod
    def of(op: TensorOp) -> "_Sizes | None":
        """The sizes of a product of matrices."""
        left, right = _shape(op.operands[0]), _shape(op.operands[1])
        if len(left) < 2 or len(right) < 2:
            return None
        depth = left[-2 if op.values["transpose_a"] else -1]
        shape = _shape(op.results[0])
        return _Sizes(shape[:-2], shape[-2], shape[-1], depth)


def _shape(value: SSAValue) -> tuple[int, ...]:
    return value.type.get_shape()  # type: ignore


def split_product(fused: FusedKernelOp, device: Device) -> list[FusedKernelOp]:
    """The kernels that replace a product of few tiles; the kernel itself where it has enough."""
    if fused.kernel_kind is not KernelKind.CONTRACTION or device.is_cpu:
        return [fused]
    products = [
        op
        for op in fused.block.ops
        if isinstance(op, TensorOp) and op.spec.kind is Kind.CONTRACTION
    ]
    sizes = _Sizes.of(products[0]) if len(products) == 1 else None
    parts = choose_parts(sizes, device) if sizes else 1
    return [fused] if parts == 1 else _split(fused, products[0], parts)


def choose_parts(sizes: _Sizes, device: Device) -> int:
    """Into how many parts the shared axis is cut; 1 where there are enough tiles."""
    across = NARROW_TILE if sizes.rows <= FEW_ROWS else TILE
    tiles = -(-sizes.rows // TILE) * -(-sizes.columns // across) * prod(sizes.batch)
    wanted = min(GROUPS * device.compute_units // max(tiles, 1), sizes.depth // LEAST_PART)
    if wanted < LEAST_PARTS:
        return 1
    for whole in (WHOLE, 1):
        near = range(LEAST_PARTS, 2 * wanted)
        fitting = [count for count in near if sizes.depth % (count * whole) == 0]
        if fitting:
            return min(fitting, key=lambda count: abs(count - wanted))
    return 1


def _split(fused: FusedKernelOp, product: TensorOp, parts: int) -> list[FusedKernelOp]:
    pieces = KernelPieces(fused, _total)

    def partial(b: Emitter, operands: list[SSAValue]) -> list[SSAValue]:
        element = accumulator(element_of(product.results[0].type))
        left, right = (
            value if element_of(value.type) is element else b.cast(value, element.name)
            for value in operands
        )
        turned_a, turned_b = product.values["transpose_a"], product.values["transpose_b"]
        rank = max(len(_shape(left)), len(_shape(right)))
        left = _cut(b, left, len(_shape(left)) - (2 if turned_a else 1), parts, rank)
        right = _cut(b, right, len(_shape(right)) - (1 if turned_b else 2), parts, rank)
        return [b.matmul(left, right, transpose_a=turned_a, transpose_b=turned_b)]

    sums = pieces.add(KernelKind.CONTRACTION, list(product.operands), finish=partial)
    wanted = list(dict.fromkeys(fused.written))
    results = pieces.add(KernelKind.REDUCTION, wanted, [(product, sums[0])])
    pieces.known.update(zip(wanted, results, strict=True))
    return pieces.replace()


def _cut(b: Emitter, value: SSAValue, axis: int, parts: int, rank: int) -> SSAValue:
    """An operand with the parts of an axis as its first, and ones up to a batch of that rank."""
    shape = _shape(value)
    value = b.reshape(value, [*shape[:axis], parts, shape[axis] // parts, *shape[axis + 1 :]])
    value = b.transpose(value, [axis, *(n for n in range(len(shape) + 1) if n != axis)])
    inner = _shape(value)[1:]
    return b.reshape(value, [parts, *[1] * (rank - len(inner)), *inner])


def _total(b: Emitter, op: TensorOp, partial: SSAValue) -> SSAValue:
    value = b.sum(partial, axis=[0])
    element = element_of(op.results[0].type)
    return value if element is element_of(partial.type) else b.cast(value, element.name)
