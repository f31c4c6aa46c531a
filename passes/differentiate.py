"""differentiate: gradients become the operations that compute them.

Before:
    %y = mgn.softmax(%x) axis = 0 : tensor<4xf32>
    %s = mgn.sum(%y) axis = [0] : (tensor<4xf32>) -> tensor<f32>
    %g = mgn.grad %s of %x : tensor<f32>, tensor<4xf32>
After:
    %y = mgn.softmax(%x) axis = 0 : tensor<4xf32>
    %s = mgn.sum(%y) axis = [0] : (tensor<4xf32>) -> tensor<f32>
    %0 = mgn.constant dense<1.0> : tensor<f32>
    %1 = mgn.broadcast_to(%0) shape = [4] : (tensor<f32>) -> tensor<4xf32>
    %2 = mgn.mul(%1, %y) : tensor<4xf32>
    %3 = mgn.sum(%2) axis = [0], keepdims = true : (tensor<4xf32>) -> tensor<1xf32>
    %4 = mgn.sub(%1, %3) : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
    %g = mgn.mul(%y, %4) : tensor<4xf32>

It is the first pass, since a gradient names values of the program as it was written. Composites are
there yet, so that those with a row of their own have their own formula. The rows are in
`dialects/mgn/gradients/`. A graph without gradients stays as it is.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from mgn.diagnostics import MgnError
from mgn.dialects.mgn.gradients.reverse import NoGradient, differentiate_block
from mgn.dialects.mgn.structure import graphs_of


class NotDifferentiable(MgnError, PassFailedException):
    """An operation that a gradient is asked through has none."""

    def __init__(self, operation: Operation, reason: str) -> None:
        super().__init__(f"differentiate: {reason}")
        self.operation = operation


@dataclass(frozen=True)
class Differentiate(ModulePass):
    """Replaces the gradients of all graphs of a module."""

    name = "differentiate"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for graph in graphs_of(op):
            try:
                differentiate_block(graph.block)
            except NoGradient as error:
                raise NotDifferentiable(error.operation, str(error)) from error
