"""From a graph to e-graph facts: one e-node an operation, composites together with their
decomposition.

In: an `mgn.graph`. Out: `Facts`, and the handles of the values the graph returns.

    %y = mgn.softmax(%x) axis = -1   ⟶   y = softmax(x), y = div(e, s), e = exp(…), s = sum(e), …

A composite is expanded down to core operations and elementwise composites: those a kernel computes
as they stand.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import LocationAttr, TensorType, UnknownLoc
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mgn.diagnostics import WrongType
from mgn.dialects.block_formats import is_codes
from mgn.dialects.fusion.forms import WHOLE_COMPOSITES
from mgn.dialects.mgn.decompose import Decomposition, decompose_signature, decomposition_of
from mgn.dialects.mgn.operation import Kind, OperationSpec, TensorOp
from mgn.dialects.mgn.structure import ConstantOp, GraphOp, ReadOp, ReturnOp
from mgn.passes.saturate.encoding.facts import Facts, Leaf, NodeFact, Properties
from mgn.passes.wrong_level import WrongLevel


@dataclass
class EncodedGraph:
    """A graph as facts: the handle of each SSA value, those returned, how many operations there
    were, and how many values.
    """

    facts: Facts
    handles: dict[SSAValue, int]
    outputs: list[int]
    operations: int
    values: int


def encode_graph(
    graph: GraphOp,
    literals: Sequence[float] = (),
    stands: Callable[[TensorOp], bool] = lambda op: False,
) -> EncodedGraph:
    """The facts that say what a graph computes. A composite that `stands` is not there as its parts
    besides.
    """
    facts = Facts(literals)
    handles: dict[SSAValue, int] = {}
    for index, argument in enumerate(graph.block.args):
        handles[argument] = facts.leaf(Leaf("input", index, tensor_type(argument)))
    needed = _needed(graph)
    encoder = Encoder(facts, stands)
    operations = 0
    for op in graph.block.ops:
        if op not in needed:
            continue
        operations += isinstance(op, TensorOp)
        encoder.encode(op, handles)
    for fact in facts.definitions:
        facts.readers.update(set(fact.operands) if isinstance(fact, NodeFact) else ())
    outputs = [handles[value] for value in graph.results_returned]
    return EncodedGraph(facts, handles, outputs, operations, len(facts.definitions))


def tensor_type(value: SSAValue) -> TensorType:
    """The type of a value of the language. TypeError where it is no tensor."""
    if not isinstance(value.type, TensorType):
        raise WrongType(f"expected a tensor, got {value.type}")
    return value.type


def expands(spec: OperationSpec) -> bool:
    """Whether kernels cannot compute an operation as it stands."""
    return not spec.is_core and (spec.kind is not Kind.ELEMENTWISE or spec.several_results)


MOST_JOINED = 32
"""Operands of a concat in the e-graph."""


class Encoder:
    """Enters operations into facts; a block's values are known by their handles."""

    def __init__(self, facts: Facts, stands: Callable[[TensorOp], bool] = lambda op: False) -> None:
        self.facts, self.stands = facts, stands
        self._known: dict[object, tuple[Properties, list[Attribute]]] = {}

    def encode(self, op: Operation, handles: dict[SSAValue, int]) -> None:
        """Enters one operation, whose operands have handles, and gives its results theirs."""
        location = _location(op)
        if isinstance(op, ReturnOp):
            return
        if isinstance(op, ReadOp):
            kind = "packed" if is_codes(op.parameter_name) else "parameter"
            leaf = Leaf(kind, op.parameter_name, tensor_type(op.result))
            handles[op.result] = self.facts.leaf(leaf, location)
        elif isinstance(op, ConstantOp):
            leaf = Leaf("constant", op.value, tensor_type(op.result))
            handles[op.result] = self.facts.leaf(leaf, location)
        elif isinstance(op, TensorOp):
            operands = [handles[operand] for operand in op.operands]
            results = self._tensor_op(op, operands, location)
            handles.update(zip(op.results, results, strict=True))
        else:
            before = "saturate comes after differentiate, thread-states and simplify, and once"
            raise WrongLevel("saturate", op, "operation on whole tensors", before)

    def enter(
        self,
        spec: OperationSpec,
        operands: Sequence[int],
        values: Mapping[str, Any],
        location: LocationAttr | None,
    ) -> int:
        """Enters an operation that a rule makes, from canonical attributes; ShapeError where the
        operands do not fit. A composite that a kernel computes as it stands is made of its parts,
        and so not expanded into them again.
        """
        types = [self.facts.handle_types[operand] for operand in operands]
        type, properties = self.facts.inferred(spec, types, values)
        known = len(self.facts.handle_types)
        handle = self.facts.node(spec, operands, properties, type, location)
        if handle == known and expands(spec) and spec.name not in WHOLE_COMPOSITES:
            parts = self._expand(decompose_signature(spec, types, values), operands, location)
            self.facts.union(handle, parts[0])
        return handle

    def _tensor_op(
        self, op: TensorOp, operands: Sequence[int], location: LocationAttr | None
    ) -> list[int]:
        if expands(op.spec) and op.spec.several_results:
            return self._expand(decomposition_of(op), operands, location)
        if op.spec.name == "concat":
            operands = self._few(op, operands, location)
        properties = self._properties(op)
        handle = self.facts.node(
            op.spec, operands, properties, tensor_type(op.results[0]), location
        )
        if op.spec.name in WHOLE_COMPOSITES and self.stands(op):
            self.facts.standing.add(handle)
        elif expands(op.spec):
            parts = self._expand(decomposition_of(op), operands, location)
            self.facts.union(handle, parts[0])
        return [handle]

    def _few(
        self, op: TensorOp, operands: Sequence[int], location: LocationAttr | None
    ) -> Sequence[int]:
        """A concat's operands, many of them joined by concats before: egglog's time and memory
        grow with the square of how many an operation has.
        """
        while len(operands) > MOST_JOINED:
            groups = [
                operands[start : start + MOST_JOINED]
                for start in range(0, len(operands), MOST_JOINED)
            ]
            operands = [
                self.enter(op.spec, group, op.values, location) if len(group) > 1 else group[0]
                for group in groups
            ]
        return operands

    def _properties(self, op: TensorOp) -> Properties:
        """An operation's attributes in order: one tuple for the same attribute objects."""
        key = (id(op.spec), *((name, id(value)) for name, value in op.properties.items()))
        known = self._known.get(key)
        if known is None:
            made: Properties = tuple(sorted(op.properties.items()))
            known = self._known[key] = (made, list(op.properties.values()))
        return known[0]

    def _expand(
        self, expansion: Decomposition, operands: Sequence[int], location: LocationAttr | None
    ) -> list[int]:
        inner: dict[SSAValue, int] = dict(zip(expansion.block.args, operands, strict=True))
        for step in expansion.block.ops:
            self.encode(step, inner)
            if location is not None and step.results:
                self.facts.locations.setdefault(inner[step.results[0]], location)
        return [inner[value] for value in expansion.results]


def _location(op: Operation) -> LocationAttr | None:
    return None if isinstance(op.location, UnknownLoc) else op.location


def _needed(graph: GraphOp) -> set[Operation]:
    """The operations that the returned values depend on."""
    needed: set[Operation] = {graph.return_op}
    pending = list(graph.results_returned)
    while pending:
        owner = pending.pop().owner
        if isinstance(owner, Block) or owner in needed:
            continue
        needed.add(owner)
        pending.extend(owner.operands)
    return needed
