"""Statements and graphs: from the syntax tree to a module of the `mgn` dialect.

In: a unit, values for the dimensions, the graphs that are wanted. Out: a module, or the
diagnostics of every error. An erroneous statement binds its names to POISON, so that each mistake
is told once.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region, SSAValue

from mgn.diagnostics import spelled
from mgn.dialects.mgn.build import Draws
from mgn.dialects.mgn.states import state_accesses
from mgn.dialects.mgn.structure import GraphOp, ReadOp, ReturnOp
from mgn.dialects.shapes import ShapeError
from mgn.dialects.types import ELEMENT_TYPES, tensor, value_type
from mgn.frontend.lowering.context import Abandoned, Frame, TooLarge
from mgn.frontend.lowering.expressions import LOGICAL
from mgn.frontend.lowering.lists import MOST_ITEMS, several_of
from mgn.frontend.lowering.parameters import ParameterTable
from mgn.frontend.lowering.states import States, is_block_format
from mgn.frontend.lowering.values import POISON, StateRef, describe, holds_poison, is_number
from mgn.frontend.syntax import ast
from mgn.frontend.syntax.ast import Place
from mgn.frontend.syntax.units import Definition, Unit

LONGEST_LOOP = 1_000_000
LARGEST_SIZE = 2**62

Result = tuple[str, Any, Place]

_TOP_LEVEL_KEYWORDS: dict[type[ast.Statement], str] = {
    ast.Function: "fn",
    ast.Graph: "graph",
    ast.Constants: "const",
    ast.Import: "import",
}


class Lowering(States):
    """Lowers graphs of one unit into one module; `constants` gives consts other values."""

    def __init__(self, unit: Unit, constants: Mapping[str, float] | None = None) -> None:
        super().__init__()
        self.unit = unit
        self.constants |= {unit.names[name]: (size,) for name, size in (constants or {}).items()}
        self.parameters = ParameterTable(self)
        self.graphs: list[GraphOp] = []

    def module(self, only_read: bool = False) -> ModuleOp:
        """The module of all graphs lowered so far; `only_read` drops what nobody uses of parameters
        and states.
        """
        parameters, states = self.parameters.ops, self.states.ops
        if only_read:
            ops = (op for graph in self.graphs for op in graph.block.ops)
            read = {op.parameter_name for op in ops if isinstance(op, ReadOp)}
            used = {name for graph in self.graphs for name, _ in state_accesses(graph)}
            parameters = [op for op in parameters if op.sym_name.data in read]
            states = [op for op in states if op.sym_name.data in used]
        return ModuleOp([*parameters, *states, *self.graphs])

    # ---- graphs and top level

    def lower_top_level(self) -> None:
        """Evaluates every const and declares every param and state of the file."""
        for definition in self.unit.names.values():
            self.frame = Frame(definition.unit, "")
            try:
                self._lower_definition(definition)
            except Abandoned:
                return
            except TooLarge as error:
                self.error(definition.node.place, str(error))
                return
            except RecursionError:
                self.error(definition.node.place, "the program is nested too deep")

    def _lower_definition(self, definition: Definition) -> None:
        if isinstance(definition.node, ast.Constant):
            self.top_level_value(definition, definition.node.place)
        elif isinstance(definition.node, ast.Param):
            self.parameters.declare(definition.node)
        elif isinstance(definition.node, ast.State):
            self.top_level_state(definition)

    def lower_graph(self, definition: Definition, dims: Mapping[str, int]) -> None:
        """Lowers one graph with values for its dimensions."""
        graph = definition.node
        assert isinstance(graph, ast.Graph)
        self.frame = Frame(definition.unit, graph.name)
        self.block = Block()
        self.top_level_reads.clear()
        self.prefixes.clear()
        self.emitter.location = None
        self.emitter.draws = Draws()
        try:
            self._bind_dimensions(graph, dims)
            types = self._bind_inputs(graph)
            self.execute(graph.body)
            results = self._results(graph)
        except TooLarge as error:
            self.error(graph.place, str(error))
            return
        except Abandoned:
            return
        except RecursionError:
            self.error(graph.place, "the program is nested too deep")
            return
        if POISON in types or any(value is POISON for _, value, _ in results):
            return
        self.finish_draws(self.emitter.draws)
        self.block.add_op(ReturnOp([value for _, value, _ in results]))
        inputs = [item.name for item in graph.inputs]
        op = GraphOp(graph.name, inputs, [name for name, _, _ in results], Region(self.block))
        op.location = self.location(graph.place)
        self.graphs.append(op)

    def _bind_dimensions(self, graph: ast.Graph, dims: Mapping[str, int]) -> None:
        scope = self.frame.scopes[0]
        for dim in graph.dimensions:
            if dim.name in scope:
                self.error(dim.place, f"dimension '{dim.name}' is declared twice")
            elif dim.name in dims:
                scope[dim.name] = dims[dim.name]
            elif dim.default is not None:
                what = f"dimension '{dim.name}'"
                scope[dim.name] = self.evaluate_int(dim.default, what)
            else:
                given = spelled(f'dims={{"{dim.name}": N}}', f"--dim {dim.name}=N")
                message = f"dimension '{dim.name}' of graph '{graph.name}' has no value"
                scope[dim.name] = self.error(dim.place, f"{message}; bind it with {given}")

    def _bind_inputs(self, graph: ast.Graph) -> list[Any]:
        scope = self.frame.scopes[0]
        types: list[Any] = []
        for item in graph.inputs:
            type = self.type_of(item.type)
            if type is not POISON and is_block_format(type):
                type = self.error(item.type.place, "only a parameter can have a block format")
            if item.name in scope:
                self.error(item.place, f"'{item.name}' is declared twice")
            scope[item.name] = POISON
            types.append(type)
            if type is not POISON:
                argument = self.block.insert_arg(type, len(self.block.args))
                argument.name_hint = item.name
                scope[item.name] = argument
        return types

    def _results(self, graph: ast.Graph) -> list[Result]:
        if not self.frame.has_returned:
            if not self.frame.unit.has_syntax_errors:
                self.error(graph.place, f"graph '{graph.name}' has no return")
            return [("", POISON, graph.place)]
        results: list[Result] = []
        names: set[str] = set()
        for name, value, place in self.frame.returned:
            if name in names:
                self.error(place, f"two results are named '{name}'")
            names.add(name)
            results.append((name, self._as_tensor(value, place), place))
        return results

    def _as_tensor(self, value: Any, place: Place) -> Any:
        if value is POISON or isinstance(value, SSAValue):
            return value
        if is_number(value):
            element = (
                "bool" if isinstance(value, bool) else "i32" if isinstance(value, int) else "f32"
            )
            self.locate(place)
            try:
                return self.emitter.constant(value, element)
            except ShapeError as error:
                return self.error(place, f"{error}; full([], …, T = i64) gives another type")
        return self.error(place, f"a graph returns tensors, not {describe(value)}")

    def top_level_value(self, definition: Definition, place: Place) -> Any:
        node = definition.node
        if isinstance(node, ast.Constant):
            return self._constant_value(definition, node)
        if isinstance(node, ast.Param):
            key = (definition.unit, node.name)
            if key not in self.top_level_reads:
                self.top_level_reads[key] = self.in_unit(
                    definition.unit, lambda: self._read(node, top_level=True)
                )
            return self.top_level_reads[key]
        if isinstance(node, ast.State):
            state = self.top_level_state(definition)
            return self.read_state(state, place) if isinstance(state, StateRef) else POISON
        return self.error(place, f"'{node.name}' is a {definition.kind}, not a value")

    def _constant_value(self, definition: Definition, node: ast.Constant) -> Any:
        if definition not in self.constants:
            self._evaluate_constants(definition)
        if self.constants[definition] is None:
            self.constants[definition] = (POISON,)
            self.in_unit(
                definition.unit,
                lambda: self.error(node.place, f"const '{node.name}' depends on itself"),
            )
        return self.constants[definition][0]

    def _evaluate_constants(self, definition: Definition) -> None:
        """Evaluates a const, the consts that it names before it: a chain of them is a loop."""
        pending = [definition]
        while pending:
            last = pending[-1]
            if last not in self.constants:
                self.constants[last] = None
                pending += [item for item in _constants_named(last) if item not in self.constants]
                continue
            pending.pop()
            if self.constants[last] is None:
                assert isinstance(last.node, ast.Constant)
                value = self.in_unit(last.unit, partial(self._evaluate_constant, last.node))
                self.constants[last] = self.constants[last] or (value,)

    def _evaluate_constant(self, node: ast.Constant) -> Any:
        value = self.evaluate(node.value)
        if isinstance(value, SSAValue):
            return self.error(node.value.place, "a const is known when compiling")
        return value

    def in_unit(self, unit: Unit, function: Callable[[], Any]) -> Any:
        frame, self.frame = self.frame, Frame(unit, "")
        active, self.active = self.active, set[Definition]()
        try:
            return function()
        finally:
            self.frame, self.active = frame, active

    # ---- types and parameters

    def type_of(self, node: ast.TypeExpression) -> Any:
        if node.name not in ELEMENT_TYPES:
            hint = self.hint(node.name, list(ELEMENT_TYPES))
            return self.error(node.place, f"unknown element type '{node.name}'{hint}")
        sizes: list[Any] = []
        for size in node.sizes or ():
            value = self.evaluate_int(size, "a dimension")
            if value is not POISON and not 0 <= value < LARGEST_SIZE:
                value = self.error(size.place, f"a dimension cannot be {value}")
            sizes.append(value)
        if POISON in sizes:
            return POISON
        try:
            return tensor(node.name, sizes)
        except ShapeError as error:
            return self.error(node.place, str(error))

    def _read(self, node: ast.Param, top_level: bool = False) -> Any:
        declared = self.parameters.declare(node, () if top_level else self.prefixes)
        if declared is None:
            return POISON
        external, type = declared
        op = ReadOp(external, value_type(type))
        op.location = self.location(node.place)
        op.result.name_hint = node.name
        self.insert(op)
        return op.result

    # ---- statements

    def execute(self, block: ast.Block) -> None:
        previous: ast.Statement | None = None
        for statement in block.statements:
            if self.frame.has_returned:
                if isinstance(previous, ast.Return):
                    self.error(statement.place, "this follows a return and is never reached")
                return
            self.step(statement.place)
            self._EXECUTE[type(statement)](self, statement)
            previous = statement

    def _execute_inside(
        self, block: ast.Block, place: Place, names: Mapping[str, Any] | None = None
    ) -> None:
        """A block with a scope of its own, of a statement that itself binds some names."""
        frame = self.frame
        frame.scopes.append(dict(names or {}))
        self.execute(block)
        for name in frame.scopes.pop():
            frame.ended[name] = frame.bound.get(name, place)

    def _assign(self, node: ast.Assign) -> None:
        values: Sequence[Any] = [self.evaluate(item) for item in node.values]
        if not node.unpacks and len(values) == 1:
            self._bind(node.names[0], values[0])
            return
        if len(values) == 1 and isinstance(values[0], list | tuple):
            values = values[0]
        elif len(values) == 1 and values[0] is POISON:
            values = [POISON] * len(node.names)
        elif len(values) == 1 and len(node.names) == 1:
            message = f"'{node.names[0][0]}, =' takes a list apart, not {describe(values[0])}"
            values = [self.error(node.place, message)]
        if len(values) != len(node.names):
            got = describe(values[0]) if len(values) == 1 else f"{len(values)} values"
            names = "1 name" if len(node.names) == 1 else f"{len(node.names)} names"
            values = [self.error(node.place, f"{got} for {names}")]
            values *= len(node.names)
        for target, value in zip(node.names, values, strict=True):
            self._bind(target, value)

    def _bind(self, target: tuple[str, Place], value: Any) -> None:
        name, place = target
        if self._is_state(name):
            self.error(place, f"'{name}' is a state, which is written with '<-'")
            return
        if isinstance(value, SSAValue) and value.name_hint is None:
            value.name_hint = name
        self.frame.bind(name, value)
        self.frame.bound[name] = place

    def _is_state(self, name: str) -> bool:
        """Whether a name stands for a state here. One of an import gives way to a new value."""
        scope, unit = self.frame.find(name), self.frame.unit
        if scope is not None:
            return isinstance(scope[name], StateRef)
        definition = unit.names.get(name)
        if definition is None or definition.unit is not unit:
            return False
        return isinstance(definition.node, ast.State)

    def _param(self, node: ast.Param) -> None:
        self.frame.declare(node.name, self._read(node), node.place)

    def _expression(self, node: ast.ExpressionStatement) -> None:
        value = node.value
        if isinstance(value, ast.Call):
            self.evaluate(value)
        elif self.evaluate(value) is not POISON:
            self.error(value.place, "the value is not used; bind it with NAME = …")

    def _scope(self, node: ast.Scope) -> None:
        prefix = self.evaluate(node.prefix)
        if prefix is not POISON and not isinstance(prefix, str):
            prefix = self.error(node.prefix.place, f"a scope needs a text, not {describe(prefix)}")
        self.prefixes.append("" if prefix is POISON else prefix)
        try:
            self.execute(node.body)
        finally:
            self.prefixes.pop()

    def _for(self, node: ast.For) -> None:
        items = self._loop_items(node)
        if items is None:
            self._poison_bound(node.body)
            return
        for item in items:
            self.step(node.place)
            self.turns.append((node.name, item))
            self._execute_inside(node.body, node.place, {node.name: item})
            self.turns.pop()
            if self.frame.has_returned:
                return

    def _loop_items(self, node: ast.For) -> Sequence[Any] | None:
        if node.stop is None:
            items = self.evaluate(node.start)
            if items is POISON or isinstance(items, list | tuple):
                return None if items is POISON else items
            self.error(node.start.place, f"for needs a..b or a list, not {describe(items)}")
            return None
        start = self.evaluate_int(node.start, "a loop bound")
        stop = self.evaluate_int(node.stop, "a loop bound")
        if start is POISON or stop is POISON:
            return None
        if stop - start > LONGEST_LOOP:
            self.error(node.place, f"a loop may run {LONGEST_LOOP:,} times, not {stop - start:,}")
            return None
        return range(start, stop)

    def _if(self, node: ast.If) -> None:
        chosen = self.evaluate(node.condition)
        if chosen is not POISON and not isinstance(chosen, bool):
            message = f"if needs a compile-time true or false, not {describe(chosen)}"
            if isinstance(chosen, SSAValue):
                message += "; use where(c, a, b)"
            chosen = self.error(node.condition.place, message)
        if chosen is POISON:
            self._poison_bound(node.then)
            self._poison_bound(node.otherwise)
        elif chosen:
            self._execute_inside(node.then, node.place)
        elif node.otherwise is not None:
            self._execute_inside(node.otherwise, node.place)

    def _poison_bound(self, block: ast.Block | None) -> None:
        """Poisons what a block that was not lowered would have bound."""
        for statement in block.statements if block is not None else ():
            if isinstance(statement, ast.Return):
                self._give_up_result()
            for name in _bound_by(statement):
                if self.frame.find(name) is not None:
                    self.frame.bind(name, POISON)
            for inner in _blocks_of(statement):
                self._poison_bound(inner)

    def _return(self, node: ast.Return) -> None:
        frame = self.frame
        values = [self.evaluate(item.value) for item in node.values]
        if frame.called_from is not None:
            most = self.allowed(MOST_ITEMS)
            frame.returned = (
                values[0] if len(values) == 1 else self.fold(node.place, several_of, values, most)
            )
        else:
            frame.returned = self._named(node, values)
        frame.has_returned = True

    def _named(self, node: ast.Return, values: Sequence[Any]) -> list[Result]:
        if not node.values:
            self.error(node.place, "a graph returns one value or more")
            return [("", POISON, node.place)]
        results: list[Result] = []
        for item, value in zip(node.values, values, strict=True):
            name = item.name
            if name is None:
                if not holds_poison(value):
                    self.error(item.place, "a result needs a name: return NAME = …")
                name, value = f"result {len(results)}", POISON
            results.append((name, value, item.place))
        return results

    def _broken(self, node: ast.Broken) -> None:
        for name in node.names:
            self.frame.bind(name, POISON)
        if node.returns:
            self._give_up_result()

    def _give_up_result(self) -> None:
        self.frame.has_returned = True
        poisoned = [("", POISON, (1, 1))]
        self.frame.returned = POISON if self.frame.called_from is not None else poisoned

    def _top_level_only(self, node: ast.Statement) -> None:
        kind = _TOP_LEVEL_KEYWORDS[type(node)]
        self.error(node.place, f"'{kind}' stands at the top level only")
        if isinstance(node, ast.Constants):
            for item in node.constants:
                self.frame.bind(item.name, POISON)

    _EXECUTE: ClassVar[dict[type[ast.Statement], Callable[..., None]]] = {
        ast.Assign: _assign,
        ast.Param: _param,
        ast.State: States.declare_state,
        ast.Write: States.write_state,
        ast.ExpressionStatement: _expression,
        ast.Scope: _scope,
        ast.For: _for,
        ast.If: _if,
        ast.Return: _return,
        ast.Broken: _broken,
        ast.Function: _top_level_only,
        ast.Graph: _top_level_only,
        ast.Constants: _top_level_only,
        ast.Import: _top_level_only,
    }


def _constants_named(definition: Definition) -> list[Definition]:
    """The consts that a const reads in any case: not those behind `and` and `or`."""
    inside = list(ast.walk(definition.node))
    perhaps = {
        id(name)
        for item in inside
        if isinstance(item, ast.Binary) and item.operator in LOGICAL
        for name in ast.walk(item.right)
    }
    known = definition.unit.names
    names = [item.name for item in inside if isinstance(item, ast.Name) and id(item) not in perhaps]
    found = [known[name] for name in names if name in known]
    return [item for item in found if isinstance(item.node, ast.Constant)]


def _bound_by(statement: ast.Statement) -> Sequence[str]:
    if isinstance(statement, ast.Assign):
        return [name for name, _ in statement.names]
    return [statement.name] if isinstance(statement, ast.Param | ast.State) else []


def _blocks_of(statement: ast.Statement) -> Sequence[ast.Block | None]:
    if isinstance(statement, ast.If):
        return [statement.then, statement.otherwise]
    return [statement.body] if isinstance(statement, ast.For | ast.Scope) else []
