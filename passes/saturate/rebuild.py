"""From chosen kernels back to IR: one `fusion.kernel` each, and nothing else is decided here.

In: a graph, its view, the chosen candidates. Out: the same `mgn.graph`, whose body now holds reads
of parameters, constants that kernels read from memory, kernels and the return.
"""

from collections.abc import Sequence

from xdsl.ir import Block, Operation, Region, SSAValue

from mgn.dialects.fusion import FusedKernelOp, FusionReturnOp
from mgn.dialects.mgn.structure import ConstantOp, GraphOp, ReadOp, ReturnOp
from mgn.passes.saturate.candidates import Candidate, CandidateSet
from mgn.passes.saturate.facts import Leaf
from mgn.passes.saturate.selection import Selection
from mgn.passes.saturate.view import View


def rebuild_graph(graph: GraphOp, view: View, found: CandidateSet, selection: Selection) -> None:
    """Replaces the graph's operations by the chosen kernels."""
    _Rebuilder(graph, view).rebuild(found, selection)


class _Rebuilder:
    def __init__(self, graph: GraphOp, view: View) -> None:
        self.graph = graph
        self.view = view
        self.values: dict[int, SSAValue] = {}
        self.leading: list[Operation] = []
        self.kernels: list[Operation] = []

    def rebuild(self, found: CandidateSet, selection: Selection) -> None:
        for number in selection.kernels:
            candidate = found.candidates[number]
            written = [key for key in candidate.results if selection.writer[key] == number]
            self._kernel(candidate, written)
        returned = [self.values[key] for key in self.view.outputs]
        final = ReturnOp(returned)
        final.location = self.graph.return_op.location
        block = self.graph.block
        for op in reversed(list(block.ops)):
            op.detach()
            op.drop_all_references()
        block.add_ops([*self.leading, *self.kernels, final])

    def _kernel(self, candidate: Candidate, written: Sequence[int]) -> None:
        operands = [self._in_memory(key) for key in candidate.reads]
        block = Block(arg_types=[operand.type for operand in operands])
        inside: dict[int, SSAValue] = dict(zip(candidate.reads, block.args, strict=True))
        for name, number, operand_keys in candidate.body:
            for key in operand_keys:
                if key not in inside:
                    inside[key] = self._constant(key, block)
            signature = self.view.signatures[number]
            op = signature.spec.op_class.create(
                operands=[inside[key] for key in operand_keys],
                result_types=[signature.type],
                properties=dict(signature.properties),
            )
            location = self.view.locations.get(name)
            if location is not None:
                op.location = location
            block.add_op(op)
            inside[name] = op.results[0]
        block.add_op(FusionReturnOp([inside[key] for key in written]))
        types = [inside[key].type for key in written]
        kernel = FusedKernelOp(candidate.kind, operands, types, Region(block))
        location = self.view.locations.get(candidate.results[0])
        if location is not None:
            kernel.location = location
        self.kernels.append(kernel)
        self.values.update(zip(written, kernel.results, strict=True))

    def _in_memory(self, key: int) -> SSAValue:
        """The value of a class in memory: an input, parameter, constant or kernel result."""
        value = self.values.get(key)
        if value is None:
            leaf = self.view.classes[key].leaf
            assert leaf is not None
            value = self.values[key] = self._leaf(leaf, key)
        return value

    def _leaf(self, leaf: Leaf, key: int) -> SSAValue:
        if leaf.kind == "input":
            return self.graph.block.args[leaf.key]
        if leaf.kind == "parameter":
            op: ReadOp | ConstantOp = ReadOp(leaf.key, leaf.type)
        else:
            op = ConstantOp(leaf.key)
        location = self.view.locations.get(key)
        if location is not None:
            op.location = location
        self.leading.append(op)
        return op.result

    def _constant(self, key: int, block: Block) -> SSAValue:
        """A constant inside a kernel's body."""
        leaf = self.view.classes[key].leaf
        assert leaf is not None
        op = ConstantOp(leaf.key)
        block.add_op(op)
        return op.result
