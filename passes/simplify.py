"""`simplify`: canonical forms, constant folding, common subexpressions and dead code, in one walk.

Before:
    %0 = mgn.reshape(%x) shape = [8, 4] : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %1 = mgn.reshape(%0) shape = [32] : (tensor<8x4xf32>) -> tensor<32xf32>
    %2 = mgn.constant dense<2.0> : tensor<f32>
    %3 = mgn.sqrt(%2) : tensor<f32>
    %4 = mgn.mul(%3, %1) : (tensor<f32>, tensor<32xf32>) -> tensor<32xf32>
After:
    %0 = mgn.reshape(%x) shape = [32] : (tensor<4x8xf32>) -> tensor<32xf32>
    %1 = mgn.constant dense<1.41421354> : tensor<f32>
    %2 = mgn.mul(%0, %1) : (tensor<32xf32>, tensor<f32>) -> tensor<32xf32>

Every step gives the same bits as before. A constant is computed by the interpreter in the value's
own type. The bodies of kernels are left as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import Pure

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.fold import constant_results, existing_value
from mgn.dialects.mgn.grad import grads_of
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.mgn.structure import GraphOp, graphs_of
from mgn.passes.canonical_forms import canonical_form
from mgn.passes.rewriting import erase_dead, rewrite_block


@dataclass(frozen=True)
class SimplifyPass(ModulePass):
    """Simplifies all graphs of a module."""

    name = "simplify"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for graph in graphs_of(op):
            simplify_graph(graph)


def simplify_graph(graph: GraphOp) -> None:
    """Simplifies one graph in place. One with gradients stays as it is, which name its values."""
    if grads_of(graph):
        return
    erase_dead(graph.block)
    rewrite_block(graph.block, _Simplification().rewrite)
    erase_dead(graph.block)


@dataclass
class _Simplification:
    """The state of one walk: the operations seen so far, by all that fixes their values."""

    known: dict[Any, Operation] = field(default_factory=dict[Any, Operation])

    def rewrite(self, b: Emitter, op: Operation) -> Sequence[SSAValue] | None:
        """Values that replace an operation: an operand, its canonical form, its constant, or an
        equal one before.
        """
        value = existing_value(op)
        if value is not None:
            return [value]
        values = canonical_form(b, op)
        if values is None:
            arrays = constant_results(op)
            values = None if arrays is None else [b.constant_array(array) for array in arrays]
        return self._equal(op) if values is None else values

    def _equal(self, op: Operation) -> Sequence[SSAValue] | None:
        if op.regions or not op.results or not op.has_trait(Pure):
            return None
        operands = tuple(op.operands)
        if isinstance(op, TensorOp) and op.spec.commutative:
            operands = tuple(sorted(operands, key=id))
        key = (
            op.name,
            operands,
            tuple(sorted(op.properties.items())),
            tuple(op.result_types),
        )
        first = self.known.setdefault(key, op)
        return None if first is op else first.results
