"""What is trained, and what an evaluation computes: the same graph, or another one with its
parameters.

In: a program, the name of a graph, and sizes. Out: a `BoundGraph`; a module that reads what steps
train, and writes nothing.

A network with batch norms trains by the statistics of each batch, and is used with the running
ones; so it has a graph for each:

    graph step[B = 32](x: f32[B, 8], labels: i32[B]) { … mean <- …; return loss, logits }
    graph evaluate[B = 32](x: f32[B, 8], labels: i32[B]) { … mean …; return loss, logits }
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from xdsl.dialects.builtin import ModuleOp

from mgn.diagnostics import MgnError
from mgn.dialects.mgn.structure import ParamOp, graphs_of, parameters_of
from mgn.distributed.crew import Crew
from mgn.modules.module import Module
from mgn.passes.mixed_precision import round_products
from mgn.runtime.host_arrays import shown
from mgn.training.data.batches import InputTypes, input_types
from mgn.training.data.shards import Division, divide
from mgn.training.step.extension import ExtendedGraph
from mgn.training.step.step import average_name, wide_type


@dataclass(frozen=True)
class BoundGraph:
    """A graph of a program with its sizes, of which each rank takes a share where there is a
    `division`.
    """

    module: Module
    graph: str
    dims: Mapping[str, int]
    division: Division | None = None

    def lowered(self, precision: str) -> ModuleOp:
        """The graph, of this rank's share of a batch, with products of a precision."""
        dims = self.dims if self.division is None else self.division.dims
        lowered = self.module.lower(self.graph, dims)
        round_products(lowered, precision)
        return lowered

    @cached_property
    def inputs(self) -> InputTypes:
        """The inputs of the graph, of a whole batch: element and shape by name."""
        return input_types(self._whole)

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """The names of the graph's results."""
        (graph,) = graphs_of(self._whole)
        return tuple(graph.result_names)

    @cached_property
    def parameters(self) -> frozenset[str]:
        """The names of the graph's parameters."""
        return frozenset(parameters_of(self._whole))

    @cached_property
    def _whole(self) -> ModuleOp:
        return self.module.lower(self.graph, self.dims)

    def another(self, graph: str, loss: str, crew: Crew) -> "BoundGraph":
        """Another graph of the program, for evaluations of this one; of the sizes, it has those of
        its own dimensions. MgnError where it has a parameter that this one does not have, or no
        loss.
        """
        known = {item.name: item.dimensions for item in self.module.signatures}.get(graph, ())
        own = {name: size for name, size in self.dims.items() if name in known}
        found = bound_graph(self.module, graph, own, crew)
        for fault in self._faults(found, loss):
            raise MgnError(f"eval_graph '{graph}' {fault}")
        return found

    def _faults(self, other: "BoundGraph", loss: str) -> Iterator[str]:
        """Why another graph cannot say how good this one is."""
        if loss not in other.outputs:
            yield f"has no result '{loss}'; it has {', '.join(other.outputs)}"
        for name in sorted(other.parameters - self.parameters):
            yield f"has the parameter {shown(name)}, which graph '{self.graph}' does not have"


def bound_graph(module: Module, graph: str, dims: Mapping[str, int], crew: Crew) -> BoundGraph:
    """A graph of a program at some sizes, and a rank's share of its batches. MgnError where they
    cannot be shared out.
    """
    if crew.size == 1:
        return BoundGraph(module, graph, dims)
    return BoundGraph(module, graph, dims, divide(module, graph, dims, crew))


def evaluation(
    module: ModuleOp, trained: Mapping[str, ParamOp], averaged: bool = False
) -> ModuleOp:
    """A module's one graph, which is used up, as it reads what steps train, or the averages of
    these, and writes nothing.
    """
    graph = ExtendedGraph(module)
    graph.drop_writes()
    for name, declared in trained.items():
        if name in graph.parameters and averaged:
            graph.hold(name, average_name(name), wide_type(declared.type))
        elif name in graph.parameters:
            graph.hold(name)
    with graph:
        pass
    return graph.module
