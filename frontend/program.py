"""A checked `.mgn` program: text or file in, modules of the `mgn` dialect out.

In: `parse(text)` or `parse_file(path)`. Out: a `Program`; `lower(dims, graph)` gives a module.
All errors of the program come in one DiagnosticsError.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from mgn.diagnostics import Diagnostic, DiagnosticsError
from mgn.dialects.garbage import collector_paused
from mgn.dialects.mgn.build import suggestion
from mgn.frontend.lowering.lower import Lowering
from mgn.frontend.lowering.names import check_names
from mgn.frontend.syntax import ast
from mgn.frontend.syntax.source import Source, read_source
from mgn.frontend.syntax.units import Definition, Loader, Unit


@dataclass(frozen=True)
class GraphSignature:
    """A graph's name and its dimension parameters; `required` ones have no default. `sizes` are the
    names that stand alone for sizes of an input, None for a size that is none.
    """

    name: str
    dimensions: tuple[str, ...]
    required: tuple[str, ...]
    sizes: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict[str, Any])

    @property
    def leading(self) -> str | None:
        """The dimension parameter that is the first size of every input that has axes."""
        first = {sizes[0] for sizes in self.sizes.values() if sizes}
        return first.pop() if len(first) == 1 else None

    def __str__(self) -> str:
        listing = ", ".join(self.dimensions)
        return f"graph {self.name}[{listing}]" if listing else f"graph {self.name}"


@dataclass
class Program:
    """A program without errors, as far as it can be checked before its dimensions are bound."""

    unit: Unit
    consts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The values of the file's consts."""
    given: Mapping[str, float] = field(default_factory=dict[str, float])
    """Other values that consts have which are floats."""
    _checked: ModuleOp | None = field(default=None, repr=False)

    @property
    def sizes(self) -> tuple[str, ...]:
        """The consts that are integers: dimensions of all graphs, which have values already."""
        return tuple(name for name, value in self.consts.items() if type(value) is int)

    def with_floats(self, values: Mapping[str, float]) -> "Program":
        """The program with other values of consts that are floats."""
        return replace(self, given={**self.given, **values}, _checked=None)

    @property
    def graphs(self) -> tuple[GraphSignature, ...]:
        """The graphs of the file; of its imports, where it has none of its own."""
        return tuple(signature_of(item) for item in default_graphs(self.unit))

    @property
    def texts(self) -> dict[str, str]:
        """The program's files by the names that places in it have."""
        return {item.source.name: item.source.text for item in self._units}

    @property
    def files(self) -> set[Path]:
        """The files that the program was read from, its imports among them."""
        return {item.source.path for item in self._units if item.source.path is not None}

    @property
    def values(self) -> dict[str, np.ndarray]:
        """The values that the program itself gives its parameters: none."""
        return {}

    @property
    def _units(self) -> list[Unit]:
        return [self.unit, *(item.unit for item in self.unit.names.values())]

    def lower(self, dims: Mapping[str, int] | None = None, graph: str | None = None) -> ModuleOp:
        """A module with all graphs, or the one named, dimensions bound. Raises DiagnosticsError.

        A name in `dims` that is no dimension of these graphs gives an integer const its value.
        """
        chosen = self._choose(graph)
        everything = graph is None or (
            len(chosen) == len(default_graphs(self.unit)) and not self.unit.has_top_level_params
        )
        if not dims and everything and self._checked is not None:
            module, self._checked = self._checked, None
            return module
        constants = {**self.given, **self._check_dimensions(chosen, dims or {})}
        lowering = Lowering(self.unit, constants)
        with collector_paused():
            _lower(lowering, chosen, dims or {})
        if lowering.diagnostics:
            raise DiagnosticsError(in_order(lowering.diagnostics))
        return lowering.module(only_read=graph is not None)

    def _check_dimensions(
        self, chosen: Sequence[Definition], dims: Mapping[str, int]
    ) -> dict[str, int]:
        """Those of the dimensions that are consts. Raises DiagnosticsError."""
        known = [name for item in chosen for name in signature_of(item).dimensions]
        for name, size in dims.items():
            message = None
            if name not in known and name not in self.sizes:
                listing = ", ".join(item.node.name for item in chosen)
                hint = suggestion(str(name), [*known, *self.sizes])
                message = f"there is no dimension '{name}' in graph {listing}{hint}"
            elif type(size) is not int or size < 0:
                message = f"dimension '{name}' cannot be {size!r}"
            if message is not None:
                raise DiagnosticsError([Diagnostic(message, self.unit.source.name)])
        return {name: size for name, size in dims.items() if name not in known}

    def _choose(self, graph: str | None) -> Sequence[Definition]:
        graphs = default_graphs(self.unit)
        if graph is None:
            return graphs
        every = [*self.unit.graphs, *self.unit.imported_graphs]
        chosen = [item for item in every if item.node.name == graph]
        if not chosen:
            names = [item.node.name for item in every]
            hint = suggestion(graph, names)
            listing = ", ".join(names) or "none"
            message = f"there is no graph '{graph}'; the graphs are {listing}{hint}"
            raise DiagnosticsError([Diagnostic(message, self.unit.source.name)])
        return chosen


def parse(text: str, filename: str = "<input>", path: Path | None = None) -> Program:
    """A program from its text. Raises DiagnosticsError with every error found."""
    return check(Source(text, filename, path))


def parse_file(path: str | Path) -> Program:
    """A program from a file. Raises DiagnosticsError."""
    return check(read_source(Path(path), str(path)))


def check(source: Source) -> Program:
    """A program from a source: parsed, and lowered where its dimensions are known."""
    with collector_paused():
        return _check(source)


def _check(source: Source) -> Program:
    loader = Loader()
    try:
        unit = loader.load(source)
    except RecursionError as error:
        message = "the imports are nested too deep"
        raise DiagnosticsError([Diagnostic(message, source.name)]) from error
    lowering = Lowering(unit)
    graphs = default_graphs(unit)
    known = [item for item in graphs if not signature_of(item).required]
    diagnostics = [*loader.diagnostics, *errors_of(lowering, known)]
    if not diagnostics and not graphs and not unit.names:
        diagnostics.append(source.error((1, 1), "the file defines nothing"))
    if diagnostics:
        raise DiagnosticsError(in_order(diagnostics))
    values = {name: lowering.constants.get(item) for name, item in unit.names.items()}
    consts = {name: value[0] for name, value in values.items() if value}
    module = lowering.module() if len(known) == len(graphs) else None
    return Program(unit, consts, _checked=module)


def errors_of(
    lowering: Lowering, graphs: Sequence[Definition], dims: Mapping[str, int] | None = None
) -> list[Diagnostic]:
    """The errors of a file's graphs, and of the names in what they do not reach."""
    _lower(lowering, graphs, dims or {})
    check_names(lowering, lowering.unit)
    return lowering.diagnostics


def _lower(lowering: Lowering, graphs: Sequence[Definition], dims: Mapping[str, int]) -> None:
    lowering.lower_top_level()
    for definition in graphs:
        lowering.lower_graph(definition, dims)


def default_graphs(unit: Unit) -> Sequence[Definition]:
    """The graphs of a file; of its imports, where it has none of its own."""
    return unit.graphs or unit.imported_graphs


def signature_of(definition: Definition) -> GraphSignature:
    """What a graph is called, and its dimension parameters."""
    graph = definition.node
    assert isinstance(graph, ast.Graph)
    required = tuple(dim.name for dim in graph.dimensions if dim.default is None)
    names = tuple(dim.name for dim in graph.dimensions)
    sizes = {
        item.name: tuple(
            size.name if isinstance(size, ast.Name) and size.name in names else None
            for size in item.type.sizes or ()
        )
        for item in graph.inputs
    }
    return GraphSignature(graph.name, names, required, sizes)


def in_order(diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Diagnostics by file and place."""
    return sorted(diagnostics, key=lambda item: (item.file, item.line, item.column))
