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

from math import prod

from xdsl.ir import Block, BlockArgument, Region, SSAValue

from mgn.dialects.fusion import FusedKernelOp, FusionReturnOp, KernelKind
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.operation import Kind, TensorOp
from mgn.dialects.types import element_of
from mgn.passes.lower_kernels.body import read_body
from mgn.passes.lower_kernels.packed_blocking import block_depth
from mgn.passes.lower_kernels.product import Product
from mgn.passes.lower_kernels.scalar import accumulator

LEAST_ROWS = 768
"""Products of fewer rows have few blocks that would pack the same panels."""

LEAST_SIZE = 64
"""The least size of both axes of an operand that is worth a launch."""

_TURNED = [0, 2, 1, 3]
"""Blocks, steps, panels and columns to blocks, panels, steps and columns, and back."""


def prepack_product(fused: FusedKernelOp, depth: int, columns: int) -> list[FusedKernelOp]:
    """The kernels that replace a product: one that packs its right operand before it, where that
    pays. `depth` is how many steps a panel should have, `columns` how many it has across.
    """
    found = _worth_packing(fused, depth, columns)
    return [fused] if found is None else _Packer(fused, *found, columns).split()


def _worth_packing(
    fused: FusedKernelOp, depth: int, columns: int
) -> tuple[TensorOp, Product, int] | None:
    """The product of a kernel that should be packed, and the steps of a panel."""
    if fused.kernel_kind is not KernelKind.CONTRACTION:
        return None
    products = [
        op
        for op in fused.block.ops
        if isinstance(op, TensorOp) and op.spec.kind is Kind.CONTRACTION
    ]
    if len(products) != 1 or not isinstance(products[0].operands[1], BlockArgument):
        return None
    right = products[0].operands[1]
    element = element_of(right.type)
    product = Product.of_body(read_body(fused))
    if len(product.node.operands[1].shape) != 2 or accumulator(element) is not element:
        return None
    steps = block_depth(product.depth, depth)
    if product.columns % columns or product.depth % steps:
        return None
    is_large = min(product.columns, product.depth) >= LEAST_SIZE
    if not is_large or product.rows * prod(product.batch) < LEAST_ROWS:
        return None
    return products[0], product, steps


class _Packer:
    """Writes the two kernels that replace one."""

    def __init__(
        self, fused: FusedKernelOp, op: TensorOp, product: Product, steps: int, columns: int
    ) -> None:
        self.fused, self.op, self.product = fused, op, product
        blocks, panels = product.depth // steps, product.columns // columns
        self.by_step = [blocks, steps, panels, columns]
        self.right = op.operands[1]

    def split(self) -> list[FusedKernelOp]:
        packing = self._packing()
        return [packing, self._product(packing.outputs[0])]

    def _packing(self) -> FusedKernelOp:
        assert isinstance(self.right, BlockArgument)
        outer = self.fused.inputs[self.right.index]
        block = Block(arg_types=[outer.type])
        b = Emitter(block.add_op)
        value: SSAValue = block.args[0]
        blocks, steps, panels, columns = self.by_step
        if self.op.values["transpose_b"]:
            value = b.reshape(value, [panels, columns, blocks, steps])
            value = b.transpose(value, [2, 0, 3, 1])
        else:
            value = b.transpose(b.reshape(value, self.by_step), _TURNED)
        block.add_op(FusionReturnOp([value]))
        return self._insert(
            FusedKernelOp(KernelKind.POINTWISE, [outer], [value.type], Region(block))
        )

    def _product(self, packed: SSAValue) -> FusedKernelOp:
        fused = self.fused
        others = [use for use in self.right.uses if use.operation is not self.op or use.index != 1]
        kept = [
            (argument, outer)
            for argument, outer in zip(fused.block.args, fused.inputs, strict=True)
            if argument is not self.right or others
        ]
        inputs = [*(outer for _, outer in kept), packed]
        block = Block(arg_types=[value.type for value in inputs])
        b = Emitter(block.add_op)
        values: dict[SSAValue, SSAValue] = {
            argument: new for (argument, _), new in zip(kept, block.args, strict=False)
        }
        for op in fused.block.ops:
            if op is not self.op:
                block.add_op(op.clone(values))
                continue
            shape = [self.product.depth, self.product.columns]
            unpacked = b.reshape(b.transpose(block.args[-1], _TURNED), shape)
            left = values[op.operands[0]]
            turned = self.op.values["transpose_a"]
            values[op.results[0]] = b.matmul(left, unpacked, transpose_a=turned)
        kernel = FusedKernelOp(
            fused.kernel_kind, inputs, [value.type for value in fused.outputs], Region(block)
        )
        self._insert(kernel)
        for old, new in zip(fused.outputs, kernel.outputs, strict=True):
            old.replace_all_uses_with(new)
        fused.detach()
        fused.erase()
        return kernel

    def _insert(self, kernel: FusedKernelOp) -> FusedKernelOp:
        kernel.location = self.fused.location
        assert self.fused.parent is not None
        self.fused.parent.insert_op_before(kernel, self.fused)
        return kernel
