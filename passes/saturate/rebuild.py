"""From chosen kernels back to IR: one `fusion.kernel` each, and nothing else is decided here.

In: a graph, its view, the chosen candidates. Out: the same `mgn.graph`, whose body now holds reads
of parameters, constants that kernels read from memory, kernels and the return.
"""

from collections.abc import Mapping

from xdsl.dialects.builtin import UNKNOWN_LOC, StringAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from mgn.dialects.fusion import FusedKernelOp, FusionReturnOp, KernelKind, ScheduleAttr
from mgn.dialects.fusion.forms import rounded_to
from mgn.dialects.mgn.operation import OPERATIONS
from mgn.dialects.mgn.structure import ConstantOp, GraphOp, ReadOp, ReturnOp
from mgn.passes.saturate.candidates.candidates import Candidate, CandidateSet
from mgn.passes.saturate.egraph.view import View
from mgn.passes.saturate.encoding.facts import Leaf
from mgn.passes.saturate.extraction.selection import Selection
from mgn.passes.saturate.prices.matrix_price import unit_of

_KINDS = {kind: StringAttr(str(kind)) for kind in KernelKind}


def rebuild_graph(graph: GraphOp, view: View, found: CandidateSet, selection: Selection) -> None:
    """Replaces the graph's operations by the chosen kernels."""
    _Rebuilder(graph, view).rebuild(found, selection)


class _Rebuilder:
    """Collects the new operations beside the old block, which they then replace as a whole."""

    def __init__(self, graph: GraphOp, view: View) -> None:
        self.graph = graph
        self.view = view
        self.block = Block(arg_types=graph.block.arg_types)
        self.values: dict[int, SSAValue] = {}
        self.leading: list[Operation] = []
        self.kernels: list[Operation] = []
        reads = (op for op in graph.block.ops if isinstance(op, ReadOp))
        self.symbols = {op.parameter_name: op.symbol for op in reads}

    def rebuild(self, found: CandidateSet, selection: Selection) -> None:
        for number in selection.kernels:
            self._kernel(found.candidates[number], selection.writer)
        returned = [self.values[key] for key in self.view.outputs]
        final = ReturnOp(returned)
        final.location = self.graph.return_op.location
        before = self.graph.block
        for old, new in zip(before.args, self.block.args, strict=True):
            new.name_hint = old.name_hint
        self.graph.body.detach_block(before)
        self.graph.body.add_block(self.block)
        self.block.add_ops([*self.leading, *self.kernels, final])

    def _kernel(self, candidate: Candidate, writer: Mapping[int, int]) -> None:
        locations = self.view.locations
        reads = candidate.reads
        operands = [self._in_memory(key) for key in reads]
        block = Block(arg_types=[operand.type for operand in operands])
        inside: dict[int, SSAValue] = dict(zip(reads, block.args, strict=True))
        on_unit = unit_of(candidate.template.facts) == "tf32"
        shown: dict[SSAValue, SSAValue] = {}
        for name, number, operand_keys in candidate.body:
            for key in operand_keys:
                if key not in inside:
                    inside[key] = self._constant(key, block)
            signature = self.view.signatures[number]
            given = [inside[key] for key in operand_keys]
            for place in signature.rounded if on_unit else ():
                value = given[place]
                if value not in shown:
                    shown[value] = _shown_rounded(value, block)
                given[place] = shown[value]
            op = signature.spec.op_class.create(
                operands=given,
                result_types=[signature.type],
                properties=signature.property_dict,
                location=locations.get(name, UNKNOWN_LOC),
            )
            block.add_op(op)
            inside[name] = op.results[0]
        results = [inside[key] for key in candidate.results]
        block.add_op(FusionReturnOp.create(operands=results, location=UNKNOWN_LOC))
        kernel = FusedKernelOp.create(
            operands=operands,
            result_types=[result.type for result in results],
            properties=self._properties(candidate),
            regions=[Region(block)],
            location=locations.get(candidate.results[0], UNKNOWN_LOC),
        )
        self.kernels.append(kernel)
        for key, result in zip(candidate.results, kernel.results, strict=True):
            if writer.get(key) == candidate.number:
                self.values[key] = result

    def _properties(self, candidate: Candidate) -> dict[str, Attribute]:
        facts = candidate.template.facts
        kind: dict[str, Attribute] = {"kind": _KINDS[candidate.kind]}
        return {**kind, "arranged": ScheduleAttr.of(**dict(facts))} if facts else kind

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
            return self.block.args[leaf.key]
        if leaf.kind in ("parameter", "packed"):
            made, properties = ReadOp, {"symbol": self.symbols[leaf.key]}
        else:
            made, properties = ConstantOp, {"value": leaf.key}
        location = self.view.locations.get(key, UNKNOWN_LOC)
        op = made.create(result_types=[leaf.type], properties=properties, location=location)
        self.leading.append(op)
        return op.results[0]

    def _constant(self, key: int, block: Block) -> SSAValue:
        """A constant inside a kernel's body."""
        leaf = self.view.classes[key].leaf
        assert leaf is not None
        op = ConstantOp.create(
            result_types=[leaf.type], properties={"value": leaf.key}, location=UNKNOWN_LOC
        )
        block.add_op(op)
        return op.results[0]


def _shown_rounded(value: SSAValue, block: Block) -> SSAValue:
    """A value that is rounded to tf32 where that can be seen in a kernel's body: it may have been
    rounded where it was written.
    """
    if rounded_to(value) == "tf32":
        return value
    op = OPERATIONS["round_tf32"].op_class.create(operands=[value], result_types=[value.type])
    block.add_op(op)
    return op.results[0]
