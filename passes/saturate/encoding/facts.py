"""The e-graph's vocabulary: numbers for types, attributes and constants, and the e-nodes known to
Python.

In: operations with their attributes and types. Out: one integer *handle* a value, and facts to load
into egglog.

An e-node is an operation's name with all that fixes its value: attributes, type, operands. Equal
e-nodes get one handle here already; that different handles mean the same value is for egglog to
find out.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, LocationAttr, TensorType
from xdsl.ir import Attribute

from mgn.dialects.mgn.operation import OperationSpec, encode_attributes
from mgn.dialects.mgn.structure import array_of
from mgn.dialects.types import ElementType, element_of

Properties = tuple[tuple[str, Attribute], ...]


@dataclass(frozen=True)
class Leaf:
    """A value that no operation computes: `kind` is input, parameter, constant, or packed, which is
    the codes of a parameter that has a block format.
    """

    kind: str
    key: Any
    type: TensorType

    @property
    def prepares(self) -> bool:
        """Whether what is computed of it alone may be kept from run to run. Of what is packed it is
        not: that would take the memory that packing saves.
        """
        return self.kind in ("parameter", "constant")


class Interner:
    """Numbers things in order of first appearance; a thing seen before is known without hashing."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}
        self.things: list[Any] = []
        self._seen: dict[int, tuple[Any, int]] = {}

    def __call__(self, thing: Any) -> int:
        seen = self._seen.get(id(thing))
        if seen is not None:
            return seen[1]
        number = self.numbers.get(thing)
        if number is None:
            number = self.numbers[thing] = len(self.things)
            self.things.append(thing)
        self._seen[id(thing)] = (thing, number)
        return number


class NodeFact(NamedTuple):
    """One e-node: constructor, attributes, type, operands' handles."""

    name: str
    attributes: int
    type: int
    operands: tuple[int, ...]


@dataclass
class Facts:
    """All handles, and what has not been loaded yet.

    `literals` are the numbers that rules name: a constant that equals one of them, rounded to the
    constant's element type, is that number. `definitions` holds the e-node or leaf of each handle,
    None for a mere name, `type_numbers` the number of its type; `arrays` and `origins` what
    `definitions.py` found out from them, and `looks` counts how often it was asked. Handles
    below `given` were there before any rule acted. `readers` says how many of the program's e-nodes
    read a value; `results` keeps the types and attributes of operations that rules make. What is
    `standing` is a composite that is not there as its parts besides.
    """

    literals: Sequence[float] = ()
    types: Interner = field(default_factory=Interner)
    properties: Interner = field(default_factory=Interner)
    leaves: Interner = field(default_factory=Interner)
    splats: Interner = field(default_factory=Interner)
    handles: dict[Any, int] = field(default_factory=dict[Any, int])
    definitions: list[Any] = field(default_factory=list[Any])
    handle_types: list[TensorType] = field(default_factory=list[TensorType])
    type_numbers: list[int] = field(default_factory=list[int])
    locations: dict[int, LocationAttr] = field(default_factory=dict[int, LocationAttr])
    arrays: dict[int, Any] = field(default_factory=dict[int, Any])
    origins: dict[int, Any] = field(default_factory=dict[int, Any])
    bases: dict[Any, float | None] = field(default_factory=dict[Any, float | None])
    looks: int = 0
    given: int = 0
    standing: set[int] = field(default_factory=set[int])
    readers: Counter[int] = field(default_factory=Counter[int])
    results: dict[Any, tuple[TensorType, Properties]] = field(
        default_factory=dict[Any, tuple[TensorType, Properties]]
    )
    new_nodes: list[tuple[int, NodeFact]] = field(default_factory=list[tuple[int, NodeFact]])
    new_leaves: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    new_splats: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    new_unions: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    def node(
        self,
        spec: OperationSpec,
        operands: Sequence[int],
        properties: Properties,
        type: TensorType,
        location: LocationAttr | None = None,
    ) -> int:
        """The handle of an e-node."""
        fact = NodeFact(spec.name, self.properties(properties), self.types(type), tuple(operands))
        handle = self.handles.get(fact)
        if handle is None:
            handle = self._new_handle(fact, type, location)
            self.new_nodes.append((handle, fact))
            if spec.name == "full":
                value = dict(properties)["value"]
                self._note_splat(handle, value.value.data, element_of(type))  # pyright: ignore
        return handle

    def inferred(
        self, spec: OperationSpec, types: Sequence[TensorType], values: Mapping[str, Any]
    ) -> tuple[TensorType, Properties]:
        """The type and the attributes, as an e-node keeps them, of an operation with one result.
        ShapeError where operands of such types do not fit.
        """
        plain = all(_is_plain(value) for value in values.values())
        key = (spec.name, tuple(map(self.types, types)), tuple(values.items())) if plain else None
        known = self.results.get(key)
        if known is None:
            (type,) = spec.infer_types(types, values)
            known = type, properties_of(spec, values)
            if plain:
                self.results[key] = known
        return known

    def leaf(self, leaf: Leaf, location: LocationAttr | None = None) -> int:
        """The handle of a leaf; equal constants share one."""
        handle = self.handles.get(leaf)
        if handle is None:
            handle = self._new_handle(leaf, leaf.type, location)
            self.new_leaves.append((handle, self.types(leaf.type), self.leaves(leaf)))
            if leaf.kind == "constant":
                self._note_constant(handle, leaf.key)
        return handle

    def restate(
        self, fact: "NodeFact | Leaf", type: TensorType, location: LocationAttr | None
    ) -> int:
        """The handle of an e-node or leaf of facts that share this one's numbers; its operands are
        handles of this one. What is known of its elements is not restated.
        """
        handle = self._new_handle(fact, type, location)
        if isinstance(fact, Leaf):
            self.new_leaves.append((handle, self.types(type), self.leaves(fact)))
        else:
            self.new_nodes.append((handle, fact))
        return handle

    def name(self, type: TensorType) -> int:
        """A handle for a value that no e-node is entered for here."""
        self.definitions.append(None)
        self.handle_types.append(type)
        self.type_numbers.append(self.types(type))
        return len(self.handle_types) - 1

    def union(self, left: int, right: int) -> None:
        """Notes that two handles are one value. ValueError where their types differ."""
        if self.handle_types[left] != self.handle_types[right]:
            raise ValueError("values of different types cannot be equal")
        if left != right:
            self.new_unions.append((left, right))

    def splat(self, value: float, element: ElementType) -> int:
        """The number of a constant's value."""
        return self.splats(number_key(self._literal(value, element)))

    def splat_of_literal(self, value: float) -> int:
        return self.splats(number_key(value))

    def splat_value(self, number: int) -> float:
        """The value that `splat` numbered."""
        return self.splats.things[number][0]

    def _new_handle(self, key: Any, type: TensorType, location: LocationAttr | None) -> int:
        handle = self.handles[key] = len(self.handle_types)
        self.definitions.append(key)
        self.handle_types.append(type)
        self.type_numbers.append(self.types(type))
        if location is not None:
            self.locations[handle] = location
        return handle

    def _note_constant(self, handle: int, value: DenseIntOrFPElementsAttr) -> None:
        first = splat_number(value)
        if first is not None:
            self._note_splat(handle, first, element_of(value.get_element_type()))

    def _note_splat(self, handle: int, value: float, element: ElementType) -> None:
        if not math.isnan(value):
            self.new_splats.append((handle, self.splat(value, element)))

    def _literal(self, value: float, element: ElementType) -> float:
        if not element.is_float or element.dtype is None:
            return value
        for literal in self.literals:
            if float(literal).is_integer():
                continue
            if float(element.dtype.type(literal)) == value:
                return literal
        return value


def _is_plain(value: object) -> bool:
    """Whether values of an attribute that are equal to this one are the same; -0 is not 0."""
    if isinstance(value, tuple):
        return all(_is_plain(item) for item in value)  # pyright: ignore[reportUnknownVariableType]
    return value is None or isinstance(value, int | str)


def number_key(value: float) -> tuple[float, bool]:
    """A key under which numbers are equal when they are the same constant: 0 and -0 are not."""
    return value, math.copysign(1.0, value) < 0


def splat_number(value: DenseIntOrFPElementsAttr) -> float | None:
    """The one value of a constant's elements; None where they differ or there are none."""
    array = array_of(value)
    if array.size == 0:
        return None
    flat = array.reshape(-1)
    first = flat[0]
    if array.size > 1 and flat.tobytes() != first.tobytes() * flat.size:
        return None
    number = first.item()
    return float(number) if isinstance(number, float) else int(number)


def properties_of(spec: OperationSpec, values: Mapping[str, Any]) -> Properties:
    """Attribute values as an e-node keeps them: encoded, in order, absent ones left out."""
    return tuple(sorted(encode_attributes(spec, values).items()))
