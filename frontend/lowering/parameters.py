"""Parameters and states of a program: external names, types and initialisers, each tensor declared
once.

In: `param` and `state` statements. Out: `mgn.param` and `mgn.state` operations; two
statements with one external name and type are one tensor.
"""

import warnings
from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import TensorType

from mgn.diagnostics import Diagnostic, MgnWarning, one_line
from mgn.dialects.mgn.build import RANDOM_STATE, RANDOM_TYPE
from mgn.dialects.mgn.declared import NOTES, DeclaredOp
from mgn.dialects.mgn.initialiser import INITIALISERS, InitialiserAttr, check_initialiser
from mgn.dialects.mgn.states import StateOp
from mgn.dialects.mgn.structure import ParamOp
from mgn.dialects.shapes import ShapeError
from mgn.dialects.types import spelling
from mgn.frontend.lowering.calls import Calls, Turn
from mgn.frontend.lowering.values import LONGEST_TEXT, POISON, describe
from mgn.frontend.syntax import ast

EXACT_INTEGERS = 2**53
"""An initialiser keeps its numbers in f64, which has all integers up to here."""

_RANDOM = (RANDOM_TYPE, None)

FIRST = "first declared here"


class ParameterTable:
    """The parameters, or the states, declared so far, by external name."""

    def __init__(self, lowering: Calls, made: type[DeclaredOp] = ParamOp) -> None:
        self.lowering = lowering
        self.made = made
        self.kind = "parameter" if made is ParamOp else "state"
        self.declared: dict[str, tuple[DeclaredOp, Diagnostic]] = {}
        self._turns: dict[str, tuple[object, tuple[Turn, ...]]] = {}
        self._warned: set[str] = set()
        self.hidden: dict[str, DeclaredOp] = {}

    @property
    def ops(self) -> list[DeclaredOp]:
        """The declarations in order."""
        hidden = [op for name, op in self.hidden.items() if name not in self.declared]
        return [*(op for op, _ in self.declared.values()), *hidden]

    def declare(
        self, node: ast.Param | ast.State, prefixes: Sequence[str] = ()
    ) -> tuple[str, TensorType] | None:
        """The external name and type of one, declared now if not yet; None after an error."""
        context = self.lowering
        type = context.type_of(node.type)
        name = self._external_name(node, prefixes)
        initialiser = self._initialiser(node.initialiser)
        if type is POISON or name is POISON or initialiser is POISON:
            return None
        if self.made is StateOp and name == RANDOM_STATE and (type, initialiser) != _RANDOM:
            held = f"{spelling(RANDOM_TYPE)} and begins with the seed"
            context.error(node.place, f"state '{name}' is that of random numbers: it is {held}")
            return None
        if node.initialiser is not None:
            try:
                check_initialiser(initialiser, type)
            except ShapeError as error:
                context.error(node.initialiser.place, str(error))
                return None
        known = self.declared.get(name)
        if known is None:
            self._turns[name] = node, tuple(context.turns)
            op = self.made(name, type, initialiser)
            op.location = context.location(node.place)
            here = context.frame.unit.source.note(node.place, FIRST)
            self.declared[name] = (op, here)
            return name, type
        op, first = known
        self._warn_of_turns(node, name)
        if op.type != type:
            message = f"{self.kind} '{name}' is {spelling(op.type)} already, not {spelling(type)}"
            context.error(node.type.place, message, [first])
            return None
        if node.initialiser is None:
            return name, type
        if op.initialiser is None:
            op.initialiser = initialiser
            self.declared[name] = (op, context.frame.unit.source.note(node.place, FIRST))
        elif op.initialiser.text != initialiser.text:
            said = f"is {op.initialiser.text} at first, not {initialiser.text}"
            context.error(node.initialiser.place, f"{self.kind} '{name}' {said}", [first])
            return None
        return name, type

    def _warn_of_turns(self, node: ast.Param | ast.State, name: str) -> None:
        """Warns of one statement that gives one tensor in several turns of a loop."""
        context = self.lowering
        first, before = self._turns.get(name, (None, ()))
        if first is not node or len(before) != len(context.turns):
            return
        turn = next(
            (now for was, now in zip(before, context.turns, strict=True) if was != now), None
        )
        if turn is None or name in self._warned:
            return
        self._warned.add(name)
        place = context.frame.unit.source.note(node.place, "").place
        shown, loop = one_line(name), turn[0]
        warnings.warn(
            f"{place}: all turns of the loop over '{loop}' have one {self.kind} '{shown}'; "
            f'scope "layers.{{{loop}}}" {{ … }} gives each its own, and a {self.kind} '
            "that is meant for all stands before the loop",
            MgnWarning,
            stacklevel=2,
        )

    def _external_name(self, node: ast.Param | ast.State, prefixes: Sequence[str]) -> Any:
        context = self.lowering
        name: Any = node.name
        if node.external is not None:
            name = context.evaluate(node.external)
            if name is not POISON and not isinstance(name, str):
                message = f"an external name is a text, not {describe(name)}"
                return context.error(node.external.place, message)
        if name is POISON:
            return POISON
        if not name:
            place = node.external.place if node.external is not None else node.place
            return context.error(place, "an external name is empty")
        whole = ".".join([*(prefix for prefix in prefixes if prefix), name])
        if whole == NOTES:
            return context.error(node.place, f"weight files keep the name '{NOTES}' for notes")
        if len(whole) > LONGEST_TEXT:
            message = f"an external name may have {LONGEST_TEXT} characters, with its scopes"
            return context.error(node.place, message)
        return whole

    def _initialiser(self, node: ast.Expression | None) -> Any:
        if node is None:
            return None
        context = self.lowering
        if not isinstance(node, ast.Call):
            message = "an initialiser is a call such as zeros() or normal(std = 0.02)"
            return context.error(node.place, message)
        if node.name not in INITIALISERS:
            hint = context.hint(node.name, list(INITIALISERS))
            return context.error(node.place, f"unknown initialiser '{node.name}'{hint}")
        signature = INITIALISERS[node.name]
        names = [name for name, _ in signature]
        if len(node.positional) > len(names):
            message = f"{node.name}() takes {len(names)} arguments, got {len(node.positional)}"
            return context.error(node.place, message)
        given: dict[str, ast.Expression] = dict(zip(names, node.positional, strict=False))
        for keyword in node.keywords:
            if keyword.name not in names:
                hint = context.hint(keyword.name, names)
                message = f"{node.name}() has no argument '{keyword.name}'{hint}"
                return context.error(keyword.place, message)
            if keyword.name in given:
                message = f"{node.name}() got two values for '{keyword.name}'"
                return context.error(keyword.place, message)
            given[keyword.name] = keyword.value
        return self._arguments(node, given)

    def _arguments(self, node: ast.Call, given: dict[str, ast.Expression]) -> Any:
        context = self.lowering
        values: list[float] = []
        for name, default in INITIALISERS[node.name]:
            if name not in given:
                if default is None:
                    return context.error(node.place, f"{node.name}() needs '{name}'")
                values.append(default)
                continue
            value = context.evaluate(given[name])
            if value is POISON:
                return POISON
            if isinstance(value, bool) or not isinstance(value, int | float):
                message = f"'{name}' must be a number, not {describe(value)}"
                return context.error(given[name].place, message)
            if isinstance(value, int) and abs(value) > EXACT_INTEGERS:
                message = f"{value} is too large for an initialiser, which counts to 2**53"
                return context.error(given[name].place, message)
            values.append(float(value))
        return InitialiserAttr.of(node.name, *values)
