"""Which values are known to be rounded to what a matrix unit multiplies.

In: a saturated e-graph. Out: the classes of f32 that `round_tf32` gives, or movement of such. Where
one of these lies in memory, a product may take it from there: it need not be rounded on the way.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import TensorType

from mgn.dialects.fusion.forms import MOVED, keeps_rounding
from mgn.dialects.types import element_of
from mgn.passes.saturate.egraph.engine import ClassNode


def rounded_classes(
    nodes: Mapping[int, Sequence[ClassNode]],
    types: Sequence[TensorType],
    values_of: Callable[[ClassNode, int], Mapping[str, Any]],
) -> frozenset[int]:
    """The classes of numbers that tf32 can say. `types` are those of classes, `values_of` gives an
    e-node's attributes.
    """
    pending = [
        key
        for key, members in nodes.items()
        if any(node.name == "round_tf32" for node in members)
        and element_of(types[key]).name == "f32"
    ]
    found = set(pending)
    movers: dict[int, list[int]] = {}
    if pending:
        for key, members in nodes.items():
            for node in members:
                if node.name in MOVED or (
                    node.name == "pad" and keeps_rounding(node.name, values_of(node, key))
                ):
                    movers.setdefault(node.operands[0], []).append(key)
    while pending:
        for key in movers.get(pending.pop(), ()):
            if key not in found:
                found.add(key)
                pending.append(key)
    return frozenset(found)
