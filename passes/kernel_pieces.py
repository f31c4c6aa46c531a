"""Kernels that take the place of one: each computes some values of its body from what is known.

In: a fusion.kernel. Out: kernels before it, each of which computes values of its body, or partial
results of them, from the kernel's inputs and from what those before it wrote.
"""

from collections.abc import Callable, Sequence

from xdsl.ir import Block, Operation, Region, SSAValue

from mgn.dialects.fusion import FusedKernelOp, FusionReturnOp, KernelKind
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.operation import TensorOp

Partial = tuple[TensorOp, SSAValue]
"""An operation of the body, and the partial results of it that are in memory."""


class KernelPieces:
    """Writes the kernels that replace one; `known` holds the values that are already in memory.

    `combine` makes the result of an operation from its partial results.
    """

    def __init__(
        self, fused: FusedKernelOp, combine: Callable[[Emitter, TensorOp, SSAValue], SSAValue]
    ) -> None:
        self.fused, self.combine = fused, combine
        self.known: dict[SSAValue, SSAValue] = dict(
            zip(fused.block.args, fused.inputs, strict=True)
        )
        self.kernels: list[FusedKernelOp] = []

    def add(
        self,
        kind: KernelKind,
        wanted: Sequence[SSAValue],
        partial: Sequence[Partial] = (),
        finish: Callable[[Emitter, list[SSAValue]], list[SSAValue]] = lambda _, values: values,
    ) -> list[SSAValue]:
        """A kernel that computes values of the body; what it returns, `finish` makes of them."""
        stop: set[SSAValue] = {op.results[0] for op, _ in partial}
        needed, inputs = self._needed(wanted, stop)
        outer = [self.known[value] for value in inputs] + [value for _, value in partial]
        block = Block(arg_types=[value.type for value in outer])
        emitter = Emitter(block.add_op)
        values: dict[SSAValue, SSAValue] = dict(zip(inputs, block.args, strict=False))
        for (op, _), argument in zip(partial, block.args[len(inputs) :], strict=True):
            values[op.results[0]] = self.combine(emitter, op, argument)
        for op in self.fused.block.ops:
            if op in needed:
                block.add_op(op.clone(values))
        results = finish(emitter, [values[value] for value in wanted])
        block.add_op(FusionReturnOp(results))
        kernel = FusedKernelOp(kind, outer, [value.type for value in results], Region(block))
        kernel.location = self.fused.location
        assert self.fused.parent is not None
        self.fused.parent.insert_op_before(kernel, self.fused)
        self.kernels.append(kernel)
        return list(kernel.outputs)

    def replace(self) -> list[FusedKernelOp]:
        """The kernels, in the place of the one whose results they now compute."""
        for old, value in zip(self.fused.outputs, self.fused.written, strict=True):
            old.replace_all_uses_with(self.known[value])
        self.fused.detach()
        self.fused.erase()
        return self.kernels

    def _needed(
        self, wanted: Sequence[SSAValue], stop: set[SSAValue]
    ) -> tuple[set[Operation], list[SSAValue]]:
        needed: set[Operation] = set()
        inputs: dict[SSAValue, None] = {}
        pending = [value for value in wanted if value not in stop]
        while pending:
            value = pending.pop()
            if value in self.known:
                inputs[value] = None
            elif isinstance(value.owner, Operation) and value.owner not in needed:
                needed.add(value.owner)
                pending += [operand for operand in value.owner.operands if operand not in stop]
        return needed, [value for value in self.known if value in inputs]
