"""The operations that a graph's kernels compute at one size, by which other sizes are searched.

In: a module of one graph, as `saturate` would get it, and that pass. Out: `ChosenOperations`; None
where every size is to be searched whole.
"""

from xdsl.dialects.builtin import ModuleOp, TensorType

from mgn.dialects.garbage import collector_paused
from mgn.dialects.kernel.device import Device
from mgn.dialects.mgn.structure import GraphOp, graphs_of
from mgn.passes.saturate.encoding.encode import encode_graph
from mgn.passes.saturate.encoding.facts import NodeFact
from mgn.passes.saturate.extraction.report import SaturateReport
from mgn.passes.saturate.layouts.choice import is_turned, with_best_layout
from mgn.passes.saturate.memo import Choice
from mgn.passes.saturate.saturate import Saturate, choice_for
from mgn.passes.saturate.sharing.chosen import ChosenOperations, Source, chosen_operations
from mgn.passes.saturate.sharing.names import structure_of

LEAST = 200
"""Operations below which a graph is searched whole, which takes little."""

MOST_TOLD = 4
"""Inputs whose shapes a report names."""


def choose_operations(module: ModuleOp, saturate: Saturate) -> ChosenOperations | None:
    """What is chosen for the graph of a module, which may be left turned, but has no kernels."""
    device, options = Device.of(module), saturate.options_for(module)
    (graph,) = graphs_of(module)
    if is_small(graph):
        return None
    settled: list[tuple[str, Choice]] = []

    def choose(graph: GraphOp) -> SaturateReport:
        return choice_for(graph, device, options, {}).report

    def settle(graph: GraphOp) -> SaturateReport:
        choice = choice_for(graph, device, options, {})
        settled.append((structure_of(graph), choice))
        return choice.report

    with collector_paused():
        report = with_best_layout(graph, choose, settle) if options.has_layouts else settle(graph)
        ((structure, choice),) = settled
        if not report.is_settled:
            return None
        chosen, handed = choice.found.candidates, choice.found.handed
        rules = tuple(sorted(+report.fired))
        source = Source(structure, sizes_of(graph), rules, is_turned(report))
        return chosen_operations(source, choice.view, chosen, handed)


def is_small(graph: GraphOp) -> bool:
    """Whether a graph is searched whole at every size: it has fewer than `LEAST` operations."""
    definitions = encode_graph(graph).facts.definitions
    return sum(isinstance(fact, NodeFact) for fact in definitions) < LEAST


def sizes_of(graph: GraphOp) -> str:
    """The shapes of the first of a graph's inputs that have axes, for people."""
    shapes = {
        name: argument.type.get_shape()
        for name, argument in graph.named_inputs
        if isinstance(argument.type, TensorType) and argument.type.get_shape()
    }
    told = [f"{name} of {'×'.join(map(str, shape))}" for name, shape in shapes.items()]
    rest = [f"{len(told) - MOST_TOLD} more"] if len(told) > MOST_TOLD else []
    return ", ".join([*told[:MOST_TOLD], *rest])
