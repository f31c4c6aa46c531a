"""Builds graphs in Python: the same modules as the language gives, without text.

In: calls inside `with mgn.graph("name") as g`. Out: `g.module`, which `mgn.compile` takes.

    with mgn.graph("mlp") as g:
        x = g.input("x", "f32[32, 784]")
        g.output(y=ops.relu(x @ g.param("w", "f32[784, 10]").T * 0.5))

Errors are DiagnosticsErrors that point at the line of the caller.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Block, Region, SSAValue

from mgn.builder_arguments import (
    NAME,
    array_of,
    checked_name,
    checked_text,
    element_type,
    fail,
    location,
    tensor_type,
)
from mgn.diagnostics import WrongType
from mgn.dialects.mgn.build import RANDOM_STATE, RANDOM_TYPE, CallError, Draws, Emitter
from mgn.dialects.mgn.grad import GradOp, check_grad
from mgn.dialects.mgn.gradients.reverse import check_gradients
from mgn.dialects.mgn.initialiser import InitialiserAttr, check_initialiser
from mgn.dialects.mgn.states import ReadStateOp, StateOp, WriteStateOp
from mgn.dialects.mgn.structure import GraphOp, ParamOp, ReadOp, ReturnOp
from mgn.dialects.shapes import ShapeError
from mgn.dialects.types import ELEMENT_TYPES, element_of, element_of_dtype, spelling, value_type
from mgn.frontend.lowering.indexing import index_value, transpose_last
from mgn.value_methods import method_of

_NUMERIC = "biufV"
"""NumPy's kinds of dtypes that are numbers; bfloat16 is the last."""

_current: ContextVar["GraphBuilder | None"] = ContextVar("mgn_current_graph", default=None)


class Value:
    """A tensor of a graph that is being built: takes operators, `.T` and NumPy's indexing."""

    __hash__ = object.__hash__
    __array_ufunc__ = None

    def __init__(self, graph: "GraphBuilder", value: SSAValue) -> None:
        self.graph = graph
        self.value = value

    @property
    def type(self) -> TensorType:
        """The tensor type."""
        return cast(TensorType, self.value.type)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return tuple(self.type.get_shape())

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements there are."""
        return math.prod(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type as NumPy has it."""
        return cast("np.dtype[Any]", element_of(self.type).dtype)

    @property
    def element(self) -> str:
        """The name of the element type, such as `f32`."""
        return element_of(self.type).name

    @property
    def T(self) -> "Value":
        """The last two axes swapped."""
        return self.graph.emit(lambda emitter: transpose_last(emitter, self.value))

    def __getitem__(self, items: Any) -> "Value":
        listing = items if isinstance(items, tuple) else (items,)
        return self.graph.emit(lambda emitter: index_value(emitter, self.value, _index(listing)))

    def __getattr__(self, name: str) -> Any:
        return method_of(self, name)

    if TYPE_CHECKING:  # what is set below, from a table

        def __add__(self, other: Any) -> "Value": ...
        def __radd__(self, other: Any) -> "Value": ...
        def __sub__(self, other: Any) -> "Value": ...
        def __rsub__(self, other: Any) -> "Value": ...
        def __mul__(self, other: Any) -> "Value": ...
        def __rmul__(self, other: Any) -> "Value": ...
        def __truediv__(self, other: Any) -> "Value": ...
        def __rtruediv__(self, other: Any) -> "Value": ...
        def __mod__(self, other: Any) -> "Value": ...
        def __rmod__(self, other: Any) -> "Value": ...
        def __matmul__(self, other: Any) -> "Value": ...
        def __rmatmul__(self, other: Any) -> "Value": ...
        def __pow__(self, other: Any) -> "Value": ...
        def __rpow__(self, other: Any) -> "Value": ...
        def __and__(self, other: Any) -> "Value": ...
        def __rand__(self, other: Any) -> "Value": ...
        def __or__(self, other: Any) -> "Value": ...
        def __ror__(self, other: Any) -> "Value": ...
        def __lt__(self, other: Any) -> "Value": ...
        def __le__(self, other: Any) -> "Value": ...
        def __gt__(self, other: Any) -> "Value": ...
        def __ge__(self, other: Any) -> "Value": ...
        def __eq__(self, other: Any) -> "Value": ...  # pyright: ignore[reportIncompatibleMethodOverride]
        def __ne__(self, other: Any) -> "Value": ...  # pyright: ignore[reportIncompatibleMethodOverride]

    def __repr__(self) -> str:
        return f"Value({spelling(self.type)})"

    def __bool__(self) -> NoReturn:
        raise WrongType("a tensor has no truth value while its graph is built; use ops.where")

    def __iter__(self) -> Iterator["Value"]:
        if not self.shape:
            raise WrongType("a scalar cannot be iterated")
        return (self[index] for index in range(self.shape[0]))

    def __neg__(self) -> "Value":
        return self.graph.call("neg", self)

    def __invert__(self) -> "Value":
        return self.graph.call("logical_not", self)

    def __pos__(self) -> "Value":
        return self

    def __abs__(self) -> "Value":
        return self.graph.call("abs", self)


def _binary(name: str, swapped: bool = False) -> Callable[[Value, Any], Any]:
    def operator(self: Value, other: Any) -> Any:
        if not isinstance(other, Value | bool | int | float | np.number | np.ndarray):
            return NotImplemented
        operands = (other, self) if swapped else (self, other)
        return self.graph.call(name, *operands)

    return operator


_SAME = {name: name for name in ("add", "sub", "mul", "mod", "matmul", "pow")}
_OTHER = {"truediv": "div", "and": "logical_and", "or": "logical_or"}
for _symbol, _operation in (_SAME | _OTHER).items():
    setattr(Value, f"__{_symbol}__", _binary(_operation))
    setattr(Value, f"__r{_symbol}__", _binary(_operation, swapped=True))
for _symbol in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(Value, f"__{_symbol}__", _binary(_symbol))


class State:
    """A state of a graph that is built: `.value` reads it, `.write(x)` writes it, in order."""

    def __init__(self, graph: "GraphBuilder", name: str, type: TensorType) -> None:
        self.graph, self.name, self.type = graph, name, type

    @property
    def value(self) -> Value:
        """What it holds at this point of the graph."""
        return self.graph.read_state(self)

    def write(self, value: Any) -> None:
        """Gives it another value, which later reads see."""
        self.graph.write_state(self, value)


class GraphBuilder:
    """One graph being built. Inside `with`, it is the graph that `ops` without operands add to."""

    def __init__(self, name: str) -> None:
        self.name = checked_name(name, "a graph")
        self._block = Block()
        self._emitter = Emitter(self._block.add_op)
        self._emitter.draws = self._draws = Draws()
        self._inputs: list[str] = []
        self._outputs: dict[str, SSAValue] = {}
        self._parameters: dict[str, tuple[ParamOp, object]] = {}
        self._states: dict[str, StateOp] = {}
        self._prefixes: list[str] = []
        self._module: ModuleOp | None = None
        self._token: Token[GraphBuilder | None] | None = None

    def __repr__(self) -> str:
        inputs, outputs = ", ".join(self._inputs), ", ".join(self._outputs)
        return f"GraphBuilder({self.name}({inputs}) -> ({outputs}))"

    def _check_open(self) -> None:
        if self._module is not None:
            fail(f"graph '{self.name}' is finished: nothing can be added after the with block")

    def __enter__(self) -> "GraphBuilder":
        self._check_open()
        if self._token is not None:
            fail(f"graph '{self.name}' is open already")
        self._token = _current.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._token is not None
        _current.reset(self._token)
        self._token = None
        if kind is None:
            self._finish()

    @property
    def module(self) -> ModuleOp:
        """The finished module: the parameters and this graph."""
        if self._module is None:
            fail(f"graph '{self.name}' is not finished: its module is there after the with block")
        return self._module

    def input(self, name: str, type: str | TensorType) -> Value:
        """An input of the graph: `g.input("x", "f32[32, 784]")`."""
        self._check_open()
        checked_name(name, "an input")
        if name in self._inputs:
            fail(f"there are two inputs '{name}'")
        wanted = tensor_type(type)
        if element_of(wanted).dtype is None:
            fail("only a parameter can have a block format")
        argument = self._block.insert_arg(wanted, len(self._block.args))
        argument.name_hint = name
        self._inputs.append(name)
        return Value(self, argument)

    def param(
        self,
        name: str,
        type: str | TensorType,
        initialiser: InitialiserAttr | None = None,
        owner: object = None,
    ) -> Value:
        """A trainable tensor: `g.param("w", "f32[10, 784]", nn.normal(std=0.02))`.

        The scopes that are open stand before its name. The same name and type is the same tensor,
        unless two different `owner`s (layers) claim it, which is an error.
        """
        self._check_open()
        external = ".".join([*self._prefixes, checked_text(name, "a parameter")])
        wanted = tensor_type(type)
        if initialiser is not None:
            if not isinstance(initialiser, InitialiserAttr):  # pyright: ignore[reportUnnecessaryIsInstance]
                fail(f"parameter '{external}': an initialiser is such as nn.normal(std=0.02)")
            try:
                check_initialiser(initialiser, wanted)
            except ShapeError as error:
                fail(f"parameter '{external}': {error}")
        known = self._parameters.get(external)
        if known is None:
            op = ParamOp(external, wanted, initialiser)
            op.location = location()
            self._parameters[external] = (op, owner)
        else:
            op, first = known
            if op.type != wanted:
                fail(
                    f"parameter '{external}' is {spelling(op.type)} already, not {spelling(wanted)}"
                )
            if first is not owner:
                fail(f"two layers have a parameter '{external}'; give one of them a name")
            held = op.initialiser or initialiser
            if held is not None and initialiser is not None and held.text != initialiser.text:
                fail(f"parameter '{external}' is {held.text} at first, not {initialiser.text}")
            op.initialiser = held
        read = ReadOp(external, value_type(wanted))
        read.location = location()
        read.result.name_hint = name if NAME.match(name) else None
        self._block.add_op(read)
        return Value(self, read.result)

    def state(
        self, name: str, type: str | TensorType, initialiser: InitialiserAttr | None = None
    ) -> State:
        """A tensor that lives on the device across runs: `k = g.state("k", "f32[2, 64]")`.

        `k.value` is what it holds at this point, and `k.write(x)` gives it another value. It begins
        with zeros where there is no initialiser; scopes stand before its name as before those of
        parameters.
        """
        self._check_open()
        external = ".".join([*self._prefixes, checked_text(name, "a state")])
        wanted = tensor_type(type)
        if external == RANDOM_STATE:
            fail(f"state '{external}' is that of random numbers")
        if element_of(wanted).dtype is None:
            fail("only a parameter can have a block format")
        if initialiser is not None:
            try:
                check_initialiser(initialiser, wanted)
            except ShapeError as error:
                fail(f"state '{external}': {error}")
        made = StateOp(external, wanted, initialiser)
        made.location = location()
        known = self._states.setdefault(external, made)
        if known.type != wanted:
            fail(f"state '{external}' is {spelling(known.type)} already, not {spelling(wanted)}")
        if known.initialiser != initialiser and initialiser is not None:
            fail(f"state '{external}' begins in another way already")
        return State(self, external, wanted)

    def read_state(self, state: State) -> Value:
        """What a state holds at this point of the graph."""
        self._check_open()
        op = ReadStateOp(state.name, state.type)
        op.location = location()
        self._block.add_op(op)
        return Value(self, op.result)

    def write_state(self, state: State, value: Any) -> None:
        """Gives a state another value."""
        self._check_open()
        element = element_of(state.type).name
        if isinstance(value, bool | int | float) and not state.type.get_shape():
            value = self.constant(value, element)
        elif isinstance(value, bool | int | float):
            value = self.call("full", list(state.type.get_shape()), value, T=element)
        if not isinstance(value, Value) or value.graph is not self:
            fail(f"state '{state.name}' is given what is no value of this graph")
        if value.type != state.type:
            fail(f"state '{state.name}' is {spelling(state.type)}, not {spelling(value.type)}")
        op = WriteStateOp(state.name, value.value)
        op.location = location()
        self._block.add_op(op)

    @contextmanager
    def scope(self, prefix: str) -> Iterator[None]:
        """Puts a text and a dot before the names of the parameters made inside."""
        self._prefixes.append(checked_text(prefix, "a scope"))
        try:
            yield
        finally:
            self._prefixes.pop()

    def output(self, **values: Any) -> None:
        """Results of the graph by name: `g.output(logits=y)`."""
        self._check_open()
        for name, value in values.items():
            checked_text(name, "an output")
            if name in self._outputs:
                fail(f"there are two outputs '{name}'")
            if isinstance(value, bool | int | float):
                element = (
                    "bool"
                    if isinstance(value, bool)
                    else "i32"
                    if isinstance(value, int)
                    else "f32"
                )
                value = self.emit(lambda emitter, v=value, e=element: emitter.constant(v, e))
            if not isinstance(value, Value) or value.graph is not self:
                fail(f"output '{name}' is not a value of this graph")
            self._outputs[name] = value.value

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """The result of an operation, by its name."""
        checked_text(name, "an operation")
        plain = [self._plain(value) for value in args]
        named = {key: self._plain(value) for key, value in kwargs.items()}
        return self.emit(lambda emitter: emitter.call(name, *plain, **named))

    def grad(self, loss: Any, values: Any) -> Any:
        """The gradient of a scalar by a value of this graph, or those by a list of values."""
        several = isinstance(values, list | tuple)
        listing = cast("list[Any]", list(values) if several else [values])
        for value in (loss, *listing):
            if not isinstance(value, Value) or value.graph is not self:
                fail("grad takes values of one graph: a scalar, and a value or a list of values")
        of, by = loss.value, [value.value for value in listing]

        def emit(emitter: Emitter) -> tuple[SSAValue, ...]:
            check_grad(of, by)
            check_gradients(of, by)
            op = GradOp(of, by)
            op.location = location()
            emitter.insert(op)
            return tuple(op.outputs)

        found = self.emit(emit)
        return found if several else found[0]

    def constant(self, value: Any, element: Any = None) -> Value:
        """A tensor known now, from numbers, nested lists or an array."""
        wanted = element_type(element)
        array = array_of(value)
        if wanted is None and array.dtype == np.float64 and not isinstance(value, np.ndarray):
            wanted = ELEMENT_TYPES["f32"]
        if wanted is None and array.dtype == np.int64 and not isinstance(value, np.ndarray):
            wanted = ELEMENT_TYPES["i32"]
        if wanted is not None and array.dtype.kind not in _NUMERIC:
            fail(f"there is no tensor of {array.dtype} values")
        if wanted is not None and wanted.dtype is None:
            fail("only a parameter can have a block format")
        if wanted is not None:
            with np.errstate(all="ignore"):
                array = array.astype(wanted.dtype)
        try:
            element_of_dtype(array.dtype)
        except KeyError:
            fail(f"there is no element type for {array.dtype}")
        return self.emit(lambda emitter: emitter.constant_array(array))

    def emit(self, function: Callable[[Emitter], Any]) -> Any:
        """Wraps what a function makes with this graph's emitter; errors point at the caller."""
        self._check_open()
        self._emitter.location = location()
        try:
            result = function(self._emitter)
        except (CallError, ShapeError) as error:
            fail(str(error))
        if isinstance(result, tuple):
            return tuple(Value(self, item) for item in cast(tuple[SSAValue, ...], result))
        return Value(self, result)

    def _plain(self, value: Any) -> Any:
        if isinstance(value, Value):
            if value.graph is not self:
                fail("a value of another graph cannot be used here")
            return value.value
        if isinstance(value, list | tuple):
            return [self._plain(item) for item in cast(Sequence[Any], value)]
        if isinstance(value, np.ndarray):
            return self.constant(value).value
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, np.dtype | type):
            return element_type(value)
        return value

    def _finish(self) -> None:
        if not self._outputs:
            fail(f"graph '{self.name}' has no output")
        if self._draws.sites:
            self._draws.finish(self._emitter)
            self._states[RANDOM_STATE] = StateOp(RANDOM_STATE, RANDOM_TYPE)
        self._block.add_op(ReturnOp(list(self._outputs.values())))
        op = GraphOp(self.name, self._inputs, list(self._outputs), Region(self._block))
        op.location = location()
        parameters = (param for param, _ in self._parameters.values())
        self._module = ModuleOp([*parameters, *self._states.values(), op])


def graph(name: str) -> GraphBuilder:
    """A new graph to build: `with mgn.graph("mlp") as g`."""
    return GraphBuilder(name)


def current_graph() -> GraphBuilder:
    """The graph whose `with` block is open."""
    found = _current.get()
    if found is None:
        fail("no graph is being built: call this inside `with mgn.graph(…)`")
    return found


def graph_of(values: Sequence[Any]) -> GraphBuilder:
    """The graph of the first tensor among arguments, or the open one."""
    for value in values:
        if isinstance(value, Value):
            return value.graph
        if isinstance(value, list | tuple) and value and isinstance(value[0], Value):
            return value[0].graph
    return current_graph()


def _index(items: Sequence[Any]) -> list[Any]:
    for item in items:
        if isinstance(item, Value | np.ndarray | list):
            fail("a list or tensor is no index; use ops.gather(x, ids, axis)")
        if item is None or item is Ellipsis or isinstance(item, slice):
            continue
        if isinstance(item, bool) or not isinstance(item, int | np.integer):
            fail(f"an index must be an integer, not {item!r}")
    return [int(item) if isinstance(item, np.integer) else item for item in items]
