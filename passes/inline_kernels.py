"""`inline-kernels`: puts every kernel's body in its place, which gives back a plain `mgn` program.

Before:
    %y = fusion.kernel pointwise (%a = %x : tensor<4xf32>) -> (tensor<4xf32>) {
      %0 = mgn.exp(%a) : tensor<4xf32>
      fusion.return %0 : tensor<4xf32>
    }
After:
    %y = mgn.exp(%x) : tensor<4xf32>
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from mgn.dialects.fusion import FusedKernelOp
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.structure import graphs_of
from mgn.passes.rewriting import inline_block, rewrite_block


@dataclass(frozen=True)
class InlineKernelsPass(ModulePass):
    """Inlines all `fusion.kernel` operations of all graphs; a body keeps the locations it has."""

    name = "inline-kernels"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for graph in graphs_of(op):
            rewrite_block(graph.block, _inline_kernel)


def _inline_kernel(b: Emitter, op: Operation) -> Sequence[SSAValue] | None:
    if not isinstance(op, FusedKernelOp):
        return None
    own_locations = Emitter(b.insert)
    return inline_block(own_locations, op.block, op.inputs, op.written)
