"""Names in code that lowering does not reach: functions nobody calls, graphs without sizes,
branches not taken.

In: a lowering that has run. Out: errors for names and operations that are defined nowhere, where
lowering has not already said something. A name that some statement of the body binds counts as
known, wherever it stands.
"""

from collections.abc import Iterable
from typing import Any

from mgn.dialects.mgn.initialiser import INITIALISERS
from mgn.dialects.mgn.operation import OPERATIONS
from mgn.dialects.types import ELEMENT_TYPES
from mgn.frontend.lowering.calls import DERIVATIVES
from mgn.frontend.lowering.context import Frame
from mgn.frontend.lowering.lower import Lowering
from mgn.frontend.syntax import ast
from mgn.frontend.syntax.ast import walk
from mgn.frontend.syntax.units import Definition, Unit


def check_names(lowering: Lowering, unit: Unit) -> None:
    """Reports unknown names in the functions and graphs of a file."""
    if unit.incomplete:
        return
    told = {(item.file, item.line, item.column) for item in lowering.diagnostics}
    shared = _Shared(unit)
    for definition in unit.names.values():
        if definition.unit is unit and isinstance(definition.node, ast.Function | ast.Graph):
            _check(lowering, definition, told, shared)


_NAMED = (ast.Param, ast.State, ast.For, ast.Formal, ast.Dimension, ast.Input, ast.Constant)
"""The nodes that give one value its name."""


class _Shared:
    """The names that a file's functions and graphs have in common."""

    def __init__(self, unit: Unit) -> None:
        functions = {name for name, item in unit.names.items() if item.kind == "fn"}
        self.values = {*unit.names, *ELEMENT_TYPES, *unit.broken}
        self.callable = {
            *functions,
            *OPERATIONS,
            *INITIALISERS,
            "constant",
            *DERIVATIVES,
            *unit.broken,
        }


def _check(
    lowering: Lowering, definition: Definition, told: set[tuple[str, int, int]], shared: _Shared
) -> None:
    unit, node = definition.unit, definition.node
    lowering.frame = Frame(unit, node.name)
    inside = list(walk(node))
    bound = _bound_by(inside)
    for item in inside:
        if isinstance(item, ast.Name | ast.Write):
            kind, known = "name", shared.values
        elif isinstance(item, ast.Call):
            kind, known = "operation", shared.callable
        else:
            continue
        if item.name in known or item.name in bound or (unit.source.name, *item.place) in told:
            continue
        near = sorted(known | bound if kind == "name" else known)
        hint_of = lowering.hint if kind == "name" else lowering.call_hint
        hint = hint_of(item.name, near)
        lowering.error(item.place, f"unknown {kind} '{item.name}'{hint}")


def _bound_by(nodes: Iterable[Any]) -> set[str]:
    """The names that some nodes give to values."""
    bound: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Assign):
            bound.update(name for name, _ in node.names)
        elif isinstance(node, ast.Broken):
            bound.update(node.names)
        elif isinstance(node, _NAMED):
            bound.add(node.name)
    return bound
