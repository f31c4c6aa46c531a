"""What graphs that differ in sizes alone have in common, and names for their values and kernels.

In: a graph; or a view and its candidates. Out: a key that such graphs have in common; and names by
which a value or a kernel of one is found in another.

Names decide nothing: rules, kernels and prices are worked out anew for each graph. They say which
kernel of one graph stands where one of another did.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    TensorType,
    i1,
)
from xdsl.ir import Attribute

from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel.device import Device
from mgn.dialects.mgn.structure import GraphOp
from mgn.dialects.types import element_of
from mgn.passes.saturate.candidates.candidates import Candidate
from mgn.passes.saturate.egraph.view import ValueClass, View
from mgn.passes.saturate.rules.rule import Rule

WITHOUT_SIZES = frozenset({"axis", "perm"})
"""Whole numbers among attributes that are no sizes."""


class KernelName(NamedTuple):
    """A kernel by what it writes, must have written before, and its kind."""

    results: tuple[int, ...]
    inputs: frozenset[int]
    kind: KernelKind


def structure_key(
    graph: GraphOp, device: Device, options: object, rules: Sequence[Rule]
) -> Hashable:
    """What a choice depends on besides sizes."""
    values: dict[int, int] = {}
    rows: list[Hashable] = [tuple([_sizeless(item.type) for item in graph.block.args])]
    rows.append(tuple(graph.overwritten))
    for argument in graph.block.args:
        values[id(argument)] = len(values)
    for op in graph.block.ops:
        operands = tuple([values[id(operand)] for operand in op.operands])
        properties = tuple(
            [
                (name, item if name in WITHOUT_SIZES else _sizeless(item))
                for name, item in op.properties.items()
            ]
        )
        for result in op.results:
            values[id(result)] = len(values)
        types = tuple([_sizeless(result.type) for result in op.results])
        rows.append((type(op), operands, properties, types))
    return tuple(rows), repr(device), options, tuple(rules)


def sizes_of(graph: GraphOp) -> str:
    """The shapes of a graph's inputs, for people."""
    names = graph.input_names
    types = [argument.type for argument in graph.block.args]
    return ", ".join(
        f"{name} of {'×'.join(map(str, type.get_shape())) or 'one element'}"
        for name, type in zip(names, types, strict=False)
        if isinstance(type, TensorType)
    )


def _sizeless(item: Attribute) -> Hashable:
    """What is left of a type or an attribute without sizes."""
    if isinstance(item, TensorType):
        return len(item.get_shape()), element_of(item).name
    if isinstance(item, DenseIntOrFPElementsAttr):
        return _sizeless(item.type)
    if isinstance(item, DenseArrayBase | ArrayAttr):
        return type(item), len(item)
    if isinstance(item, IntegerAttr) and item.type != i1:
        return IntegerAttr
    return item


class Names:
    """Numbers for values by how they are computed: those of graphs that differ in sizes are equal.

    A value is named after the e-node of its class that was met first in any graph. Values of one
    name in a graph are told apart by their order.
    """

    def __init__(self) -> None:
        self.numbers: dict[Hashable, int] = {}

    def of(self, view: View) -> dict[int, int]:
        """The name of each class of a view."""
        names: dict[int, int] = {}
        met: dict[int, int] = {}
        for key, value in view.classes.items():
            number = self._number(value, view, names)
            met[number] = occurrence = met.get(number, -1) + 1
            names[key] = self._known((number, occurrence))
        return names

    def _number(self, value: ValueClass, view: View, names: Mapping[int, int]) -> int:
        if value.leaf is not None:
            is_given = value.leaf.kind != "constant"
            return self._known((value.leaf.kind, value.leaf.key if is_given else None))
        return min(
            self._known((view.signatures[item.signature].name, *[names[n] for n in item.operands]))
            for item in value.members
        )

    def _known(self, thing: Hashable) -> int:
        return self.numbers.setdefault(thing, len(self.numbers))


def kernel_name(candidate: Candidate, names: Mapping[int, int]) -> KernelName:
    """The name of a kernel over names of values."""
    return KernelName(
        tuple([names[key] for key in candidate.results]),
        frozenset([names[key] for key in candidate.inputs]),
        candidate.kind,
    )
