"""`decompose`: every composite operation becomes the core operations that are its meaning.

Before:
    %y = mgn.softmax(%x) axis = 1 : tensor<4x8xf32>
After:
    %0 = mgn.max_reduce(%x) axis = [1], keepdims = true : (tensor<4x8xf32>) -> tensor<4x1xf32>
    %1 = mgn.sub(%x, %0) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
    %2 = mgn.exp(%1) : tensor<4x8xf32>
    %3 = mgn.sum(%2) axis = [1], keepdims = true : (tensor<4x8xf32>) -> tensor<4x1xf32>
    %y = mgn.div(%2, %3) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>

`decompose{only=softmax,silu}` expands these alone, one step; others stay.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.decompose import decomposition_of
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.mgn.structure import graphs_of
from mgn.passes.rewriting import inline, rewrite_block


@dataclass(frozen=True)
class DecomposePass(ModulePass):
    """Replaces composites by their decompositions; `only` names the ones to replace."""

    name = "decompose"
    only: tuple[str, ...] = ()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for graph in graphs_of(op):
            rewrite_block(graph.block, self._expand)

    def _expand(self, b: Emitter, op: Operation) -> Sequence[SSAValue] | None:
        if not isinstance(op, TensorOp) or op.spec.is_core:
            return None
        if self.only and op.spec.name not in self.only:
            return None
        return inline(b, decomposition_of(op), op.operands)
