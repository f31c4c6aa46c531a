"""A program's text as a module, whichever of the two languages it is written in.

In: `.mgn` or MLIR text. Out: an xDSL module, with one graph of it where a graph is asked for.
"""

from collections.abc import Mapping
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from mgn.diagnostics import MgnError
from mgn.mlir_text import parse_mlir


def load_program(
    language: str,
    text: str,
    *,
    name: str,
    folder: Path | None,
    graph: str | None,
    dimensions: Mapping[str, int],
    context: Context,
) -> ModuleOp:
    """The module of a text. `dimensions` bind the dimension parameters of `.mgn` graphs."""
    if dimensions:
        raise MgnError(
            "only .mgn programs have dimensions to bind; MLIR text has its sizes already"
        )
    module = parse_mlir(text, context, name)
    if graph is not None:
        keep_graph(module, graph)
    return module


def keep_graph(module: ModuleOp, name: str) -> None:
    """Removes all graphs but one and what only they read. MgnError where that one is missing."""
    from mgn.dialects.mgn.structure import ReadOp, graphs_of, parameters_of

    graphs = {graph.sym_name.data: graph for graph in graphs_of(module)}
    if name not in graphs:
        raise MgnError(f"there is no graph '{name}'; the graphs are {', '.join(graphs) or 'none'}")
    for other, graph in graphs.items():
        if other != name:
            graph.detach()
            graph.erase()
    read = {op.parameter_name for op in graphs[name].walk() if isinstance(op, ReadOp)}
    for external, parameter in parameters_of(module).items():
        if external not in read:
            parameter.detach()
            parameter.erase()
