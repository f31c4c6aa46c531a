"""A program in hand: from `.mgn` text, from MLIR text, from the builder, or an xDSL module.

In: any of these. Out: `Module`, which lists its graphs and gives the IR of one, dimensions bound.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from mgn.diagnostics import Diagnostic, DiagnosticsError, MgnError, spelled
from mgn.dialects.mgn.states import state_accesses, states_of
from mgn.dialects.mgn.structure import GraphOp, ReadOp, graphs_of, parameters_of
from mgn.dialects.types import spelling
from mgn.modules.call_arguments import check_arguments
from mgn.modules.mlir_text import check_module, print_mlir
from mgn.plugins.loading import load_plugins

if TYPE_CHECKING:
    from mgn.frontend.onnx.program import OnnxProgram
    from mgn.frontend.program import GraphSignature, Program


@dataclass(frozen=True)
class Module:
    """A program: `module.graphs`, `module.lower("mlp", dims={"B": 32})`, `str(module)`.

    `given` are values of parameters of IR, by their external names, and `fixed` the names of those
    that training leaves as they are, unless it is told to train them.
    """

    source: "Program | OnnxProgram | ModuleOp"
    given: Mapping[str, np.ndarray] = field(
        default_factory=dict[str, np.ndarray], compare=False, repr=False
    )
    fixed: frozenset[str] = field(default=frozenset(), compare=False, repr=False)

    @property
    def graphs(self) -> tuple[str, ...]:
        """The names of the graphs."""
        if isinstance(self.source, ModuleOp):
            return tuple(graph.sym_name.data for graph in graphs_of(self.source))
        return tuple(graph.name for graph in self.source.graphs)

    @property
    def signatures(self) -> "tuple[GraphSignature, ...]":
        """The graphs with their dimension parameters; none for IR, whose sizes are fixed."""
        return () if isinstance(self.source, ModuleOp) else self.source.graphs

    @property
    def texts(self) -> dict[str, str]:
        """The program's files by the names that places in it have; none for IR."""
        return {} if isinstance(self.source, ModuleOp) else self.source.texts

    @property
    def files(self) -> set[Path]:
        """The files that the program was read from, its imports among them."""
        return set() if isinstance(self.source, ModuleOp) else self.source.files

    @property
    def values(self) -> Mapping[str, np.ndarray]:
        """The values that parameters came with, which what is compiled has from the start; those
        of an ONNX model once it was lowered.
        """
        return self.given if isinstance(self.source, ModuleOp) else self.source.values

    def lower(self, graph: str | None = None, dims: Mapping[str, int] | None = None) -> ModuleOp:
        """A fresh xDSL module of all graphs or of one, its dimension parameters bound.

        DiagnosticsError or MgnError where the graph or a dimension is not there.
        """
        check_arguments("lower", graph=graph, dims=dims)
        if not isinstance(self.source, ModuleOp):
            sizes = {
                name: int(size) if isinstance(size, np.integer) else size
                for name, size in (dims or {}).items()
            }
            return self.source.lower(sizes, graph)
        if dims:
            raise MgnError("this program's sizes are fixed; there are no dimensions to bind")
        module = self.source.clone()
        if graph is not None:
            keep_graph(module, graph)
        return module

    def dims_of(
        self, graphs: Sequence[str], dims: Mapping[str, Any] | None
    ) -> list[Mapping[str, Any] | None]:
        """For each of several graphs its own of the dimensions, and the consts among them. MgnError
        where a graph is named twice or is none, or a dimension belongs to none of them.
        """
        for name in graphs:
            check_arguments("dims_of", graph=name)
            if name not in self.graphs:
                raise MgnError(
                    f"there is no graph '{name}'; the graphs are {', '.join(self.graphs) or 'none'}"
                )
        if not graphs or len(set(graphs)) != len(graphs):
            raise MgnError("several graphs are a list of different names, and not empty")
        if isinstance(self.source, ModuleOp):
            return [dims for _ in graphs]
        known = {item.name: item.dimensions for item in self.source.graphs}
        given = dict(dims or {})
        shared: dict[str, Any] = {}
        for name in given:
            if any(name in known[graph] for graph in graphs):
                continue
            if name not in self.source.sizes:
                raise MgnError(f"there is no dimension '{name}' in graph {', '.join(graphs)}")
            shared[name] = given[name]
        return [
            {name: size for name, size in given.items() if name in (*known[graph], *shared)}
            for graph in graphs
        ]

    def sizes_of(self, graph: str) -> Mapping[str, tuple[str | None, ...]]:
        """For each input of a graph, which of its dimension parameters stand alone for its sizes,
        None where none does. Nothing for IR, whose sizes are fixed.
        """
        if isinstance(self.source, ModuleOp):
            return {}
        return next((item.sizes for item in self.source.graphs if item.name == graph), {})

    @property
    def consts(self) -> Mapping[str, Any]:
        """The values of a text's consts, by name."""
        from mgn.frontend.program import Program

        return self.source.consts if isinstance(self.source, Program) else {}

    def with_floats(self, values: Mapping[str, float]) -> "Module":
        """The program with other values of consts that are floats."""
        from mgn.frontend.program import Program

        if not values or not isinstance(self.source, Program):
            return self
        return replace(self, source=self.source.with_floats(values))

    def dimensions_of(self, graph: str) -> set[str]:
        """The names of a graph's dimension parameters."""
        if isinstance(self.source, ModuleOp):
            return set()
        return {
            name for item in self.source.graphs if item.name == graph for name in item.dimensions
        }

    def choose_graph(self, graph: str | None) -> str:
        """The graph asked for, or the only one. MgnError where that does not say which."""
        check_arguments("choose_graph", graph=graph)
        if graph is not None:
            return graph
        if not self.graphs:
            raise MgnError("the program has no graph")
        if len(self.graphs) != 1:
            said = spelled("graph='…'", "--graph NAME")
            names = ", ".join(self.graphs)
            raise MgnError(f"which graph? The program's graphs are: {names}; say one with {said}")
        return self.graphs[0]

    def __repr__(self) -> str:
        if isinstance(self.source, ModuleOp):
            return f"Module({', '.join(map(_signature, graphs_of(self.source))) or 'no graph'})"
        return f"Module({', '.join(map(str, self.source.graphs)) or 'no graph'})"

    def __str__(self) -> str:
        """The IR as text; while a dimension is unbound, the graphs with their dimensions."""
        if isinstance(self.source, ModuleOp) or not any(
            graph.required for graph in self.source.graphs
        ):
            return print_mlir(self.lower())
        return "\n".join(map(str, self.source.graphs))


def _signature(graph: GraphOp) -> str:
    """A graph of IR on a line: `graph mlp(x: f32[2, 3]) -> (y)`."""
    inputs = ", ".join(f"{name}: {spelling(item.type)}" for name, item in graph.named_inputs)
    return f"graph {graph.sym_name.data}({inputs}) -> ({', '.join(graph.result_names)})"


def load_program(language: str, text: str, name: str, path: Path | None = None) -> Module:
    """The program of a text in `mgn` or `mlir`. `path` is where it was read, for its imports."""
    load_plugins()
    if language == "mgn":
        from mgn.frontend.program import parse

        return Module(parse(text, name, path))
    return Module(_load_mlir(text, name))


def _load_mlir(text: str, name: str) -> ModuleOp:
    """The module of a text in MLIR. DiagnosticsError with what is wrong."""
    from mgn.modules.dialect_table import make_context
    from mgn.modules.mlir_errors import diagnostics_of
    from mgn.modules.mlir_text import parse_mlir

    try:
        module = parse_mlir(text, make_context(), name)
        check_module(module)
    except RecursionError:
        found = [Diagnostic("the program is nested too deep", name)]
    except Exception as error:
        found = diagnostics_of(error, {name: text})
        if found is None:
            raise
    else:
        return module
    raise DiagnosticsError(found)


def keep_graph(module: ModuleOp, name: str) -> None:
    """Removes all graphs but one and what only they read. MgnError where that one is missing."""
    graphs = {graph.sym_name.data: graph for graph in graphs_of(module)}
    if name not in graphs:
        raise MgnError(f"there is no graph '{name}'; the graphs are {', '.join(graphs) or 'none'}")
    for other, graph in graphs.items():
        if other != name:
            graph.detach()
            graph.erase()
    read = {op.parameter_name for op in graphs[name].walk() if isinstance(op, ReadOp)}
    used = {state for state, _ in state_accesses(graphs[name])}
    used.update(graphs[name].state_names, graphs[name].written_names)
    unused: list[Operation] = [op for key, op in parameters_of(module).items() if key not in read]
    unused += [op for key, op in states_of(module).items() if key not in used]
    for op in unused:
        op.detach()
        op.erase()
