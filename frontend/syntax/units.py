"""Files and what they define: reads a file with its imports and collects the top-level names.

In: a source. Out: a `Unit`, whose `names` holds its own definitions and those of its imports, and
the diagnostics.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from mgn.diagnostics import Diagnostic, DiagnosticsError
from mgn.frontend.syntax import ast
from mgn.frontend.syntax.ast import Place
from mgn.frontend.syntax.parser import parse_text
from mgn.frontend.syntax.source import Source, read_source

Node = ast.Constant | ast.Function | ast.Graph | ast.Param | ast.State

KIND = {
    ast.Constant: "const",
    ast.Function: "fn",
    ast.Graph: "graph",
    ast.Param: "param",
    ast.State: "state",
}


@dataclass(frozen=True, eq=False)
class Definition:
    """A top-level name and the unit that defines it."""

    node: Node
    unit: "Unit"

    @property
    def kind(self) -> str:
        """`const`, `fn`, `graph`, `param` or `state`."""
        return KIND[type(self.node)]


@dataclass(eq=False)
class Unit:
    """One file. `broken` names were defined with an error; after a failed import any may be."""

    source: Source
    names: dict[str, Definition] = field(default_factory=dict[str, Definition])
    graphs: list[Definition] = field(default_factory=list[Definition])
    broken: set[str] = field(default_factory=set[str])
    incomplete: bool = False
    has_syntax_errors: bool = False

    @property
    def has_top_level_params(self) -> bool:
        """Whether parameters or states are declared outside graphs, here or in an import."""
        return any(item.kind in ("param", "state") for item in self.names.values())

    @property
    def imported_graphs(self) -> list[Definition]:
        """Graphs of the files that this one imports."""
        return [
            item for item in self.names.values() if item.kind == "graph" and item.unit is not self
        ]


class Loader:
    """Loads a file and its imports, each file once; `read` gives the text of an import."""

    def __init__(self, read: Callable[[Path], Source] = read_source) -> None:
        self.read = read
        self.diagnostics: list[Diagnostic] = []
        self.loaded: dict[Path, Unit] = {}
        self.loading: list[Path] = []

    def load(self, source: Source) -> Unit:
        """The unit of a source; syntax errors and those of its imports go to `diagnostics`."""
        key = source.path.resolve() if source.path is not None else None
        if key is not None:
            self.loading.append(key)
        block, diagnostics = parse_text(source)
        self.diagnostics += diagnostics
        unit = Unit(source, has_syntax_errors=bool(diagnostics))
        for statement in block.statements:
            self._define(unit, statement)
        if key is not None:
            self.loading.pop()
            self.loaded[key] = unit
        return unit

    def _define(self, unit: Unit, statement: ast.Statement) -> None:
        if isinstance(statement, ast.Import):
            self._import(unit, statement)
        elif isinstance(statement, ast.Constants):
            for constant in statement.constants:
                self._enter(unit, constant.name, Definition(constant, unit), constant.place)
        elif isinstance(statement, ast.Function) and (twice := _declared_twice(statement)):
            self._error(unit, twice.place, f"parameter '{twice.name}' is declared twice")
            unit.broken.add(statement.name)
        elif isinstance(statement, Node):
            self._enter(unit, statement.name, Definition(statement, unit), statement.place)
        elif isinstance(statement, ast.Broken):
            unit.broken |= statement.names
            unit.incomplete = unit.incomplete or not statement.names
        else:
            message = "only const, fn, graph, param, state and import stand at the top level"
            self._error(unit, statement.place, message)
            if isinstance(statement, ast.Assign):
                unit.broken |= {name for name, _ in statement.names}

    def _enter(self, unit: Unit, name: str, definition: Definition, place: Place) -> None:
        known = unit.names.setdefault(name, definition)
        if known.node is not definition.node:
            first = known.unit.source.note(known.node.place, "first defined here")
            message = f"'{name}' is defined twice"
            self.diagnostics.append(unit.source.error(place, message, (first,)))
        elif definition.kind == "graph" and definition.unit is unit:
            unit.graphs.append(definition)

    def _import(self, unit: Unit, statement: ast.Import) -> None:
        folder = unit.source.path.parent if unit.source.path is not None else Path()
        path = folder / statement.path
        try:
            key = path.resolve()
            if key in self.loading:
                cycle = [*self.loading[self.loading.index(key) :], key]
                chain = " -> ".join(item.name for item in cycle)
                raise DiagnosticsError([Diagnostic(f"cyclic import: {chain}")])
            if key.exists() and not key.is_file() and not key.is_dir():
                raise DiagnosticsError([Diagnostic("cannot read the file: it is a device or pipe")])
            other = self.loaded.get(key) or self.load(self.read(path))
        except DiagnosticsError as error:
            first = error.diagnostics[0]
            message = first.message if first.line == 0 else f"{first.place}: {first.message}"
            self._error(unit, statement.place, f'import "{statement.path}": {message}')
            unit.incomplete = True
            return
        except (OSError, ValueError) as error:
            self._error(unit, statement.place, f'import "{statement.path}": {error}')
            unit.incomplete = True
            return
        unit.broken |= other.broken
        unit.incomplete = unit.incomplete or other.incomplete
        for name, definition in other.names.items():
            self._enter(unit, name, definition, statement.place)

    def _error(self, unit: Unit, place: Place, message: str) -> None:
        self.diagnostics.append(unit.source.error(place, message))


def _declared_twice(function: ast.Function) -> ast.Formal | None:
    """The first parameter of a function that has the name of one before it."""
    names: set[str] = set()
    for formal in function.formals:
        if formal.name in names:
            return formal
        names.add(formal.name)
    return None
