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
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from mgn.diagnostics import MgnError
from mgn.dialects.mgn.structure import ParamOp, graphs_of, parameters_of
from mgn.distributed.crew import Crew
from mgn.modules.module import Module
from mgn.passes.mixed_precision import round_products
from mgn.runtime.errors import InputError
from mgn.runtime.host_arrays import shown
from mgn.training.data.batches import InputTypes, input_types, other_size
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

    @contextmanager
    def taking(self, batch: Mapping[str, Any]) -> Iterator[None]:
        """An InputError inside of it says what to do with a batch of another size."""
        try:
            yield
        except InputError as error:
            found = other_size(batch, self.inputs)
            if found is None or (self.division and found[0] == self.division.rows):
                raise
            raise InputError(f"{error}\n{self._remedy(*found)}") from None

    def _remedy(self, count: int, size: int) -> str:
        """What to do with a batch of `count` examples, where there are to be `size`."""
        signatures = {item.name: item for item in self.module.signatures}
        leading = signatures[self.graph].leading if self.graph in signatures else None
        if leading is not None:
            other = f"train with another mgn.Trainer, of dims={{'{leading}': {count}}}"
        elif self.graph in signatures:
            other = (
                f"write a dimension in the place of the size, graph {self.graph}[B = {size}], "
                f"and train with another mgn.Trainer, of dims={{'B': {count}}}"
            )
        else:
            other = f"train with another mgn.Trainer, of a graph whose inputs have {count}"
        return (
            f"a batch of graph '{self.graph}' has {size} examples, and this one {count}: leave out "
            f"a last batch of another size, as fit does in training; or {other}, and give it this "
            "one's state by load_state"
        )

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
