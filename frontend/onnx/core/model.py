"""An ONNX model as plain data: what the rest of this package reads, without ONNX's own classes.

In: nothing. Out: the classes that `reading.py` fills: a model, its graphs, nodes and functions.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

DOMAINS = {"ai.onnx": ""}
"""Other names of a domain."""

Size = int | str | None
"""Of an axis: a number, the name of a dimension, or not said."""


@dataclass(frozen=True)
class Reference:
    """An attribute that is one of the function that its node is in."""

    name: str


@dataclass(frozen=True)
class Input:
    """An input of a graph. `element` is ONNX's number of a type, or what else it is; `shape` is
    None where not even the rank is said. A sequence has the shapes of its tensors, if these are
    said. An optional one may be nothing.
    """

    name: str
    element: int | str
    shape: tuple[Size, ...] | None
    is_sequence: bool = False
    is_optional: bool = False
    shapes: tuple[tuple[int, ...], ...] | None = None

    @property
    def parts(self) -> "tuple[Input, ...]":
        """The tensors of a sequence, each as an input."""
        return tuple(
            Input(f"{self.name}.{number}", self.element, shape)
            for number, shape in enumerate(self.shapes or ())
        )


@dataclass
class Node:
    """A node. `line` is its place in the listing of the model."""

    operator: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    proto: Any = field(repr=False, default=None)
    line: int = 0

    @property
    def graphs(self) -> "Iterator[Graph]":
        """Those among its attributes."""
        return (item for item in self.attributes.values() if isinstance(item, Graph))


@dataclass
class Graph:
    """Nodes in order, with the values that they begin with. The outputs are names."""

    name: str
    inputs: tuple[Input, ...]
    outputs: tuple[str, ...]
    nodes: list[Node]
    initialisers: dict[str, np.ndarray]


@dataclass
class Function:
    """A function: an operator by nodes. `defaults` are those of its attributes."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: list[Node]
    defaults: dict[str, Any]
    opsets: dict[str, int]


@dataclass
class Model:
    """A model: `opsets` has the version of each domain that its nodes are of."""

    file: str
    graph: Graph
    opsets: dict[str, int]
    functions: dict[tuple[str, str], Function]
    lines: list[str] = field(default_factory=list[str])

    @property
    def text(self) -> str:
        """The listing of all nodes, one a line: what places in messages are of."""
        return "\n".join(self.lines) + "\n"

    def list_nodes(self) -> None:
        """Writes the listing, and gives each node its line."""
        self.lines.append(f"graph {self.graph.name}({_names(self.graph.inputs)})")
        self._list(self.graph.nodes, 1)
        for (domain, name), function in self.functions.items():
            self.lines.append(f"function {domain}.{name}({', '.join(function.inputs)})")
            self._list(function.nodes, 1)

    def _list(self, nodes: Sequence[Node], depth: int) -> None:
        for node in nodes:
            self.lines.append("  " * depth + spelled(node))
            node.line = len(self.lines)
            for graph in node.graphs:
                self.lines.append("  " * (depth + 1) + f"graph {graph.name}")
                self._list(graph.nodes, depth + 2)


def spelled(node: Node) -> str:
    """A node on one line: `y = Conv(x, w) strides = [2, 2]`."""
    plain = {key: value for key, value in node.attributes.items() if not isinstance(value, Graph)}
    attributes = ", ".join(f"{key} = {_attribute(value)}" for key, value in plain.items())
    domain = f"{node.domain}." if node.domain else ""
    inputs = ", ".join(item or "_" for item in node.inputs)
    outputs = ", ".join(item or "_" for item in node.outputs)
    return f"{outputs} = {domain}{node.operator}({inputs}) {attributes}".rstrip()


def nodes_of(nodes: Sequence[Node]) -> Iterator[Node]:
    """The nodes, and those of the graphs in them."""
    for node in nodes:
        yield node
        for graph in node.graphs:
            yield from nodes_of(graph.nodes)


def _attribute(value: Any) -> str:
    if isinstance(value, np.ndarray):
        listed = value.tolist() if value.size <= 8 else "…"
        return f"{value.dtype}{list(value.shape)} {listed}"
    if isinstance(value, Reference):
        return f"@{value.name}"
    return str(value)


def _names(inputs: Sequence[Input]) -> str:
    return ", ".join(item.name for item in inputs)


def bound(node: Node, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """A node's attributes, with those of its function in the place of references."""
    found: dict[str, Any] = {}
    for key, value in node.attributes.items():
        if not isinstance(value, Reference):
            found[key] = value
        elif value.name in attributes:
            found[key] = attributes[value.name]
    return found
