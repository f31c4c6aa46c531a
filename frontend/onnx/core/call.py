"""A node as the function of its operator sees it: inputs as values, attributes, what is known.

In: a node whose inputs have values. Out: shapes, attributes, and known arrays; errors that name
what is missing.
"""

from collections.abc import Sequence
from typing import Any, NoReturn, Protocol

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import CallError, Emitter
from mgn.dialects.shapes import Shape, normalise_axis
from mgn.dialects.types import ElementType, element_of, element_of_dtype
from mgn.frontend.onnx.core.known import Known
from mgn.frontend.onnx.core.model import Graph, Node
from mgn.frontend.onnx.core.reading import dtype_of
from mgn.frontend.onnx.core.scope import NOTHING, Scope


class Maker(Protocol):
    """What makes the values: the importer."""

    emitter: Emitter
    known: Known
    narrow: dict[SSAValue, np.dtype[Any]]

    def tensor(self, name: str, array: np.ndarray, largest: int = 1) -> SSAValue:
        """An array of the model."""
        ...

    def blocks(self, name: str, packed: np.ndarray, format: str) -> SSAValue:
        """A parameter of a block format, by its packed bytes."""
        ...

    def run_graph(self, graph: Graph, scope: Scope) -> list[Any]:
        """The outputs of a graph inside."""
        ...


class Call:
    """One node: `c[0]` is its first input, `c.attribute("axis", -1)` an attribute."""

    def __init__(
        self,
        importer: Maker,
        scope: Scope,
        node: Node,
        inputs: Sequence[Any],
        attributes: dict[str, Any],
    ) -> None:
        self.importer, self.scope, self.node = importer, scope, node
        self.inputs, self.attributes = list(inputs), attributes
        self.b: Emitter = importer.emitter

    @property
    def version(self) -> int:
        """The version of the operator's domain."""
        return self.scope.opsets.get(self.node.domain, 1)

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, number: int) -> SSAValue:
        value = self.get(number)
        if value is None:
            self.fail(f"input {number} is missing")
        return value

    def get(self, number: int) -> SSAValue | None:
        """An input; None where it is left out."""
        value = self.inputs[number] if number < len(self.inputs) else None
        if value is NOTHING:
            self.fail(f"input {number} is optional, and holds nothing")
        if value is not None and not isinstance(value, SSAValue):
            self.fail(f"input {number} is a sequence")
        return value

    def sequence(self, number: int) -> list[SSAValue]:
        """An input that is a sequence of tensors."""
        value = self.inputs[number]
        if not isinstance(value, list):
            self.fail(f"input {number} is no sequence")
        return value

    def wants(self, number: int) -> bool:
        """Whether an output is used."""
        return number < len(self.node.outputs) and bool(self.node.outputs[number])

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute, or the default."""
        return self.attributes.get(name, default)

    def choice(self, name: str, *known: str) -> str:
        """A text attribute, which is one of those known; the first is the default."""
        value = self.attribute(name, known[0])
        if value not in known:
            self.fail(f"there is no {name} {value!r:.40}, but {', '.join(filter(None, known))}")
        return value

    def required(self, name: str) -> Any:
        """An attribute that has to be there."""
        if name not in self.attributes:
            self.fail(f"the attribute '{name}' is missing")
        return self.attributes[name]

    def is_known(self, number: int) -> bool:
        """Whether an input is there and has a value already."""
        value = self.get(number)
        return value is not None and self.importer.known.array(value) is not None

    def known(self, number: int) -> np.ndarray:
        """The value of an input. NotKnown where it depends on inputs of the graph."""
        return self.array(self[number], f"input {number}")

    def number_in(self, value: SSAValue) -> SSAValue:
        """A constant of one element without axes, as rules of the e-graph know it; others as they
        are.
        """
        found = self.importer.known.constant(value)
        if found is None or found.size != 1 or not found.ndim:
            return value
        return self.b.constant_array(found.reshape(()))

    def array(self, value: SSAValue, what: str) -> np.ndarray:
        """The array of a value. NotKnown where it depends on inputs of the graph."""
        return self.importer.known.required(value, f"{what} of {self.node.operator}")

    def ints(self, number: int) -> list[int] | None:
        """A known input as a list of integers; None where it is left out."""
        if self.get(number) is None:
            return None
        return [int(item) for item in self.known(number).reshape(-1)]

    def number(self, number: int, default: Any = None) -> Any:
        """A known input of one element; the default where it is left out."""
        if self.get(number) is None:
            return default
        array = self.known(number)
        if array.size != 1:
            self.fail(f"input {number} is one number, not {list(array.shape)}")
        return array.item()

    def ints_of(self, name: str, number: int, moved: int) -> list[int] | None:
        """Integers that are an attribute before a version, and an input from it on."""
        if self.version >= moved:
            return self.ints(number)
        found = self.attribute(name)
        return None if found is None else [int(item) for item in found]

    def axis(self, value: SSAValue, default: int) -> int:
        """The attribute `axis`, counted from the front."""
        return normalise_axis(int(self.attribute("axis", default)), rank(value))

    def dtype(self, name: str, default: Any = None) -> ElementType:
        """An attribute that is an element type."""
        number = self.attribute(name)
        return self.element(np.dtype(default) if number is None else dtype_of(number))

    def wanted(self, name: str) -> np.dtype[Any]:
        """An attribute that is an element type of ONNX, perhaps one that mgn holds in another."""
        dtype = dtype_of(self.required(name))
        if not isinstance(dtype, np.dtype):
            self.fail(f"mgn has no element type {dtype}")
        return dtype

    def type_of(self, value: SSAValue) -> np.dtype[Any]:
        """The element type that the model gives a value."""
        found = self.importer.narrow.get(value, element(value).dtype)
        assert found is not None
        return found

    def narrow(self, value: SSAValue, dtype: np.dtype[Any]) -> SSAValue:
        """A value, which from now on is known to be of a type that mgn does not have."""
        self.importer.narrow[value] = dtype
        return value

    def element(self, dtype: Any) -> ElementType:
        """The element type of a dtype."""
        try:
            return element_of_dtype(dtype)
        except (KeyError, TypeError):
            self.fail(f"mgn has no element type {dtype}")

    def constant(self, value: Any, dtype: Any = None) -> SSAValue:
        """A constant."""
        return self.b.constant_array(np.asarray(value, dtype))

    def like(self, value: float, x: SSAValue) -> SSAValue:
        """A scalar of the element type of another value."""
        return self.b.constant_array(np.asarray(value).astype(element(x).dtype))

    def fail(self, message: str) -> NoReturn:
        """What is wrong with this node."""
        raise CallError(message)


def shape(value: SSAValue) -> Shape:
    """The sizes of a value's axes."""
    assert isinstance(value.type, TensorType)
    return value.type.get_shape()


def rank(value: SSAValue) -> int:
    """How many axes a value has."""
    return len(shape(value))


def element(value: SSAValue) -> ElementType:
    """The element type of a value."""
    return element_of(value.type)
