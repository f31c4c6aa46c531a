"""The e-graph of `saturate` as text: the program for egglog, or the saturated classes as JSON.

In: a module with one graph that is not cut into kernels yet. Out: text.

The egglog program holds the declarations, the rules' queries, the facts in the order in which they
were loaded, and the runs between: egglog alone comes to the same classes, which the checks at its
end ask. It has one command a line, so that it can be fed in pieces. Comments say what the numbers
of types, attributes and constants stand for. The JSON has the form of
https://github.com/egraphs-good/egraph-serialize, which e-graph viewers read.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from mgn.commands.options.errors import UsageError
from mgn.diagnostics import printable
from mgn.dialects.fusion import FusedKernelOp, LaunchOp
from mgn.dialects.mgn.operation import OPERATIONS
from mgn.dialects.mgn.structure import GraphOp, array_of, graphs_of
from mgn.dialects.types import spelling
from mgn.passes.saturate.egraph.engine import ClassNode, SaturatedGraph, saturate_facts
from mgn.passes.saturate.encoding.encode import encode_graph
from mgn.passes.saturate.encoding.facts import Leaf
from mgn.passes.saturate.explain.trace import SaturateTrace, attributes_text
from mgn.passes.saturate.rules.table import DEFAULT_CLASSES, rules_of
from mgn.passes.saturate.saturate import literals_of
from mgn.passes.thread_states import thread_states

SECONDS = 60.0
"""For saturation, which is not cut short here as in a compilation."""


@dataclass(frozen=True)
class _Saturated:
    graph: SaturatedGraph
    trace: SaturateTrace


def egglog_program(module: ModuleOp) -> str:
    """The commands and facts that the engine gets, in order, and checks of what came of them."""
    saturated = _saturate(module, keep_program=True)
    lines = [
        *map(printable, _legend(saturated)),
        saturated.graph.program,
        *_checks(saturated.graph),
    ]
    return "\n".join(lines) + "\n"


def egraph_json(module: ModuleOp) -> str:
    """The saturated classes with all of their e-nodes."""
    saturated = _saturate(module)
    graph = saturated.graph
    nodes: dict[str, Any] = {}
    for key, leaves in graph.leaves.items():
        for position, number in enumerate(leaves):
            label = _leaf(graph.facts.leaves.things[number], saturated.trace, key)
            nodes[f"{key}.leaf{position}"] = _entry(label, key, [])
    for key, members in graph.nodes.items():
        for position, node in enumerate(members):
            children = [_first(graph, operand) for operand in node.operands]
            nodes[f"{key}.{position}"] = _entry(_label(graph, node), key, children)
    roots = [str(graph.class_of[handle]) for handle in saturated.trace.outputs.values()]
    types = {
        str(key): {"type": spelling(graph.facts.handle_types[key])}
        for key in sorted({*graph.nodes, *graph.leaves})
    }
    serialized = {"nodes": nodes, "root_eclasses": roots, "class_data": types}
    return json.dumps(serialized, indent=1) + "\n"


def _saturate(module: ModuleOp, keep_program: bool = False) -> _Saturated:
    graph = only_graph(module)
    thread_states(graph)
    rules = rules_of(DEFAULT_CLASSES)
    encoded = encode_graph(graph, literals_of(rules))
    trace = SaturateTrace()
    trace.note_program(graph, encoded)
    saturated = saturate_facts(encoded.facts, rules, SECONDS, keep_program, widen=True)
    return _Saturated(saturated, trace)


def _legend(saturated: _Saturated) -> Iterator[str]:
    """What the numbers of a program stand for, as comments."""
    facts, trace = saturated.graph.facts, saturated.trace
    yield "; one command a line: egglog's parser wants some hundred lines at a time"
    yield "; (N h) is the value of handle h; an e-node has the numbers of its attributes and type"
    for number, type in enumerate(facts.types.things):
        yield f"; type {number} = {spelling(type)}"
    for number, properties in enumerate(facts.properties.things):
        values = ", ".join(f"{name} = {value}" for name, value in properties)
        yield f"; attributes {number} = {{{values}}}"
    for number, value in enumerate(facts.splats.things):
        yield f"; splat {number} = {value[0]:.17g}"
    for leaf, handle in facts.handles.items():
        if isinstance(leaf, Leaf):
            yield f"; handle {handle} = {_leaf(leaf, trace, handle)}"
    for operation in trace.operations:
        line = "" if operation.place is None else f" of line {operation.place.line}"
        for handle in operation.results:
            yield f"; handle {handle} = {operation.name}{line} : {operation.type}"
    for name, handle in trace.outputs.items():
        yield f'; output "{name}" = handle {handle}'


def _checks(graph: SaturatedGraph) -> Iterator[str]:
    """Every handle is in its class, and the smallest handle of the class is its name."""
    for handle, key in sorted(graph.class_of.items()):
        if handle == key:
            yield f"(check (= {key} (handle (N {key}))))"
        else:
            yield f"(check (= (N {key}) (N {handle})))"


def _leaf(leaf: Leaf, trace: SaturateTrace, handle: int) -> str:
    if leaf.kind == "input":
        return f"input {trace.names.get(handle, leaf.key)}"
    if leaf.kind in ("parameter", "packed"):
        return f"parameter {leaf.key}"
    array = array_of(leaf.key)
    return f"constant {array.item()}" if array.size == 1 else f"constant {spelling(leaf.type)}"


def _label(graph: SaturatedGraph, node: ClassNode) -> str:
    """An operation with its attributes."""
    spec = OPERATIONS[node.name]
    stored = dict(graph.facts.properties.things[node.attributes])
    values = {
        item.name: item.kind.decode(stored[item.name])
        for item in spec.attributes
        if item.name in stored
    }
    return f"{node.name} {attributes_text(spec, values)}".strip()


def _entry(operation: str, key: int, children: list[str]) -> dict[str, Any]:
    return {"op": operation, "children": children, "eclass": str(key), "cost": 1.0}


def _first(graph: SaturatedGraph, key: int) -> str:
    """A node that stands for a class: JSON children are nodes."""
    return f"{key}.leaf0" if key in graph.leaves else f"{key}.0"


def only_graph(module: ModuleOp) -> GraphOp:
    """The graph of a module. UsageError where there is not one, or it has kernels already."""
    graphs = list(graphs_of(module))
    if not graphs:
        raise UsageError("the program has no graph; this target wants one not yet lowered")
    if len(graphs) != 1:
        names = ", ".join(graph.sym_name.data for graph in graphs)
        raise UsageError(f"this target takes one graph; --graph chooses from {names}")
    if any(isinstance(op, FusedKernelOp | LaunchOp) for op in graphs[0].block.ops):
        raise UsageError("the graph is cut into kernels already; this target wants it before")
    return graphs[0]
