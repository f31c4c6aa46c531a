"""A module as `.mgn` text that parses and lowers to the same module, up to the names of values.

In: a module of `mgn.param`, `mgn.state` and `mgn.graph` operations. Out: text, one
statement an operation. A constant is a literal where lowering would make the same constant at the
same place again, else `constant(…, T = f32)`.
"""

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from mgn.diagnostics import MgnError
from mgn.dialects.mgn.attributes import REQUIRED, same_value
from mgn.dialects.mgn.declared import DeclaredOp
from mgn.dialects.mgn.grad import GradOp
from mgn.dialects.mgn.operation import AttributeSpec, OperandSpec, TensorOp
from mgn.dialects.mgn.states import ReadStateOp, StateOp, WriteStateOp
from mgn.dialects.mgn.structure import ConstantOp, GraphOp, ParamOp, ReadOp, ReturnOp
from mgn.dialects.mgn.user_operations import WORDS
from mgn.dialects.types import ElementType, element_of, spelling
from mgn.frontend.lowering.expressions import OPERATORS
from mgn.frontend.syntax.strings import quote

_SYMBOLS = {name: symbol for symbol, name in OPERATORS.items()}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_WIDTH = 100


class PrintError(MgnError):
    """The module holds something that the language has no form for."""


def print_mgn(module: ModuleOp) -> str:
    """The text of a module. Raises PrintError."""
    parameters: dict[str, ParamOp] = {}
    states: dict[str, StateOp] = {}
    graphs: list[GraphOp] = []
    for op in module.body.block.ops:
        if isinstance(op, ParamOp):
            parameters[op.sym_name.data] = op
        elif isinstance(op, StateOp):
            states[op.sym_name.data] = op
        elif isinstance(op, GraphOp):
            graphs.append(op)
        else:
            raise PrintError(f"the language has no form for '{op.name}'")
    declared: set[str] = set()
    parts: list[str] = []
    names = Names([name for item in graphs for name in (item.sym_name.data, *item.input_names)])
    if not _declared_by_reads(parameters, graphs):
        lines = [_declared("param", names.fresh(name), op) for name, op in parameters.items()]
        parts.append("\n".join(lines))
        declared.update(parameters)
    held = {name: names.fresh(name) for name in states}
    if states:
        lines = [_declared("state", held[name], op) for name, op in states.items()]
        parts.append("\n".join(lines))
    parts += [_GraphPrinter(graph, parameters, declared, held).text() for graph in graphs]
    return "\n\n".join(parts) + "\n"


def _declared_by_reads(parameters: dict[str, ParamOp], graphs: Sequence[GraphOp]) -> bool:
    """Whether `param` statements at the reads alone declare all parameters in their order."""
    reads = (op for graph in graphs for op in graph.walk() if isinstance(op, ReadOp))
    return list(dict.fromkeys(op.parameter_name for op in reads)) == list(parameters)


def _declared(keyword: str, name: str, op: DeclaredOp, again: bool = False) -> str:
    external = op.sym_name.data
    suffix = "" if external == name else f" as {quote(external)}"
    text = f"{keyword} {name}: {spelling(op.type)}{suffix}"
    if op.initialiser is None or again:
        return text
    values = ", ".join(number(value) for value in op.initialiser.values)
    return f"{text} = {op.initialiser.function.data}({values})"


class Names:
    """Distinct names of the language for values."""

    def __init__(self, taken: Sequence[str] = ()) -> None:
        self.taken = set(taken)
        self.counters: dict[str, int] = {}

    def fresh(self, hint: str | None) -> str:
        """A new name, like the hint where that is possible."""
        base = re.sub(r"[^A-Za-z0-9_]+", "_", hint or "v")
        if not _NAME.match(base) or base in WORDS:
            base = f"v_{base}" if base and base[0].isdigit() else f"{base}_" if base else "v"
        name = base if hint is not None and base not in self.taken else ""
        while not name or name in self.taken:
            self.counters[base] = self.counters.get(base, -1) + 1
            name = f"{base}{'_' if hint is not None else ''}{self.counters[base]}"
        self.taken.add(name)
        return name


class _GraphPrinter:
    def __init__(
        self,
        graph: GraphOp,
        parameters: dict[str, ParamOp],
        declared: set[str],
        states: dict[str, str],
    ) -> None:
        self.graph = graph
        self.parameters = parameters
        self.declared = declared
        self.states = states
        self.names = Names([*graph.input_names, *states.values()])
        self.values: dict[SSAValue, str] = {}
        self.literals: set[SSAValue] = set()

    def text(self) -> str:
        graph = self.graph
        for name in (graph.sym_name.data, *graph.input_names, *graph.result_names):
            if not _NAME.match(name) or name in WORDS:
                raise PrintError(f"'{name}' is no name of the language")
        if graph.state_names or graph.written_names:
            raise PrintError("the language has no form for a graph after 'thread-states'")
        self.values.update((argument, name) for name, argument in graph.named_inputs)
        inputs = [f"{name}: {spelling(argument.type)}" for name, argument in graph.named_inputs]
        for op in graph.block.ops:
            self.literals |= set(literal_operands(op))
        lines = [line for op in graph.block.ops for line in self._statement(op)]
        body = "\n".join(f"  {line}" for line in lines)
        return f"graph {graph.sym_name.data}({', '.join(inputs)}) {{\n{body}\n}}"

    def _statement(self, op: Operation) -> Iterator[str]:
        if isinstance(op, ReturnOp):
            yield self._return(op)
        elif isinstance(op, ReadOp):
            external = op.parameter_name
            name = self._bind(op.result)
            known = external in self.declared
            yield _declared("param", name, self.parameters[external], known)
            self.declared.add(external)
        elif isinstance(op, ReadStateOp):
            yield f"{self._bind(op.result)} = {self.states[op.state_name]}"
        elif isinstance(op, WriteStateOp):
            yield f"{self.states[op.state_name]} <- {self._operand(op.value)}"
        elif isinstance(op, GradOp):
            yield self._gradient(op)
        elif isinstance(op, ConstantOp):
            if op.result not in self.literals:
                yield f"{self._bind(op.result)} = {constant(op)}"
        elif isinstance(op, TensorOp):
            expression = self._expression(op)
            targets = ", ".join(self._bind(result) for result in op.results)
            alone = op.spec.several_results and len(op.results) == 1
            yield f"{targets} = {expression}{'[0]' if alone else ''}"
        else:
            raise PrintError(f"the language has no form for '{op.name}'")

    def _gradient(self, op: GradOp) -> str:
        values = [self._operand(value) for value in op.values]
        targets = [self._bind(result) for result in op.outputs]
        given = values[0] if len(values) == 1 else f"[{', '.join(values)}]"
        return f"{', '.join(targets)} = grad({self._operand(op.of)}, {given})"

    def _bind(self, value: SSAValue) -> str:
        self.values[value] = self.names.fresh(value.name_hint)
        return self.values[value]

    def _return(self, op: ReturnOp) -> str:
        items: list[str] = []
        for name, value in zip(self.graph.result_names, op.values, strict=True):
            bound = self._operand(value)
            items.append(name if bound == name else f"{name} = {bound}")
        return f"return {', '.join(items)}"

    def _operand(self, value: SSAValue) -> str:
        if value in self.literals:
            return literal(cast(ConstantOp, value.owner).array)
        return self.values[value]

    def _expression(self, op: TensorOp) -> str:
        name = op.spec.name
        plain = not any(_is_written(item, op.values[item.name]) for item in op.spec.attributes)
        if plain and name in _SYMBOLS and len(op.operands) == 2:
            left, right = (self._operand(operand) for operand in op.operands)
            left = f"({left})" if left.startswith("-") else left
            return f"{left} {_SYMBOLS[name]} {right}"
        if name == "neg":
            return f"-{self._operand(op.operands[0])}"
        return f"{name}({', '.join(self._arguments(op))})"

    def _arguments(self, op: TensorOp) -> Iterator[str]:
        names = [item.name for item in op.spec.operands]
        grouped = dict(zip(names, op.grouped_operands, strict=True))
        positional = True
        for item in op.spec.signature:
            prefix = "" if positional else f"{item.name} = "
            if isinstance(item, AttributeSpec):
                value = op.values[item.name]
                if positional and item.default is REQUIRED:
                    yield attribute(value)
                    continue
                positional = False
                if _is_written(item, value):
                    yield f"{item.name} = {attribute(value)}"
                continue
            value = grouped[item.name]
            if value is None or self._is_default(item, value):
                positional = False
            elif item.starred:
                yield from (self._operand(part) for part in value)
            elif item.variadic:
                yield f"{prefix}[{', '.join(self._operand(part) for part in value)}]"
            else:
                yield f"{prefix}{self._operand(value)}"

    def _is_default(self, item: OperandSpec, value: Any) -> bool:
        """Whether leaving the operand out makes the same literal."""
        if item.default is None or value not in self.literals:
            return False
        return bool(cast(ConstantOp, value.owner).array == item.default)


def _is_written(item: AttributeSpec, value: Any) -> bool:
    return value is not None and not same_value(value, item.default)


def literal_operands(op: Operation) -> Iterator[SSAValue]:
    """Operands that a literal would make again: scalar constants right before the operation.

    Each must have no other use, and a type that the call fixes or another operand shows.
    """
    if not isinstance(op, TensorOp):
        return
    shown = _groups_shown(op)
    before = op.prev_op
    flat = list(_flat_operands(op))
    for item, value in reversed(flat):
        if not _is_scalar_constant(value) or not value.has_one_use():
            continue
        if value.owner is not before:
            break
        if item.element is None and item.group not in shown:
            break
        yield value
        before = cast(Operation, value.owner).prev_op


def _flat_operands(op: TensorOp) -> Iterator[tuple[OperandSpec, SSAValue]]:
    for item, value in zip(op.spec.operands, op.grouped_operands, strict=True):
        if value is not None:
            for part in value if item.variadic else [value]:
                yield item, part


def _groups_shown(op: TensorOp) -> set[str]:
    """Operand groups whose element type an operand shows that is not a scalar constant."""
    return {item.group for item, value in _flat_operands(op) if not _is_scalar_constant(value)}


def _is_scalar_constant(value: SSAValue) -> bool:
    owner = value.owner
    return isinstance(owner, ConstantOp) and cast(TensorType, value.type).get_shape() == ()


def literal(array: np.ndarray) -> str:
    """A scalar as a literal."""
    if array.dtype == np.bool_:
        return "true" if array else "false"
    if np.issubdtype(array.dtype, np.integer):
        return str(int(array))
    return _short_f32(array) if array.dtype == np.float32 else number(float(array))


def _short_f32(value: np.ndarray) -> str:
    """The shortest text that rounds to the same f32, by way of an f64 as the parser reads it."""
    text = repr(float(str(np.float32(value))))
    same = np.float32(float(text)).tobytes() == np.float32(value).tobytes()
    return text if same else number(float(value))


def number(value: float) -> str:
    """A float as a literal that reads back exactly."""
    return repr(float(value))


def constant(op: ConstantOp) -> str:
    """`constant(…, T = …)` for any constant."""
    array = op.array
    element = element_of(cast(Attribute, op.result.type)).name
    if array.ndim == 0:
        return f"constant({literal(array)}, T = {element})"
    shape = ", ".join(str(size) for size in array.shape)
    flat = array.reshape(-1)
    if array.size == 0 or (array.size > 4 and _is_splat(flat)):
        value = literal(flat[0]) if array.size else "0"
        return f"constant({value}, shape = [{shape}], T = {element})"
    text = f"constant({_nested(array)}, T = {element})"
    if len(text) <= _WIDTH:
        return text
    return "\n    ".join(textwrap.wrap(text, _WIDTH, break_long_words=False))


def _is_splat(flat: np.ndarray) -> bool:
    return flat.tobytes() == np.full_like(flat, flat[0]).tobytes()


def _nested(array: np.ndarray) -> str:
    if array.ndim == 0:
        return literal(array)
    return f"[{', '.join(_nested(part) for part in array)}]"


def attribute(value: Any) -> str:
    """An attribute's value as the language writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return number(value)
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, ElementType):
        return value.name
    if isinstance(value, Sequence):
        return f"[{', '.join(attribute(item) for item in cast(Sequence[Any], value))}]"
    return str(value)
