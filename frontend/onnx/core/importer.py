"""Makes a graph of the `mgn` dialect from an ONNX model.

In: a `Model`, a size for each dimension, values for inputs that are to be constants. Out: a module
of one graph, and the values of its parameters. Each node is made by the function of its row in the
table of operators; an operator that has none is expanded by its function, of the model or of ONNX.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr, TensorType
from xdsl.ir import Block, Operation, Region, SSAValue

from mgn.diagnostics import Diagnostic, DiagnosticsError, MgnError, spelled
from mgn.dialects.block_formats import BLOCK, BLOCK_FORMATS, unpack_blocks
from mgn.dialects.mgn.build import RANDOM_STATE, RANDOM_TYPE, CallError, Draws, Emitter
from mgn.dialects.mgn.states import StateOp
from mgn.dialects.mgn.structure import GraphOp, ParamOp, ReadOp, ReturnOp
from mgn.dialects.shapes import ShapeError
from mgn.dialects.types import Family, element_of, element_of_dtype, tensor, value_type
from mgn.frontend.onnx.core.call import Call, element, shape
from mgn.frontend.onnx.core.errors import NotKnown, UnknownValues
from mgn.frontend.onnx.core.known import Known
from mgn.frontend.onnx.core.model import Function, Graph, Input, Model, Node, bound
from mgn.frontend.onnx.core.narrow import HOLDERS, held, holder
from mgn.frontend.onnx.core.operator import find
from mgn.frontend.onnx.core.reading import complaint, dtype_of, misuse, schema_function
from mgn.frontend.onnx.core.scope import NOTHING, Scope

DEEPEST = 64
"""How deep functions and graphs may be nested."""

MOST_NODES = 1 << 18
"""Nodes that a model may come to, with those of functions and turns of loops."""

Value = SSAValue | list[SSAValue]


class Importer:
    """One reading of a model. `values` are those of the parameters, by name; `outputs` the names of
    results that each output became, several for a sequence; `narrow` the types of values that mgn
    holds in wider ones.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.block = Block()
        self.emitter = Emitter(self._insert)
        self.emitter.draws = self._draws = Draws()
        self.values: dict[str, np.ndarray] = {}
        self.narrow: dict[SSAValue, np.dtype[Any]] = {}
        self._parameters: dict[int, ParamOp] = {}
        self._declared: dict[str, ParamOp] = {}
        self._inputs: list[str] = []
        self._made = 0
        self.outputs: dict[str, str | list[str]] = {}
        self.known = Known(self._parameter_array, self._inputs)

    def _insert(self, op: Operation) -> None:
        self.block.add_op(op)
        self.known.watch(op)

    def module(
        self, sizes: Mapping[str, int], constants: Mapping[str, np.ndarray], name: str
    ) -> ModuleOp:
        """The module of the model's graph."""
        graph = self.model.graph
        scope = Scope({}, self.model.opsets)
        for item in graph.inputs:
            scope.values[item.name] = (
                self._constant(item, constants[item.name], sizes)
                if item.name in constants
                else self._input(item, sizes)
            )
        try:
            outputs = self.run_graph(graph, scope)
        except CallError as error:
            raise self._wrong(str(error)) from None
        results: dict[str, SSAValue] = {}
        for key, value in zip(graph.outputs, outputs, strict=True):
            parts = {key: value}
            if isinstance(value, list):
                parts = {f"{key}.{number}": part for number, part in enumerate(value)}
            self.outputs[key] = list(parts) if isinstance(value, list) else key
            results.update(cast("dict[str, SSAValue]", parts))
        if NOTHING in results.values():
            raise self._wrong("an output is optional, and holds nothing")
        if self._draws.sites:
            self._draws.finish(self.emitter)
        self.block.add_op(ReturnOp(list(results.values())))
        self.known.replace(self.block)
        op = GraphOp(name, self._inputs, list(results), Region(self.block))
        read = {item.parameter_name for item in op.walk() if isinstance(item, ReadOp)}
        self.values = {key: value for key, value in self.values.items() if key in read}
        states = [StateOp(RANDOM_STATE, RANDOM_TYPE)] if self._draws.sites else []
        declared = [item for key, item in self._declared.items() if key in read]
        return ModuleOp([*declared, *states, op])

    def _input(self, item: Input, sizes: Mapping[str, int]) -> Value:
        """The value of an input; of a sequence, those of its tensors."""
        if not item.is_sequence:
            return self._tensor_input(item, sizes)
        if item.shapes is None:
            raise self._wrong(
                f"input '{item.name}' is a sequence; "
                f"mgn.from_onnx(…, shapes = {{{item.name!r}: [[…], …]}}) gives its shapes"
            )
        return [self._tensor_input(part, sizes) for part in item.parts]

    def _tensor_input(self, item: Input, sizes: Mapping[str, int]) -> SSAValue:
        dtype = dtype_of(item.element) if isinstance(item.element, int) else f"a {item.element}"
        own = item.shape
        if own is None:
            given = spelled(
                f"mgn.from_onnx(…, shapes = {{{item.name!r}: […]}})",
                f"--shape {shlex.quote(f'{item.name}=N,N')}",
            )
            raise self._wrong(
                f"input '{item.name}' has no shape in the model; {given} gives it one"
            )
        try:
            element = element_of_dtype(cast("np.dtype[Any]", holder(dtype)))
        except (KeyError, TypeError):
            raise self._wrong(f"input '{item.name}' is {dtype}, which mgn does not have") from None
        shape = [
            size if isinstance(size, int) else sizes[dimension_name(item, axis)]
            for axis, size in enumerate(own)
        ]
        try:
            argument = self.block.insert_arg(tensor(element, shape), len(self.block.args))
        except ShapeError as error:
            raise self._wrong(f"input '{item.name}': {error}") from None
        argument.name_hint = _hint(item.name)
        if dtype in HOLDERS:
            self.narrow[argument] = cast("np.dtype[Any]", dtype)
        self._inputs.append(item.name)
        return argument

    def _constant(self, item: Input, value: Any, sizes: Mapping[str, int]) -> Any:
        """The value of an input that was given."""
        if value is None:
            if not item.is_optional:
                raise self._wrong(f"input '{item.name}' is not optional, and its constant is None")
            return NOTHING
        if item.is_sequence:
            return [self._constant_array(self._given(item, part)) for part in value]
        return self._constant_array(self._of_shape(item, self._given(item, value), sizes))

    def _given(self, item: Input, value: Any) -> np.ndarray:
        """A constant in the element type of its input."""
        array = np.asarray(value)
        wanted = dtype_of(item.element) if isinstance(item.element, int) else item.element
        if array.dtype != wanted and not (
            isinstance(wanted, np.dtype) and np.can_cast(array.dtype, wanted, "same_kind")
        ):
            raise self._wrong(f"input '{item.name}' is {wanted}, and its constant is {array.dtype}")
        return array.astype(cast("np.dtype[Any]", wanted))

    def _of_shape(self, item: Input, array: np.ndarray, sizes: Mapping[str, int]) -> np.ndarray:
        """A constant in the shape of its input: a number may be given for axes of one."""
        own = item.shape
        if own is None:
            return array
        known = [
            size if isinstance(size, int) else sizes.get(dimension_name(item, axis))
            for axis, size in enumerate(own)
        ]
        wanted = (1,) * len(own) if array.size == 1 else array.shape
        if len(wanted) != len(own) or any(
            one not in (None, other) for one, other in zip(known, wanted, strict=True)
        ):
            raise self._wrong(
                f"input '{item.name}' is {list(own)}, and its constant {list(array.shape)}"
            )
        return array.reshape(wanted)

    def _constant_array(self, array: np.ndarray) -> SSAValue:
        """A constant; the type of an array that is narrow stays known."""
        value = self.emitter.constant_array(held(array))
        if array.dtype in HOLDERS:
            self.narrow[value] = array.dtype
        return value

    # ---- graphs and nodes

    def run_graph(self, graph: Graph, scope: Scope) -> list[Value]:
        """The outputs of a graph whose inputs are in a scope."""
        if scope.depth > DEEPEST:
            raise self._wrong("the model is nested too deep")
        scope.values.update(graph.initialisers)
        self.run_nodes(graph.nodes, scope)
        return [
            self.value(scope, name, f"the output of graph '{graph.name}',")
            for name in graph.outputs
        ]

    def run_nodes(self, nodes: Sequence[Node], scope: Scope) -> None:
        """Makes nodes in order; their outputs are in the scope then."""
        for node in nodes:
            self._made += 1
            if self._made > MOST_NODES:
                many = CallError(f"functions and loops come to more than {MOST_NODES} nodes")
                raise DiagnosticsError([self._diagnostic(node, many)])
            before = self.emitter.location
            if scope.outer is None or node.line:
                self.emitter.location = self._location(node)
            try:
                outputs = self._outputs(node, scope)
            except NotKnown as error:
                raise UnknownValues(self._diagnostic(node, error), error.inputs) from None
            except (CallError, ShapeError) as error:
                raise DiagnosticsError([self._diagnostic(node, error)]) from None
            except MgnError:
                raise
            except MemoryError:
                much = CallError("it takes more memory than there is")
                raise DiagnosticsError([self._diagnostic(node, much)]) from None
            except Exception as error:
                said = self._complaint(node, scope)
                if said is None:
                    raise
                raise DiagnosticsError([self._diagnostic(node, CallError(said))]) from error
            finally:
                self.emitter.location = before
            for name, value in zip(node.outputs, outputs, strict=False):
                if not name:
                    continue
                wrong = None
                if value is None:
                    wrong = f"output '{name}' is not supported"
                elif name in scope.values:
                    wrong = f"output '{name}' has a value already: each name is made once"
                if wrong is not None:
                    raise DiagnosticsError([self._diagnostic(node, CallError(wrong))])
                scope.values[name] = value
                if isinstance(value, SSAValue) and value.name_hint is None:
                    value.name_hint = _hint(name)

    def _outputs(self, node: Node, scope: Scope) -> Sequence[Any]:
        inputs = [self.value(scope, name, "input") if name else None for name in node.inputs]
        attributes = bound(node, scope.attributes)
        for name, value in attributes.items():
            if value is None:
                raise CallError(f"attribute '{name}' has no value")
        if not node.outputs:
            raise CallError("it has no output")
        call = Call(self, scope, node, inputs, attributes)
        function = self.model.functions.get((node.domain, node.operator))
        if function is not None:
            return self.run_function(function, call)
        wrong = misuse(node, attributes, call.version)
        if wrong is not None:
            call.fail(wrong)
        row = find(node.domain, node.operator, call.version)
        if row is None:
            return self.expand(call)
        found = row.function(call)
        return list(found) if isinstance(found, tuple) else [found]

    def _complaint(self, node: Node, scope: Scope) -> str | None:
        """What ONNX itself says against a node that could not be made."""
        inputs = [self.value(scope, name, "input") if name else None for name in node.inputs]
        arrays = [self.known.array(item) if isinstance(item, SSAValue) else None for item in inputs]
        types = [self._type_of(item) for item in inputs]
        return complaint(node, bound(node, scope.attributes), scope.opsets, types, arrays)

    def expand(self, call: Call) -> Sequence[Any]:
        """The outputs of a node by the function that ONNX gives for its operator."""
        node = call.node
        types = [self._type_of(value) for value in call.inputs]
        function = schema_function(node, call.attributes, call.version, types)
        if function is None:
            call.fail("mgn does not know this operator")
        return self.run_function(function, call)

    def _type_of(self, value: Any) -> tuple[Any, Any]:
        """The element type and the shape of a value; a shape of None for a sequence."""
        if isinstance(value, list):
            found = cast("list[SSAValue]", value)
            return (element(found[0]).dtype if found else np.dtype(np.float32)), None
        if isinstance(value, SSAValue):
            return self.narrow.get(value, element(value).dtype), shape(value)
        return None, ()

    def run_function(self, function: Function, call: Call) -> Sequence[Any]:
        """The outputs of a function for a node. One that is not wanted is None."""
        given = [*call.inputs, *[None] * (len(function.inputs) - len(call.inputs))]
        values = {
            name: value
            for name, value in zip(function.inputs, given, strict=False)
            if value is not None
        }
        absent = [
            name for name, value in zip(function.inputs, given, strict=False) if value is None
        ]
        opsets = {**call.scope.opsets, **function.opsets}
        attributes = {**function.defaults, **call.attributes}
        scope = Scope(values, opsets, attributes, depth=call.scope.depth + 1)
        scope.values.update(dict.fromkeys(absent))
        if scope.depth > DEEPEST:
            call.fail("functions are nested too deep")
        self.run_nodes(function.nodes, scope)
        return [
            self.value(scope, name, "output") if call.wants(number) else None
            for number, name in enumerate(function.outputs)
        ]

    def value(self, scope: Scope, name: str, what: str) -> Any:
        """The value of a name. CallError where nothing before it has that name."""
        found = scope.find(name)
        if found is None:
            raise CallError(f"{what} '{name}' is made by no node before it")
        home, value = found
        if isinstance(value, np.ndarray):
            value = home.values[name] = self.tensor(name, value)
        return value

    # ---- constants and parameters

    def tensor(self, name: str, array: np.ndarray, largest: int = 1) -> SSAValue:
        """An array of the model: a parameter where it has floats, more than so many, else a
        constant. Rules of the e-graph ask for the values of constants, as of a scale.
        """
        try:
            kind = element_of_dtype(holder(array.dtype))
        except KeyError:
            raise CallError(f"tensor '{name}' is {array.dtype}, which mgn does not have") from None
        if not kind.is_float or array.size <= largest:
            return self._constant_array(array)
        value = self._parameter(name, array, held(array), tensor(kind, array.shape))
        if array.dtype in HOLDERS:
            self.narrow[value] = array.dtype
        return value

    def blocks(self, name: str, packed: np.ndarray, format: str) -> SSAValue:
        """A parameter of a block format, by its packed bytes."""
        row = BLOCK_FORMATS[format]
        *lead, count = packed.shape
        shape = [*lead, count // row.block_bytes * BLOCK]
        return self._parameter(name, packed, packed, tensor(format, shape))

    def _parameter(
        self, name: str, array: np.ndarray, kept: np.ndarray, type: TensorType
    ) -> SSAValue:
        """The value of a parameter: one for each array of the model, which is kept in this form."""
        op = self._parameters.get(id(array))
        if op is None:
            external = unused(name, self.values)
            op = ParamOp(external, type)
            op.location = self.emitter.location or self._location(None)
            self._parameters[id(array)] = self._declared[external] = op
            self.values[external] = kept
        read = ReadOp(op.sym_name.data, value_type(cast(Any, op.type)))
        read.location = self.emitter.location or self._location(None)
        read.result.name_hint = _hint(name)
        self.block.add_op(read)
        return read.result

    def _parameter_array(self, name: str) -> np.ndarray:
        """The values of a parameter."""
        array = self.values[name]
        kind = element_of(cast(Any, self._declared[name].type))
        return unpack_blocks(array, kind.name) if kind.family is Family.BLOCK else array

    # ---- places

    def _location(self, node: Node | None) -> FileLineColLoc:
        line = node.line if node is not None else 1
        return FileLineColLoc(StringAttr(self.model.file), IntAttr(line), IntAttr(1))

    def _diagnostic(self, node: Node, error: Exception) -> Diagnostic:
        return node_diagnostic(self.model, node, f"{node.operator}: {error}")

    def _wrong(self, message: str) -> DiagnosticsError:
        return DiagnosticsError([Diagnostic(message, self.model.file)])


def node_diagnostic(model: Model, node: Node, message: str) -> Diagnostic:
    """A message at a node, in the listing of its model."""
    named = f"node '{node.name}': {message}" if node.name else message
    if not node.line:
        return Diagnostic(named, model.file)
    text = model.lines[node.line - 1]
    column = len(text) - len(text.lstrip()) + 1
    return Diagnostic(named, model.file, node.line, column, text)


def dimension_name(item: Input, axis: int) -> str:
    """The name of an axis of an input whose size is no number."""
    assert item.shape is not None
    size = item.shape[axis]
    return size if isinstance(size, str) else f"{item.name}_{axis}"


def unused(name: str, taken: Mapping[str, Any]) -> str:
    """A name that is not taken."""
    plain = name if name and name.isprintable() else "tensor"
    found, number = plain, 0
    while found in taken:
        number += 1
        found = f"{plain}_{number}"
    return found


def _hint(name: str) -> str | None:
    made = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return made if re.match(r"[A-Za-z_]", made) else None
