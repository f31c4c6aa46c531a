"""FX graphs of ATen operators to graphs of the `mgn` dialect.

In: the nodes of an FX graph, each with the type of its value in `meta["val"]`; where the values of
those come from that are not computed; and the nodes that are results. Out: the operations of a
module. Values keep the names of their nodes, and operations the lines of the Python program that
made them.
"""

import inspect
import linecache
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr, TensorType
from xdsl.ir import Block, Operation, Region, SSAValue

from mgn.diagnostics import Diagnostic, DiagnosticsError
from mgn.dialects.mgn.build import CallError, Emitter
from mgn.dialects.mgn.composite import shape_of
from mgn.dialects.mgn.structure import GraphOp, ParamOp, ReadOp, ReturnOp
from mgn.dialects.shapes import ShapeError
from mgn.dialects.types import element_of, tensor
from mgn.frontend.torch.arrays import element_of_torch
from mgn.frontend.torch.operators import OPERATORS
from mgn.frontend.torch.table import Build, Call, Unsupported, as_element

LINE = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
NAMED = re.compile(r"[A-Za-z_]\w*\Z")

LEFT_OUT = {"dtype", "layout", "device", "pin_memory", "memory_format", "non_blocking", "implicit"}
"""Arguments that say nothing of the value, or what the type of the result says too."""


@dataclass(frozen=True)
class Source:
    """Where a value comes from that is not computed: an input or a parameter of a name, or an array
    that is known. An input may come with its axes in another `order`, that of memory.
    """

    input: str | None = None
    parameter: str | None = None
    array: np.ndarray | None = None
    order: Sequence[int] | None = None


def type_of(value: Any) -> TensorType:
    """The tensor type of a node's value. Unsupported where mgn has none."""
    shape = list(value.shape)
    if not all(isinstance(size, int) for size in shape):
        raise Unsupported("sizes that are not known")
    if str(value.layout) != "torch.strided":
        raise Unsupported(f"a tensor of layout {str(value.layout).removeprefix('torch.')}")
    return tensor(element_of_torch(value.dtype), shape)


def is_tensor(value: Any) -> bool:
    """Whether the value of a node is a tensor."""
    return hasattr(value, "dtype") and hasattr(value, "layout")


def call_of(node: Any) -> Call:
    """How a node calls its operator."""
    value = node.meta.get("val")
    several = isinstance(value, tuple | list)
    results: list[Any] = []
    for item in cast("Sequence[Any]", value) if several else [value]:
        if is_tensor(item):
            type = type_of(item)
            results.append((element_of_torch(item.dtype), tuple(type.get_shape())))
        else:
            results.append(None)
    return Call(str(node.target), results)


@cache
def _signature(build: Build) -> inspect.Signature:
    return inspect.signature(build)


def build_node(b: Emitter, node: Any, values: Mapping[Any, Any]) -> Any:
    """The value of a node, or those of one that has several. Unsupported, with the reason, where
    mgn does not have what it asks for.
    """
    if node.target is operator.getitem:
        return values[node.args[0]][node.args[1]]
    build = OPERATORS.get(str(node.target))
    if build is None:
        raise Unsupported("no such operator")
    call = call_of(node)
    arguments = [_plain(item, values) for item in node.args]
    named = {
        name: _plain(item, values) for name, item in node.kwargs.items() if name not in LEFT_OUT
    }
    named = {name: item for name, item in named.items() if item is not None}
    try:
        _signature(build).bind(b, call, *arguments, **named)
    except TypeError:
        raise Unsupported("these arguments") from None
    try:
        found = build(b, call, *arguments, **named)
    except (CallError, ShapeError) as error:
        raise Unsupported(str(error)) from error
    if len(call.results) == 1 and not isinstance(found, tuple | list):
        return _typed(b, found, call.results[0])
    return [_typed(b, item, wanted) for item, wanted in zip(found, call.results, strict=False)]


def _plain(value: Any, values: Mapping[Any, Any]) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(item, values) for item in cast("Sequence[Any]", value)]
    if not hasattr(value, "all_input_nodes"):
        return value
    found = values.get(value)
    if found is None:
        raise Unsupported("a number that is known only when it runs")
    return found


def _typed(b: Emitter, value: Any, wanted: Any) -> Any:
    if not isinstance(value, SSAValue) or wanted is None:
        return None
    if shape_of(value) != wanted[1]:
        raise Unsupported(f"a result of shape {list(wanted[1])}, which is {list(shape_of(value))}")
    return as_element(b, value, wanted[0])


# ---- whole graphs


def import_graph(
    name: str,
    nodes: Iterable[Any],
    sources: Mapping[str, Source],
    results: Sequence[tuple[str, Any]],
    orders: Mapping[str, Sequence[int]] | None = None,
) -> ModuleOp:
    """The module of an FX graph: its parameters, and the graph. Results that have `orders` are
    given with their axes so. DiagnosticsError that names every operator that is not supported,
    where it stands.
    """
    return _Importer(sources).module(name, nodes, results, orders or {})


class _Importer:
    def __init__(self, sources: Mapping[str, Source]) -> None:
        self.block = Block()
        self.sources = sources
        self.values: dict[Any, Any] = {}
        self.inputs: list[str] = []
        self.parameters: dict[str, ParamOp] = {}
        self.reads: dict[str, SSAValue] = {}
        self.errors: list[Diagnostic] = []

    def module(
        self,
        name: str,
        nodes: Iterable[Any],
        results: Sequence[tuple[str, Any]],
        orders: Mapping[str, Sequence[int]],
    ) -> ModuleOp:
        for node in nodes:
            if node.name in self.sources:
                self.values[node] = self.placed(node, self.sources[node.name])
            elif node.op == "call_function":
                self.values[node] = self.computed(node)
        if self.errors:
            raise DiagnosticsError(self.errors)
        emitter = Emitter(self.block.add_op)
        returned = [
            emitter.transpose(self.values[node], orders[label])
            if label in orders
            else self.values[node]
            for label, node in results
        ]
        self.block.add_op(ReturnOp(returned))
        graph = GraphOp(name, self.inputs, [label for label, _ in results], Region(self.block))
        return ModuleOp([*self.parameters.values(), graph])

    def placed(self, node: Any, source: Source) -> SSAValue:
        """The value of a node that has a source; where it has no type, an error is put down."""
        try:
            type = type_of(node.meta["val"])
        except (Unsupported, ShapeError) as error:
            self.errors.append(Diagnostic(f"'{node.name}' is not supported: {error}", "<torch>"))
            return stand_in(node)
        if source.input is not None:
            self.inputs.append(source.input)
            value = self.given(type, source.order)
        elif source.parameter is not None:
            value = self.read(source.parameter, type)
        else:
            assert source.array is not None
            value = Emitter(self.block.add_op).constant_array(source.array)
        if NAMED.match(node.name):
            value.name_hint = node.name
        return value

    def given(self, type: TensorType, order: Sequence[int] | None) -> SSAValue:
        """An input's value, whose axes come in an order."""
        if order is None:
            return self.block.insert_arg(type, len(self.block.args))
        shape = type.get_shape()
        lying = tensor(element_of(type), [shape[axis] for axis in order])
        value = self.block.insert_arg(lying, len(self.block.args))
        turned = [order.index(axis) for axis in range(len(order))]
        return Emitter(self.block.add_op).transpose(value, turned)

    def read(self, name: str, type: TensorType) -> SSAValue:
        """A parameter, which is read once."""
        if name not in self.reads:
            self.parameters[name] = ParamOp(name, type, None)
            op = ReadOp(name, type)
            self.block.add_op(op)
            self.reads[name] = op.result
        return self.reads[name]

    def computed(self, node: Any) -> Any:
        """The value of a call; where there is none, an error is put down, and its types given."""
        made: list[Operation] = []

        def insert(op: Operation) -> None:
            self.block.add_op(op)
            made.append(op)

        try:
            found = build_node(Emitter(insert, place_of(node)), node, self.values)
        except Unsupported as error:
            self.errors.append(diagnostic_of(node, str(error)))
            return stand_in(node)
        if isinstance(found, SSAValue) and found.owner in made and NAMED.match(node.name):
            found.name_hint = node.name
        return found


def stand_in(node: Any) -> Any:
    """Values of the types that a node has, computed by nothing."""
    call_types = node.meta.get("val")
    if isinstance(call_types, tuple | list):
        return [_argument(item) for item in cast("Sequence[Any]", call_types)]
    return _argument(call_types)


def _argument(value: Any) -> SSAValue | None:
    try:
        return Block(arg_types=[type_of(value)]).args[0] if is_tensor(value) else None
    except (Unsupported, ShapeError):
        return Block(arg_types=[tensor("f32", (0,))]).args[0]


def refusal(node: Any) -> str | None:
    """Why a call cannot be built, tried on operands of its types; None where it can."""
    block = Block()
    values: dict[Any, Any] = {}
    try:
        for item in node.all_input_nodes:
            known = item.meta.get("val")
            several = isinstance(known, tuple | list)
            parts = [
                block.insert_arg(type_of(part), len(block.args)) if is_tensor(part) else None
                for part in (cast("Sequence[Any]", known) if several else [known])
            ]
            if not several and parts[0] is None:
                raise Unsupported("an operand that is no tensor")
            values[item] = parts if several else parts[0]
        call = call_of(node)
        if node.target is not operator.getitem and all(item is None for item in call.results):
            raise Unsupported("no result that is a tensor")
        build_node(Emitter(block.add_op), node, values)
    except (Unsupported, ShapeError) as error:
        return str(error)
    return None


# ---- places


def _line_of(node: Any) -> tuple[str, int]:
    trace = node.meta.get("stack_trace") or ""
    found = LINE.findall(trace)
    return (found[-1][0], int(found[-1][1])) if found else ("<torch>", 0)


def place_of(node: Any) -> FileLineColLoc:
    """The line of the Python program that made a node."""
    file, line = _line_of(node)
    return FileLineColLoc(StringAttr(file), IntAttr(line), IntAttr(1 if line else 0))


def diagnostic_of(node: Any, reason: str) -> Diagnostic:
    """What is said of a node that is not supported."""
    file, line = _line_of(node)
    source = linecache.getline(file, line).rstrip("\n") or None if line else None
    column = len(source) - len(source.lstrip()) + 1 if source else 1
    said = (
        f"operator '{node.target}' of '{node.name}' is not supported: {reason}; "
        "torch.compile(…, backend='mgn') leaves it to PyTorch"
    )
    return Diagnostic(said, file, line, column if line else 0, source)
