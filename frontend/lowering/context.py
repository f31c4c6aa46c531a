"""What lowering keeps while it walks a program: names in scope, the calls it is in, diagnostics,
the open block.

In: nothing but the units. Out: name lookup, error reports with `note: called from`, and an
emitter whose operations carry the place of the source they come from.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr
from xdsl.ir import Block, Operation, SSAValue

from mgn.diagnostics import SHOWN, Diagnostic
from mgn.dialects.mgn.build import Emitter, suggestion
from mgn.dialects.mgn.operation import OPERATIONS
from mgn.dialects.mgn.states import ReadStateOp
from mgn.dialects.types import ELEMENT_TYPES
from mgn.frontend.lowering.lists import Items, Several
from mgn.frontend.lowering.values import POISON, StateRef
from mgn.frontend.syntax.ast import Place
from mgn.frontend.syntax.units import Definition, Unit

MOST_OPERATIONS = 100_000
"""Operations that a module may have after unrolling and inlining, beside what its text spells."""

MOST_STEPS = 3_000_000
"""Statements and expressions that lowering may walk through, beside those of the text."""

MOST_COMPARED = 10_000
"""Names among which the nearest is looked for."""

CALLS_OF_PYTHON = {
    "range": "; the numbers from a to b are a..b in a for, and iota in a tensor",
    "len": "; x.shape[0] is the size of an axis",
    "size": "; x.shape[0] is the size of an axis",
    "shape": "; x.shape is the list of sizes",
    **{
        name: f"; write cast(x, {element})"
        for name, element in (("int", "i32"), ("long", "i64"), ("float", "f32"), ("half", "f16"))
    },
}
"""What others call, and what has another form here."""

ITEMS_A_STEP = 64
"""Items of a list that count as one expression, wherever a list is walked over."""


class Abandoned(Exception):
    """The graph is given up after an error that was reported: a limit was passed."""


class TooLarge(Exception):
    """The module passes the limit on operations."""


@dataclass
class Frame:
    """The names of one graph or one call of a `fn`, and where it was called."""

    unit: Unit
    function: str
    called_from: "tuple[Frame, Place] | None" = None
    scopes: list[dict[str, Any]] = field(default_factory=lambda: [{}])
    bound: dict[str, Place] = field(default_factory=dict[str, Place])
    """Where names got the values that they have, or had in a block that is over."""
    ended: dict[str, Place] = field(default_factory=dict[str, Place])
    """Names of blocks that are over, with their places."""
    returned: Any = None
    has_returned: bool = False

    def find(self, name: str) -> dict[str, Any] | None:
        """The innermost scope that holds a name."""
        for scope in reversed(self.scopes):
            if name in scope:
                return scope
        return None

    def bind(self, name: str, value: Any) -> None:
        """Binds a name again where it is bound already, else in the innermost block."""
        scope = self.find(name)
        (self.scopes[-1] if scope is None else scope)[name] = value

    def declare(self, name: str, value: Any, place: Place) -> None:
        """Binds a name in the innermost block."""
        self.scopes[-1][name] = value
        self.bound[name] = place


class Context:
    """State of one lowering."""

    def __init__(self) -> None:
        self.diagnostics: list[Diagnostic] = []
        self.frame: Frame
        self.block = Block()
        self.emitter = Emitter(self.insert)
        self.prefixes: list[str] = []
        self.top_level_reads: dict[tuple[Unit, str], Any] = {}
        self.constants: dict[Definition, Any] = {}
        self._reported: set[tuple[str, int, int, str]] = set()
        self._operations = 0
        self.steps = 0
        self._locations: dict[tuple[Unit, Place], FileLineColLoc] = {}

    # ---- operations

    def insert(self, op: Operation) -> None:
        """Appends an operation to the open block."""
        self._operations += 1
        if self._operations > MOST_OPERATIONS and self._operations > self.allowed(MOST_OPERATIONS):
            raise TooLarge(f"more than {MOST_OPERATIONS:,} operations after unrolling")
        self.block.add_op(op)

    def locate(self, place: Place) -> None:
        """Gives the operations that follow this place of the source."""
        self.emitter.location = self.location(place)

    def location(self, place: Place) -> FileLineColLoc:
        """A place of the current file, as operations carry it."""
        key = (self.frame.unit, place)
        found = self._locations.get(key)
        if found is None:
            name = StringAttr(self.frame.unit.source.name)
            found = FileLineColLoc(name, IntAttr(place[0]), IntAttr(place[1]))
            self._locations[key] = found
        return found

    def allowed(self, limit: int) -> int:
        """A limit on what unrolling makes, and one more for each character that is written."""
        return limit + len(self.frame.unit.source.text)

    def step(self, place: Place, count: int = 1) -> None:
        """Counts a statement; a program that runs away is abandoned with an error."""
        self.steps += count
        if self.steps > MOST_STEPS and self.steps > self.allowed(MOST_STEPS):
            what = "statements and expressions after unrolling"
            self.error(place, f"more than {MOST_STEPS:,} {what}")
            raise Abandoned

    def step_over(self, place: Place, value: Any) -> None:
        """Counts the work of walking over a list."""
        if isinstance(value, Items | Several):
            self.step(place, value.extent.size // ITEMS_A_STEP)

    # ---- errors

    def error(self, place: Place, message: str, notes: Iterable[Diagnostic] = ()) -> Any:
        """Reports an error once, with the calls it came through; gives POISON."""
        source = self.frame.unit.source
        key = (source.name, *place, message)
        if key not in self._reported:
            self._reported.add(key)
            self.diagnostics.append(source.error(place, message, (*notes, *self._call_notes())))
        return POISON

    def _call_notes(self) -> list[Diagnostic]:
        notes: list[Diagnostic] = []
        caller = self.frame.called_from
        while caller is not None:
            frame, place = caller
            notes.append(frame.unit.source.note(place, "called from here"))
            caller = frame.called_from
        return notes if len(notes) <= 8 else [*notes[:4], *notes[-4:]]

    def hint(self, name: str, known: Sequence[str]) -> str:
        """The nearest known name for a message, while there are few of both: it takes its time."""
        few = len(self.diagnostics) < SHOWN and len(known) < MOST_COMPARED
        return suggestion(name, known) if few else ""

    def call_hint(self, name: str, known: Sequence[str]) -> str:
        """What may have been meant by the call of something that is no operation."""
        if name in ELEMENT_TYPES:
            return f"; write cast(x, {name})"
        return CALLS_OF_PYTHON[name] if name in CALLS_OF_PYTHON else self.hint(name, known)

    # ---- names

    def lookup(self, name: str, place: Place) -> Any:
        """The value of a name, or POISON after an error."""
        scope = self.frame.find(name)
        if scope is not None:
            value = scope[name]
            return self.read_state(value, place) if isinstance(value, StateRef) else value
        unit = self.frame.unit
        definition = unit.names.get(name)
        if definition is not None:
            return self.top_level_value(definition, place)
        if name in unit.broken:
            return POISON
        if name in ELEMENT_TYPES:
            return ELEMENT_TYPES[name]
        return self._unknown(name, place)

    def top_level_value(self, definition: Definition, place: Place) -> Any:
        """The value of a const, param or state."""
        raise NotImplementedError

    def read_state(self, state: StateRef, place: Place) -> SSAValue:
        """What a state holds at this place of the program."""
        op = ReadStateOp(state.name, state.type)
        op.location = self.location(place)
        self.insert(op)
        return op.result

    def _unknown(self, name: str, place: Place) -> Any:
        unit = self.frame.unit
        if unit.incomplete:
            return POISON
        notes: list[Diagnostic] = []
        if name in self.frame.ended:
            bound = self.frame.ended[name]
            text = "bound inside a block, and known only there; bind it before the block as well"
            notes.append(unit.source.note(bound, text))
            return self.error(place, f"unknown name '{name}'", notes)
        for graph in unit.graphs:
            if any(dim.name == name for dim in getattr(graph.node, "dimensions", ())):
                text = (
                    f"'{name}' is a dimension of graph '{graph.node.name}'; pass it as an argument"
                )
                notes.append(unit.source.note(graph.node.place, text))
                break
        if name in OPERATIONS:
            return self.error(place, f"operation '{name}' is called with '(…)'", notes)
        hint = self.hint(name, self.known_names())
        return self.error(place, f"unknown name '{name}'{hint}", notes)

    def known_names(self) -> Sequence[str]:
        """Names that an expression may use here."""
        local = [name for scope in self.frame.scopes for name in scope]
        kinds = ("const", "param", "state")
        shared = [name for name, item in self.frame.unit.names.items() if item.kind in kinds]
        return [*local, *shared, *ELEMENT_TYPES, "true", "false", "none"]

    def tensor_result(self, results: Sequence[SSAValue], several: bool) -> Any:
        """An operation's results as an expression's value."""
        return tuple(results) if several else results[0]
