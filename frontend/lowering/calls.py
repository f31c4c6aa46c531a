"""Calls: operations by name, and `fn`s, which are inlined.

In: a call of the syntax tree. Out: its value. A `fn` of the program shadows an operation of the
same name.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from mgn.diagnostics import Diagnostic
from mgn.dialects.mgn.build import CallError, bind, literal_array
from mgn.dialects.mgn.operation import OPERATIONS
from mgn.dialects.shapes import ShapeError
from mgn.dialects.types import ELEMENT_TYPES, ElementType, spelling
from mgn.frontend.lowering.context import Frame
from mgn.frontend.lowering.expressions import Expressions
from mgn.frontend.lowering.values import POISON, describe, fold_call, holds_poison, is_number
from mgn.frontend.syntax import ast
from mgn.frontend.syntax.ast import Place
from mgn.frontend.syntax.units import Definition

Turn = tuple[str, Any]
"""A loop's name, and what it stands for in one turn."""

DERIVATIVES: Mapping[str, tuple[str, ...]] = {"grad": ("loss", "x"), "jvp": ("y", "x", "v")}
"""The calls that give derivatives, with their arguments: `loss` is a scalar, `y` a value, `x` what
it is differentiated by, a value or a list, and `v` as many directions.
"""

DEEPEST_CALLS = 100

MOST_ELEMENTS = 1 << 24
"""Of a `constant`, which is kept whole; `full` keeps its value alone."""

COMPILE_TIME: Mapping[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "str": (str,),
    "ints": (list,),
}
"""The compile-time types that a parameter of a `fn` can have."""


class Calls(Expressions):
    """Lowers calls. Bodies of functions are left to `Lowering`."""

    def __init__(self) -> None:
        super().__init__()
        self.active: set[Definition] = set()
        """The functions whose bodies are being lowered."""
        self.turns: list[Turn] = []
        """The loops whose bodies are being lowered, each with the turn."""

    def call(self, node: ast.Call) -> Any:
        unit = self.frame.unit
        positional = [self.evaluate(item) for item in node.positional]
        keywords = {item.name: self.evaluate(item.value) for item in node.keywords}
        for value in (*positional, *keywords.values()):
            self.step_over(node.place, value)
        definition = unit.names.get(node.name)
        if definition is not None and isinstance(definition.node, ast.Function):
            return self._call_function(node, definition, positional, keywords)
        if node.name in OPERATIONS:
            return self._call_operation(node, positional, keywords)
        if node.name == "constant":
            return self._constant(node, positional, keywords)
        if node.name in DERIVATIVES:
            return self.derivative(node, positional, keywords)
        if node.name in unit.broken or unit.incomplete:
            return POISON
        return self._unknown_call(node, definition)

    def _unknown_call(self, node: ast.Call, definition: Definition | None) -> Any:
        name = node.name
        if definition is not None or self.frame.find(name) is not None:
            kind = definition.kind if definition is not None else "value"
            return self.error(node.place, f"'{name}' is a {kind}, which cannot be called")
        functions = [n for n, d in self.frame.unit.names.items() if d.kind == "fn"]
        hint = self.call_hint(name, [*functions, *OPERATIONS, *DERIVATIVES])
        return self.error(node.place, f"unknown operation '{name}'{hint}")

    # ---- operations

    def _call_operation(
        self, node: ast.Call, positional: Sequence[Any], keywords: Mapping[str, Any]
    ) -> Any:
        spec = OPERATIONS[node.name]
        poisoned = holds_poison([*positional, *keywords.values()])
        try:
            call = bind(spec, positional, dict(keywords))
            if poisoned:
                return POISON
            folded = fold_call(call)
            if folded is not None:
                return folded
            self.locate(node.place)
            results = self.emitter.emit(call).results
        except CallError as error:
            return POISON if poisoned else self.error(node.place, str(error))
        except ShapeError as error:
            message = str(error)
            named = message if message.startswith(node.name) else f"{node.name}: {message}"
            return self.error(node.place, named)
        return self.tensor_result(results, spec.several_results)

    def _constant(
        self, node: ast.Call, positional: Sequence[Any], keywords: Mapping[str, Any]
    ) -> Any:
        """`constant([[1.0, 2.0]], T = f32)`, or `constant(1.0, shape = [4], T = f32)`."""
        unknown = next((name for name in keywords if name not in ("T", "shape")), None)
        if holds_poison([*positional, *keywords.values()]):
            return POISON
        if len(positional) != 1 or unknown is not None:
            message = f"constant() has no argument '{unknown}'" if unknown else "takes one value"
            return self.error(node.place, message if unknown else f"constant() {message}")
        element, shape = keywords.get("T"), keywords.get("shape")
        if element is not None and (not isinstance(element, ElementType) or element.dtype is None):
            return self.error(node.place, "constant(): 'T' must be an element type such as f32")
        try:
            array = _constant_array(positional[0], element, shape)
        except ShapeError as error:
            return self.error(node.place, f"constant(): {error}")
        self.locate(node.place)
        return self.emitter.constant_array(array)

    def derivative(
        self, node: ast.Call, positional: Sequence[Any], keywords: Mapping[str, Any]
    ) -> Any:
        """`grad(loss, x)`, `grad(loss, [x, w])`, or `jvp(y, x, v)`."""
        raise NotImplementedError

    # ---- functions

    def _call_function(
        self,
        node: ast.Call,
        definition: Definition,
        positional: Sequence[Any],
        keywords: Mapping[str, Any],
    ) -> Any:
        function = definition.node
        assert isinstance(function, ast.Function)
        if definition in self.active:
            message = f"fn '{node.name}' calls itself; recursion is not possible"
            return self.error(node.place, message)
        if len(self.active) > DEEPEST_CALLS:
            return self.error(node.place, f"calls nested more than {DEEPEST_CALLS} deep")
        frame = Frame(definition.unit, function.name, (self.frame, node.place))
        given = self._match(node, definition, positional, keywords)
        if given is None:
            return POISON
        caller, self.frame = self.frame, frame
        self.active.add(definition)
        try:
            for formal in function.formals:
                frame.scopes[0][formal.name] = self._argument(formal, given, caller)
            self.execute(function.body)
        finally:
            self.frame = caller
            self.active.discard(definition)
        if not frame.has_returned:
            return None
        return frame.returned

    def execute(self, block: ast.Block) -> None:
        """Lowers the statements of a function's body."""
        raise NotImplementedError

    def type_of(self, node: ast.TypeExpression) -> Any:
        """A tensor type, or POISON."""
        raise NotImplementedError

    def _match(
        self,
        node: ast.Call,
        definition: Definition,
        positional: Sequence[Any],
        keywords: Mapping[str, Any],
    ) -> dict[str, tuple[Any, Place]] | None:
        """Arguments by parameter name, with their places; None after an error."""
        function = definition.node
        assert isinstance(function, ast.Function)
        names = {formal.name: None for formal in function.formals}
        here = [definition.unit.source.note(function.place, f"'{function.name}' is defined here")]
        if len(positional) > len(names):
            message = f"{node.name}() takes {_count(len(names))}, got {len(positional)}"
            self.error(node.place, message, here)
            return None
        places = [item.place for item in node.positional]
        given = dict(zip(names, zip(positional, places, strict=True), strict=False))
        for keyword in node.keywords:
            if keyword.name not in names:
                hint = self.hint(keyword.name, [*names])
                message = f"{node.name}() has no parameter '{keyword.name}'{hint}"
                self.error(keyword.place, message, here)
                return None
            if keyword.name in given:
                message = f"{node.name}() got two values for '{keyword.name}'"
                self.error(keyword.place, message, here)
                return None
            given[keyword.name] = (keywords[keyword.name], keyword.value.place)
        missing = [f.name for f in function.formals if f.default is None and f.name not in given]
        if missing:
            listing = " and ".join(f"'{name}'" for name in missing)
            self.error(node.place, f"{node.name}() needs {listing}", here)
            return None
        return given

    def _argument(
        self, formal: ast.Formal, given: Mapping[str, tuple[Any, Place]], caller: Frame
    ) -> Any:
        """The value of a parameter: the argument, or the default in the function's own scope."""
        if formal.name not in given:
            assert formal.default is not None
            value = self.evaluate(formal.default)
            return self._checked(formal, value, formal.default.place, None)
        value, place = given[formal.name]
        return self._checked(formal, value, place, caller)

    def _checked(self, formal: ast.Formal, value: Any, place: Place, caller: Frame | None) -> Any:
        if formal.type is None or holds_poison(value):
            return POISON if formal.type is not None and holds_poison(value) else value
        wanted: str | None = None
        if formal.type.sizes is None and formal.type.name in COMPILE_TIME:
            if _is_compile_time(value, formal.type.name):
                return float(value) if formal.type.name == "float" else value
            wanted = f"a compile-time {formal.type.name}"
        else:
            type = self.type_of(formal.type)
            if type is POISON:
                return POISON
            if isinstance(value, SSAValue) and value.type == type:
                return value
            wanted = spelling(type)
        function = self.frame
        note = function.unit.source.note(
            formal.place, f"parameter '{formal.name}' is declared here"
        )
        return self._error_at(caller or function, place, formal.name, wanted, value, note)

    def _error_at(
        self, frame: Frame, place: Place, name: str, wanted: str, value: Any, note: Diagnostic
    ) -> Any:
        current, self.frame = self.frame, frame
        try:
            return self.error(place, f"'{name}' must be {wanted}, not {describe(value)}", [note])
        finally:
            self.frame = current


def _count(number: int) -> str:
    return f"{number} argument" if number == 1 else f"{number} arguments"


def _is_compile_time(value: Any, kind: str) -> bool:
    if kind == "ints":
        return isinstance(value, list) and all(_is_compile_time(item, "int") for item in value)
    if isinstance(value, bool):
        return kind == "bool"
    return isinstance(value, COMPILE_TIME[kind])


def _constant_array(value: Any, element: ElementType | None, shape: Any) -> np.ndarray:
    """Nested lists of numbers as an array. ShapeError where they are ragged or do not fit."""
    flat: list[Any] = []
    sizes = _sizes(value, flat)
    if shape is not None:
        if not _is_compile_time(shape, "ints") or sizes:
            raise ShapeError("'shape' must be a list of integers, beside a single number")
        if math.prod(shape) > MOST_ELEMENTS:
            message = f"has more than {MOST_ELEMENTS:,} elements; full(shape, value) has any number"
            raise ShapeError(message)
        sizes = shape
    if element is None:
        floats = any(isinstance(item, float) for item in flat)
        bools = all(isinstance(item, bool) for item in flat) and flat
        element = ELEMENT_TYPES["f32" if floats or not flat else "bool" if bools else "i32"]
    items = [literal_array(item, element) for item in flat]
    if shape is not None:
        return np.full(sizes, items[0], element.dtype)
    return np.array(items, element.dtype).reshape(sizes)


def _sizes(value: Any, flat: list[Any]) -> list[int]:
    if not isinstance(value, list | tuple):
        if not is_number(value):
            raise ShapeError(f"needs numbers, not {describe(value)}")
        flat.append(value)
        return []
    inner = [_sizes(item, flat) for item in value]
    if any(sizes != inner[0] for sizes in inner):
        raise ShapeError("the rows differ in length")
    return [len(value), *(inner[0] if inner else [])]
