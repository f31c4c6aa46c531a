"""What `--mode` makes of a graph: the graph as it is, or a step of its training.

In: a program, a graph of it, dimensions, and the arguments. Out: `Chosen`, what is compiled.
"""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field

from mgn.dialects.mgn.structure import ParamOp
from mgn.modules.module import Module


@dataclass(frozen=True)
class Chosen:
    """A program and a graph of it with its dimensions, and the parameters that its runs train."""

    program: Module
    graph: str
    dimensions: Mapping[str, int] | None
    trained: Mapping[str, ParamOp] = field(default_factory=dict[str, ParamOp])


def in_mode(
    program: Module, graph: str, dimensions: Mapping[str, int], arguments: argparse.Namespace
) -> Chosen:
    """What is compiled of a graph. In training, a run is a step of AdamW with its usual rate on the
    result that `--loss` names. MgnError where that is no scalar, or nothing is trained.
    """
    if arguments.mode != "training":
        return Chosen(program, graph, dimensions)
    from mgn.training.step.loss_scale import AUTOMATIC
    from mgn.training.step.step import scaled_step

    lowered = program.lower(graph, dimensions)
    step = scaled_step(lowered, arguments.loss, None, AUTOMATIC, arguments.precision)
    return Chosen(Module(step.module), graph, None, step.trained)
