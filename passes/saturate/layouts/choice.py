"""Whether the images of a graph lie with their channels last: the cheaper of two choices of
kernels.

In: a graph with convolutions, and what chooses kernels for a graph. Out: the graph as
kernels, with its report, which says what the other layout would have cost.

Both graphs are whole programs to the e-graph: in each, kernels may copy an image into the other
layout at its price. A matrix unit reads chunks of channels; without one, too, images of few places
leave less of a tile empty where the places of all images are rows of one product. A CPU then reads
weights as panels, which are made once, and its vectors lie along the channels of results.
"""

from collections.abc import Callable, Sequence

from xdsl.ir import Operation, SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.decompose import decomposition_of
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.mgn.structure import GraphOp
from mgn.passes.rewriting import inline, rewrite_block
from mgn.passes.saturate.extraction.report import SaturateReport
from mgn.passes.saturate.layouts.turned_images import Convolution, turn_channels_last
from mgn.passes.saturate.sharing.chosen import Source
from mgn.passes.saturate.sharing.names import structure_of

LAYOUTS = "channels first", "channels last"

CONVOLUTIONS = frozenset({"conv1d", "conv2d", "conv3d", "convolution"})

EXPANDED = CONVOLUTIONS | {
    *("batch_norm", "instance_norm", "global_avg_pool", "global_max_pool", "mean"),
}
"""Composites whose parts are told apart, so that channels last passes them."""

POOLS = frozenset(f"{kind}_pool{axes}d" for kind in ("max", "avg") for axes in (1, 2, 3))
"""The same of those whose windows share no places."""

Choose = Callable[[GraphOp], SaturateReport]


def with_best_layout(graph: GraphOp, choose: Choose, settle: Choose) -> SaturateReport:
    """Rewrites a graph into kernels by `settle`, in the layout in which those that `choose` takes
    cost less.
    """
    if not _has_convolutions(graph):
        return settle(graph)
    trials = [graph.clone(), graph.clone()]
    found = turn_images(trials[1]) > 0
    costs = [choose(trial).cost_after for trial in trials] if found else []
    for trial in trials:
        trial.erase()
    if found and costs[1] < costs[0]:
        turn_images(graph)
    report = settle(graph)
    report.layouts = dict(zip(LAYOUTS, costs, strict=False))
    return report


def is_turned(report: SaturateReport) -> bool:
    """Whether a graph's images were put with their channels last."""
    first, last = (report.layouts.get(name) for name in LAYOUTS)
    return first is not None and last is not None and last < first


def turn_as(graph: GraphOp, source: Source) -> bool:
    """Puts channels last where another size of the graph has them so. Whether it is that graph; one
    of another structure stays as it is.
    """
    if not source.turned:
        return structure_of(graph) == source.structure
    trial = graph.clone()
    turn_images(trial)
    alike = structure_of(trial) == source.structure
    trial.erase()
    if alike:
        turn_images(graph)
    return alike


def turn_images(graph: GraphOp) -> int:
    """Puts channels last in a graph, its convolutions expanded; how many there were."""
    rewrite_block(graph.block, _expanded)
    return turn_channels_last(graph)


def _has_convolutions(graph: GraphOp) -> bool:
    operations = (op for op in graph.block.ops if isinstance(op, TensorOp))
    return any(map(_is_convolution, operations))


def _is_convolution(op: TensorOp) -> bool:
    return op.spec.name in CONVOLUTIONS or Convolution.of(op) is not None


def _expanded(b: Emitter, op: Operation) -> Sequence[SSAValue] | None:
    if isinstance(op, TensorOp) and (op.spec.name in EXPANDED or _pools_apart(op)):
        return inline(b, decomposition_of(op), op.operands)
    return None


def _pools_apart(op: TensorOp) -> bool:
    """Whether an operation is a pool whose windows share no places."""
    if op.spec.name not in POOLS or set(op.values["dilation"]) != {1}:
        return False
    steps = zip(op.values["stride"], op.values["kernel"], strict=True)
    return all(step >= size for step, size in steps)
