"""What a run of saturate keeps where its choice is to be explained; otherwise nothing is kept.

In: the run itself, which fills a `SaturateTrace` that it is given. Out: the program's operations as
they were encoded, every application of a rule in order, all candidates, and those that were chosen.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from xdsl.ir import Operation, SSAValue

from mgn.dialects.mgn.attributes import same_value
from mgn.dialects.mgn.operation import OperationSpec, TensorOp
from mgn.dialects.mgn.structure import GraphOp
from mgn.dialects.places import FORWARD, phase_of, text_place
from mgn.dialects.types import ElementType, spelling
from mgn.passes.saturate.candidates.candidates import CandidateSet
from mgn.passes.saturate.egraph.engine import Application, SaturatedGraph
from mgn.passes.saturate.egraph.view import View
from mgn.passes.saturate.encoding.encode import EncodedGraph, Encoder, expands
from mgn.passes.saturate.extraction.selection import Selection
from mgn.passes.saturate.rules.rule import Rule


@dataclass(frozen=True)
class Place:
    """A place in a program's text, counted from 1."""

    file: str
    line: int
    column: int


@dataclass(frozen=True)
class SourceOperation:
    """An operation of the program as saturate got it; values are known by their handles.

    `parts` are what a composite's decomposition computes on the way; `phase` is the part of a
    training step that it belongs to.
    """

    name: str
    attributes: str
    type: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    place: Place | None
    parts: tuple[int, ...] = ()
    phase: str = FORWARD


@dataclass
class SaturateTrace:
    """One run of saturate on one graph."""

    operations: list[SourceOperation] = field(default_factory=list[SourceOperation])
    names: dict[int, str] = field(default_factory=dict[int, str])
    outputs: dict[str, int] = field(default_factory=dict[str, int])
    given_unions: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    applications: list[Application] = field(default_factory=list[Application])
    rules: dict[str, Rule] = field(default_factory=dict[str, Rule])
    saturated: SaturatedGraph | None = None
    view: View | None = None
    found: CandidateSet | None = None
    selection: Selection | None = None

    def take(self, other: "SaturateTrace") -> None:
        """Becomes what another one is."""
        vars(self).update(vars(other))

    def note_program(self, graph: GraphOp, encoded: EncodedGraph) -> None:
        """Keeps the operations of a graph, which the rebuilt graph no longer has."""
        handles = encoded.handles
        self.given_unions = list(encoded.facts.new_unions)
        recorder = _Parts(encoded.facts)
        for name, argument in graph.named_inputs:
            self.names.setdefault(handles[argument], name)
        for name, argument in graph.named_states:
            self.names.setdefault(handles[argument], f"state {name}")
        for op in graph.block.ops:
            if isinstance(op, TensorOp) and op.results[0] in handles:
                self.operations.append(_source_operation(op, handles, recorder.of(op, handles)))
        for name, value in graph.named_results:
            self.outputs[name] = handles[value]
        for name, value in graph.named_written:
            self.outputs[f"state {name}"] = handles[value]
        encoded.facts.new_unions[:] = self.given_unions


class _Parts(Encoder):
    """Encodes operations once more, which makes no new e-nodes, and notes the handles met."""

    def of(self, op: TensorOp, handles: Mapping[SSAValue, int]) -> tuple[int, ...]:
        """The handles of what an operation's decomposition computes."""
        if not expands(op.spec):
            return ()
        self.seen: dict[int, None] = {}
        self.encode(op, dict(handles))
        outside = {handles[value] for value in (*op.operands, *op.results)}
        return tuple(handle for handle in self.seen if handle not in outside)

    def encode(self, op: Operation, handles: dict[SSAValue, int]) -> None:
        super().encode(op, handles)
        if isinstance(op, TensorOp):
            self.seen.update(dict.fromkeys(handles[result] for result in op.results))


def _source_operation(
    op: TensorOp, handles: Mapping[SSAValue, int], parts: tuple[int, ...]
) -> SourceOperation:
    return SourceOperation(
        name=op.spec.name,
        attributes=attributes_text(op.spec, op.values),
        type=", ".join(spelling(result.type) for result in op.results),
        operands=tuple(handles[operand] for operand in op.operands),
        results=tuple(handles[result] for result in op.results),
        place=place_of(op),
        parts=parts,
        phase=phase_of(op.location),
    )


def attributes_text(spec: OperationSpec, values: Mapping[str, Any]) -> str:
    """The attributes that differ from their defaults: `axis = -1, keepdims = True`."""
    shown = {
        item.name: values[item.name]
        for item in spec.attributes
        if values.get(item.name) is not None and not same_value(values[item.name], item.default)
    }
    return ", ".join(f"{name} = {_shown(value)}" for name, value in shown.items())


def _shown(value: Any) -> str:
    if isinstance(value, ElementType):
        return value.name
    return str(list(value)) if isinstance(value, tuple) else str(value)


def place_of(op: Operation) -> Place | None:
    """Where an operation stands in its program's text; None where that is not known."""
    location = text_place(op.location)
    if location is None:
        return None
    return Place(location.filename.data, location.line.data, location.column.data)
