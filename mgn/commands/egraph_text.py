"""The e-graph of `saturate` as text: the program for egglog, or the saturated classes as JSON.

In: a module with one graph that is not cut into kernels yet. Out: text. The JSON has the form of
https://github.com/egraphs-good/egraph-serialize, which e-graph viewers read.
"""

import json
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from mgn.commands.errors import UsageError
from mgn.dialects.fusion import FusedKernelOp, LaunchOp
from mgn.dialects.mgn.structure import GraphOp, graphs_of


def egglog_program(module: ModuleOp) -> str:
    """The commands and facts that the engine gets, in order."""
    from mgn.passes.saturate.encode import encode_graph
    from mgn.passes.saturate.engine import saturate_facts
    from mgn.passes.saturate.rules import DEFAULT_CLASSES, rules_of
    from mgn.passes.saturate.saturate import literals_of

    rules = rules_of(DEFAULT_CLASSES)
    encoded = encode_graph(only_graph(module), literals_of(rules))
    return saturate_facts(encoded.facts, rules, keep_program=True).program + "\n"


def egraph_json(module: ModuleOp) -> str:
    """The saturated classes and e-nodes."""
    from mgn.passes.saturate.saturate import saturated_view

    view = saturated_view(only_graph(module))
    nodes: dict[str, Any] = {}
    for key, value in view.classes.items():
        if value.leaf is not None:
            nodes[_node(key, 0)] = _entry(str(value.leaf.kind), key, [])
        for position, member in enumerate(value.members, 1):
            signature = view.signatures[member.signature]
            children = [_first(view, operand) for operand in member.operands]
            nodes[_node(key, position)] = _entry(signature.name, key, children)
    roots = [str(key) for key in view.outputs]
    types = {str(key): {"type": str(value.type)} for key, value in view.classes.items()}
    serialized = {"nodes": nodes, "root_eclasses": roots, "class_data": types}
    return json.dumps(serialized, indent=1) + "\n"


def _entry(operation: str, key: int, children: list[str]) -> dict[str, Any]:
    return {"op": operation, "children": children, "eclass": str(key), "cost": 1.0}


def _node(key: int, position: int) -> str:
    return f"{key}.{position}"


def _first(view: Any, key: int) -> str:
    """A node that stands for a class: JSON children are nodes."""
    return _node(key, 0 if view.classes[key].leaf is not None else 1)


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
