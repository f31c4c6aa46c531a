"""What a program costs when every operation is a kernel of its own: the figure that reports compare
with.

In: the facts of a graph before any rewriting, a device. Out: seconds.
"""

from mgn.dialects.kernel.device import Device
from mgn.dialects.mgn.operation import OPERATIONS, Kind
from mgn.passes.saturate.egraph.view import Signature
from mgn.passes.saturate.encoding.facts import Facts, Leaf, NodeFact
from mgn.passes.saturate.prices.forms import classify
from mgn.passes.saturate.prices.kernel_facts import price_alone


def price_of_separate_kernels(facts: Facts, device: Device) -> float:
    """The sum of the prices of all operations that a kernel can compute, each alone."""
    inline = {handle for handle, _ in facts.new_splats}
    prices: dict[object, float] = {}
    total = 0.0
    for key, handle in facts.handles.items():
        if isinstance(key, Leaf):
            continue
        assert isinstance(key, NodeFact)
        spec = OPERATIONS[key.name]
        if spec.kind is Kind.CONSTANT or not (spec.is_core or spec.kind is Kind.ELEMENTWISE):
            continue
        names = {handle: 0}
        operands = tuple(names.setdefault(item, len(names)) for item in key.operands)
        read = frozenset(names[item] for item in key.operands if item not in inline)
        types = tuple(facts.types(facts.handle_types[item]) for item in key.operands)
        shape = (key.name, key.attributes, key.type, types, operands, read)
        if shape not in prices:
            signature = Signature(
                key.name,
                facts.properties.things[key.attributes],
                facts.handle_types[handle],
                tuple(facts.handle_types[item] for item in key.operands),
            )
            body = [(0, 0, operands)]
            form = classify(body, [signature])
            leaf_types = {
                names[item]: facts.handle_types[item]
                for item in key.operands
                if names[item] in read
            }
            prices[shape] = (
                price_alone(body, form, [0], leaf_types, [signature], device) if form else 0.0
            )
        total += prices[shape]
    return total
