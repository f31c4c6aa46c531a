"""`read-panels`: a table that products read in panels is looked up there too, and need not lie in
memory twice.

Before:
    %p = fusion.kernel pointwise (%a = %w : tensor<512x64xf32>) -> (tensor<1x16x64x32xf32>)
        arranged {to_panels = 1 : i64} {
      %0 = mgn.reshape(%a) shape = [16, 32, 1, 64] : …
      %1 = mgn.transpose(%0) perm = [2, 0, 3, 1] : …
      fusion.return %1 : tensor<1x16x64x32xf32>
    }
    %e = fusion.kernel gather (%a = %w : …, %b = %ids : …) -> (tensor<4x64xf32>) {
      %0 = mgn.gather(%a, %b) : …
      fusion.return %0 : tensor<4x64xf32>
    }
After:
    %e = fusion.kernel gather (%a = %p : …, %b = %ids : …) -> (tensor<4x64xf32>) {
      %0 = mgn.transpose(%a) perm = [1, 3, 0, 2] : …
      %1 = mgn.reshape(%0) shape = [512, 64] : …
      %2 = mgn.gather(%1, %b) : …
      fusion.return %2 : tensor<4x64xf32>
    }

Panels of parameters are made once. A parameter that no run reads as it lies is not held on the
device. So this pays where all who read a parameter, but for those who make its panels, look it up:
a language model's table of words. A row that is looked up lies apart in panels, a line of memory
for each number. By themselves 128 rows of 576 take some 0.4 ms longer so, on two cores of an AMD
EPYC. Tables of fewer than `least` bytes are left as they are.

Without `prepare` panels are made in each run, and nothing changes. Panels whose last one overlaps
the one before are left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from mgn.dialects.fusion import FusedKernelOp, FusionReturnOp
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import element_type_of, shape_of
from mgn.dialects.mgn.operation import TensorOp, is_tensor_op
from mgn.dialects.mgn.structure import ReadOp, graphs_of
from mgn.passes.arrangements.prepack_products import TO_PANELS

LOOKING_UP = ("gather",)
"""Operations that read some rows of their first operand."""

LARGE = 1 << 24
"""Bytes of a table that is not to lie in memory twice."""


@dataclass(frozen=True)
class ReadPanels(ModulePass):
    """Has kernels that look rows of a parameter up read its panels, where no other in the graph
    reads the parameter.
    """

    name = "read-panels"
    prepare: bool = True
    least: int = LARGE

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not self.prepare:
            return
        for graph in graphs_of(op):
            for read in [item for item in graph.block.ops if isinstance(item, ReadOp)]:
                if _bytes(read) >= self.least:
                    _read_panels(read)


def _bytes(read: ReadOp) -> int:
    """How large a parameter is."""
    (table,) = read.results
    return prod(shape_of(table)) * element_type_of(table).bytes


def _read_panels(read: ReadOp) -> None:
    """Rewrites those who look a parameter up, if all who read it do, or make panels of it."""
    (table,) = read.results
    users = list(dict.fromkeys(use.operation for use in table.uses))
    kernels = [user for user in users if isinstance(user, FusedKernelOp)]
    found = {user: _panels_of(user) for user in kernels}
    makers = [(user, moves) for user, moves in found.items() if moves is not None]
    others = [user for user, moves in found.items() if moves is None]
    if not makers or not others or len(kernels) < len(users):
        return
    if not all(_looks_up(user, table) for user in others):
        return
    maker, moves = makers[0]
    maker.detach()
    assert read.parent is not None, "a parameter is read in a graph"
    read.parent.insert_op_after(maker, read)
    for user in others:
        _rewrite(user, table, maker.outputs[0], moves)


def _panels_of(kernel: FusedKernelOp) -> list[TensorOp] | None:
    """The movements by which a kernel makes panels; None for others."""
    facts = kernel.arranged
    *moves, last = kernel.block.ops
    if facts is None or TO_PANELS not in facts.values or len(kernel.inputs) != 1:
        return None
    found = [op for op in moves if is_tensor_op(op, "reshape", "transpose")]
    value: SSAValue = kernel.block.args[0]
    for op in found:
        if list(op.operands) != [value]:
            return None
        value = op.results[0]
    alone = len(found) == len(moves) and isinstance(last, FusionReturnOp)
    return found if alone and list(last.operands) == [value] else None  # pyright: ignore


def _looks_up(kernel: FusedKernelOp, table: SSAValue) -> bool:
    """Whether a kernel reads rows of a table alone."""
    arguments = _arguments(kernel, table)
    uses = [use for argument in arguments for use in argument.uses]
    return all(is_tensor_op(use.operation, *LOOKING_UP) and use.index == 0 for use in uses)


def _arguments(kernel: FusedKernelOp, value: SSAValue) -> list[SSAValue]:
    pairs = zip(kernel.block.args, kernel.inputs, strict=True)
    return [argument for argument, given in pairs if given is value]


def _rewrite(
    kernel: FusedKernelOp, table: SSAValue, panels: SSAValue, moves: Sequence[TensorOp]
) -> None:
    """Has a kernel read panels, turned back by what was moved to the table they were made of."""
    for argument in _arguments(kernel, table):
        assert isinstance(argument, BlockArgument)
        kernel.operands[argument.index] = panels
        own = Rewriter.replace_value_with_new_type(argument, panels.type)
        uses = list(own.uses)
        made: list[Operation] = []
        value: SSAValue = own
        emitter = Emitter(made.append)
        for move in reversed(moves):
            value = _undone(emitter, move, value)
        first = kernel.block.first_op
        assert first is not None, "a kernel returns something"
        kernel.block.insert_ops_before(made, first)
        for use in uses:
            use.operation.operands[use.index] = value


def _undone(b: Emitter, move: TensorOp, value: SSAValue) -> SSAValue:
    """What a movement moved."""
    if is_tensor_op(move, "reshape"):
        return b.reshape(value, list(shape_of(move.operands[0])))
    order = move.values["perm"]
    return b.transpose(value, [order.index(axis) for axis in range(len(order))])
