"""Results of a graph that lie in one memory, as views of a tensor and the tensor do.

In: an FX graph that AOT autograd has made, and which of its results a caller sees. Out: the views
among these, as calls at the graph's end that PyTorch makes: a write to one result is then seen in
the others, as in eager mode. AOT autograd leaves that to backends where no gradient flows.
"""

import operator
from collections import Counter
from typing import Any


def is_view(node: Any) -> bool:
    """Whether a node is a view of its first argument, or one of several such views."""
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        return is_view(node.args[0])
    schema = getattr(node.target, "_schema", None)
    found = [] if schema is None else [item.alias_info for item in schema.returns]
    return bool(found) and all(item is not None and not item.is_write for item in found)


def _chain(node: Any) -> list[Any]:
    """The views that lead to a node, the last first; then what all of them see."""
    chain = [node]
    while is_view(chain[-1]):
        chain.append(chain[-1].args[0])
    return chain


def views_at_end(graph: Any, seen: int) -> set[Any]:
    """Puts those of the first results, so many as are seen, that are views of what another one sees
    at the graph's end. The calls of these views, which no other call uses.
    """
    output = next(iter(reversed(graph.nodes)))
    results = list(output.args[0])
    chains = [_chain(item) if hasattr(item, "op") else [] for item in results[:seen]]
    distinct = {chain[0]: chain[-1] for chain in chains if chain}
    shared = Counter(distinct.values())
    made: dict[Any, Any] = {}
    for chain in chains:
        if len(chain) < 2 or shared[chain[-1]] < 2:
            continue
        made[chain[-1]] = chain[-1]
        for node in reversed(chain[:-1]):
            if node not in made:
                with graph.inserting_before(output):
                    made[node] = graph.node_copy(node, made.__getitem__)
    output.args = ([made.get(item, item) if hasattr(item, "op") else item for item in results],)
    for node in reversed([node for node in made if not node.users and made[node] is not node]):
        graph.erase_node(node)
    return {copied for node, copied in made.items() if copied is not node}
