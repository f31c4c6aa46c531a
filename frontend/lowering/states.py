"""States: what `state` declares, what the use of its name reads, what `<-` writes.

In: statements of the syntax tree. Out: `mgn.state` operations, and reads and writes in the order of
the program.
"""

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from mgn.dialects.mgn.build import RANDOM_STATE, RANDOM_TYPE, CallError, Draws
from mgn.dialects.mgn.states import StateOp, WriteStateOp
from mgn.dialects.shapes import ShapeError
from mgn.dialects.types import ELEMENT_TYPES, Family, element_of, spelling
from mgn.frontend.lowering.gradients import Gradients
from mgn.frontend.lowering.parameters import ParameterTable
from mgn.frontend.lowering.values import POISON, StateRef, describe, holds_poison, is_number
from mgn.frontend.syntax import ast
from mgn.frontend.syntax.ast import Place
from mgn.frontend.syntax.units import Definition, Unit


class States(Gradients):
    """Lowers the statements that declare and write states."""

    def __init__(self) -> None:
        super().__init__()
        self.states = ParameterTable(self, StateOp)

    def in_unit(self, unit: Unit, function: Callable[[], Any]) -> Any:
        """What a function gives that sees the top level of a file alone."""
        raise NotImplementedError

    def top_level_state(self, definition: Definition) -> Any:
        """The state of a `state` statement at the top level, or POISON."""
        node = definition.node
        assert isinstance(node, ast.State)
        return self.in_unit(definition.unit, lambda: self._declared(node, ()))

    def declare_state(self, node: ast.State) -> None:
        """`state k: f32[4]`: the name is bound to the state."""
        self.frame.declare(node.name, self._declared(node, self.prefixes), node.place)

    def write_state(self, node: ast.Write) -> None:
        """`k <- x`."""
        value = self.evaluate(node.value)
        state = self._state_named(node)
        if not isinstance(state, StateRef) or holds_poison(value):
            return
        value = self._as_held(value, state, node.value.place)
        if value is POISON:
            return
        if value.type != state.type:
            held = f"'{node.name}' is {spelling(state.type)}, not {spelling(value.type)}"
            self.error(node.value.place, f"state {held}")
            return
        op = WriteStateOp(state.name, value)
        op.location = self.location(node.place)
        self.insert(op)

    def finish_draws(self, draws: Draws) -> None:
        """Counts a run of a graph that draws random numbers, and declares their state."""
        if not draws.sites:
            return
        self.emitter.location = None
        draws.finish(self.emitter)
        self.states.hidden.setdefault(RANDOM_STATE, StateOp(RANDOM_STATE, RANDOM_TYPE))

    def _declared(self, node: ast.State, prefixes: Sequence[str]) -> Any:
        type = self.type_of(node.type)
        if type is not POISON and is_block_format(type):
            return self.error(node.type.place, "only a parameter can have a block format")
        declared = self.states.declare(node, prefixes)
        return POISON if declared is None else StateRef(*declared)

    def _as_held(self, value: Any, state: StateRef, place: Place) -> Any:
        """A value as a tensor; a compile-time number everywhere in the state's shape."""
        if isinstance(value, SSAValue):
            return value
        if not is_number(value):
            return self.error(place, f"a state holds a tensor, not {describe(value)}")
        self.locate(place)
        try:
            scalar = self.emitter.constant(value, element_of(state.type))
        except (CallError, ShapeError) as error:
            return self.error(place, str(error))
        shape = list(state.type.get_shape())
        return self.emit_operation(place, "broadcast_to", scalar, shape) if shape else scalar

    def _state_named(self, node: ast.Write) -> Any:
        """The state that a statement writes, or POISON after an error."""
        name, unit = node.name, self.frame.unit
        scope = self.frame.find(name)
        definition = unit.names.get(name) if scope is None else None
        if scope is not None and (scope[name] is POISON or isinstance(scope[name], StateRef)):
            return scope[name]
        if definition is not None and isinstance(definition.node, ast.State):
            return self.top_level_state(definition)
        if scope is None and definition is None:
            if name in unit.broken or unit.incomplete:
                return POISON
            known = [item for item in self.known_names() if item not in ELEMENT_TYPES]
            return self.error(node.place, f"unknown state '{name}'{self.hint(name, known)}")
        kind = definition.kind if definition is not None else "value"
        message = f"'{name}' is a {kind}, and only a state is written with '<-'"
        return self.error(node.place, message)


def is_block_format(type: Attribute) -> bool:
    """Whether a tensor holds blocks, as only parameters do."""
    assert isinstance(type, TensorType)
    block = (row.attribute for row in ELEMENT_TYPES.values() if row.family is Family.BLOCK)
    return type.element_type in block
