"""The cost of a program in which every operation is a kernel of its own. Reports compare with it.

In: a graph as facts before any rewriting, a device. Out: seconds.
"""

from mgn.dialects.kernel.device import Device
from mgn.dialects.mgn.operation import OPERATIONS, Kind
from mgn.passes.saturate.candidates.commits import copy_seconds
from mgn.passes.saturate.egraph.view import Signature
from mgn.passes.saturate.encoding.encode import EncodedGraph
from mgn.passes.saturate.encoding.facts import Facts, Leaf, NodeFact
from mgn.passes.saturate.prices.forms import classify
from mgn.passes.saturate.prices.kernel_facts import price_alone


def price_of_separate_kernels(encoded: EncodedGraph, states: int, device: Device) -> float:
    """The sum of the prices of separate kernels: one for each operation that a kernel can compute,
    and one for each result that no such operation computes. Copies into states are added: the last
    `states` results are what states hold afterwards, and one that is also another result is copied.
    """
    facts, outputs = encoded.facts, encoded.outputs
    baseline = _Baseline(facts, device)
    kernels = [baseline.of_operation(handle) for handle in facts.handles.values()]
    results = map(baseline.of_result, dict.fromkeys(outputs))
    left = dict.fromkeys(outputs[len(outputs) - states :])
    copied = [facts.handle_types[item] for item in left if outputs.count(item) > 1]
    return sum(kernels) + sum(results) + sum(copy_seconds(type, device) for type in copied)


class _Baseline:
    """Prices of kernels of one operation; equal ones are priced once."""

    def __init__(self, facts: Facts, device: Device) -> None:
        self.facts, self.device = facts, device
        self.inline = {handle for handle, _ in facts.new_splats}
        self.prices: dict[object, float] = {}

    def of_operation(self, handle: int) -> float:
        """The price of an operation; 0 for a leaf and for a constant, which other kernels hold."""
        fact = self.facts.definitions[handle]
        return 0.0 if isinstance(fact, Leaf) or _is_constant(fact) else self._priced(handle, fact)

    def of_result(self, handle: int) -> float:
        """The price of a copy or a constant that is a result; 0 where an operation computes it."""
        fact = self.facts.definitions[handle]
        if isinstance(fact, Leaf):
            type = self.facts.handle_types[handle]
            return self._price(Signature("identity", (), type, (type,)), (0,), {0: handle})
        return self._priced(handle, fact) if _is_constant(fact) else 0.0

    def _priced(self, handle: int, fact: NodeFact) -> float:
        facts, names = self.facts, dict[int, int]()
        spec = OPERATIONS[fact.name]
        if not (spec.is_core or spec.kind is Kind.ELEMENTWISE or handle in facts.standing):
            return 0.0
        operands = tuple(names.setdefault(item, len(names)) for item in fact.operands)
        read = {names[item]: item for item in fact.operands if item not in self.inline}
        types = tuple(facts.types(facts.handle_types[item]) for item in fact.operands)
        shape = (fact.name, fact.attributes, fact.type, types, operands, frozenset(read))
        if shape not in self.prices:
            signature = Signature(
                fact.name,
                facts.properties.things[fact.attributes],
                facts.handle_types[handle],
                tuple(facts.handle_types[item] for item in fact.operands),
            )
            self.prices[shape] = self._price(signature, operands, read)
        return self.prices[shape]

    def _price(
        self, signature: Signature, operands: tuple[int, ...], read: dict[int, int]
    ) -> float:
        """The price of an operation alone; `read` has the values that it reads, by their names."""
        result = len(operands)
        body = [(result, 0, operands)]
        form = classify(body, [signature])
        types = {name: self.facts.handle_types[handle] for name, handle in read.items()}
        if form is None:
            return 0.0
        return price_alone(body, form, [result], types, [signature], self.device)


def _is_constant(fact: NodeFact) -> bool:
    return OPERATIONS[fact.name].kind is Kind.CONSTANT
