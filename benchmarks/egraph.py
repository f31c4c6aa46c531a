"""`python -m benchmarks.egraph [--irregular [--seeds N …] | --steps] [--only WORD] [--cpu-time]`:
how the e-graph scales, as a table.

Each graph runs in a process of its own, first cold and then once more, as a program compiled again.
A row without memory decides equal layers each for itself, and the graph once more from the start.
Irregular graphs are training steps whose layers differ, drawn at random by kind and seed; steps are
those of SmolLM2-135M with AdamW.
Times are in seconds, of the stages in those of the processor; memory is the peak of the process,
the graph itself included.
"""

import argparse
import multiprocessing
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

import mgn
from benchmarks.graphs.egraph_graphs import inference_graph, training_graph
from benchmarks.graphs.irregular_graphs import KINDS, irregular_graph
from benchmarks.table import Table
from benchmarks.training.device_cases import smollm2_loss
from mgn.dialects.kernel.device import DEVICES
from mgn.dialects.mgn.structure import GraphOp, graphs_of
from mgn.driver.pipelines import PIPELINES, parse_passes, run_passes
from mgn.modules.dialect_table import make_context
from mgn.passes.saturate import SaturateOptions, SaturateReport, saturate_graph


@dataclass(frozen=True)
class Size:
    """A graph to measure: training or inference, with that many layers, and whether what repeats is
    decided once.
    """

    name: str
    training: bool
    layers: int
    memoise: bool = True

    def graph(self) -> GraphOp:
        """The graph that a row is about."""
        return (training_graph if self.training else inference_graph)(self.layers)


SIZES = (
    Size("training 24 layers", True, 24),
    Size("training 24 layers, no memory", True, 24, memoise=False),
    Size("inference 10,000", False, 244),
    Size("inference 50,000", False, 1220),
    Size("inference 100,000", False, 2440),
)


@dataclass(frozen=True)
class Irregular:
    """A graph to measure: its kind and seed, and about how many operations it has."""

    kind: str
    seed: int
    operations: int
    memoise: bool = True

    @property
    def name(self) -> str:
        return f"{self.kind} {self.operations:,}, seed {self.seed}"

    def graph(self) -> GraphOp:
        """The graph that a row is about."""
        return irregular_graph(self.kind, self.seed, self.operations)


def irregular(seeds: Sequence[int]) -> list[Irregular]:
    """The irregular graphs of some seeds."""
    return [
        Irregular(kind, seed, operations)
        for operations in (2_000, 10_000)
        for kind in KINDS
        for seed in seeds
    ]


@dataclass(frozen=True)
class Step:
    """A graph to measure: a training step of SmolLM2-135M, of so many rows of tokens."""

    rows: int
    tokens: int
    precision: str
    memoise: bool = True

    @property
    def name(self) -> str:
        return f"step {self.rows}x{self.tokens} {self.precision}"

    def graph(self) -> GraphOp:
        """The graph as the e-graph gets it."""
        module = mgn.parse(smollm2_loss(self.rows, self.tokens)).lower()
        said = {
            "training-step": "{optimizer=adamw}",
            "convert-precision": f"{{precision={self.precision}}}",
        }
        before = takewhile(lambda name: name != "saturate", PIPELINES["training"])
        passes = parse_passes(",".join(name + said.get(name, "") for name in before))
        run_passes(passes, module, make_context())
        return next(graphs_of(module))


STEPS = [
    Step(rows, tokens, precision)
    for rows, tokens in ((1, 128), (8, 512))
    for precision in ("f32", "tf32", "bf16")
]

Measured = Size | Irregular | Step

STAGES = ("compare", "encode", "saturate", "view", "candidates", "extract", "check", "rebuild")


def measure(size: Measured, device: str, cpu_time: bool) -> dict[str, str]:
    """One row of the table."""
    clock = time.process_time if cpu_time else time.perf_counter
    graph = size.graph()
    copy = graph.clone()
    options = SaturateOptions(memoise=size.memoise)
    start = clock()
    report = saturate_graph(graph, DEVICES[device], options)
    cold = clock() - start
    start = clock()
    saturate_graph(copy, DEVICES[device], options)
    again = clock() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "graph": size.name,
        "operations": f"{report.operations:,}",
        **_stages(report),
        "cold": f"{cold:.2f}",
        "again": f"{again:.2f}",
        "MiB": f"{peak:.0f}",
        "kernels": f"{report.kernel_count:,}",
        "ms": f"{1e3 * report.cost_after:.4g}",
        "fixpoint": "yes" if report.saturated else "no",
        "gap": report.extraction.proof,
    }


def _stages(report: SaturateReport) -> dict[str, str]:
    return {stage: f"{report.seconds.get(stage, 0.0):.2f}" for stage in STAGES}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.egraph", description=__doc__)
    parser.add_argument("--only", default="", help="graphs whose name has this word")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--irregular", action="store_true", help="graphs whose layers differ")
    kinds.add_argument("--steps", action="store_true", help="training steps of SmolLM2-135M")
    parser.add_argument("--seeds", nargs="+", type=int, default=(1, 2), help="of irregular graphs")
    parser.add_argument("--cpu-time", action="store_true", help="count seconds of the processor")
    parser.add_argument("--device", default="cpu", choices=DEVICES, help="whose prices are taken")
    options = parser.parse_args()
    every: Sequence[Measured] = STEPS if options.steps else SIZES
    if options.irregular:
        every = irregular(options.seeds)
    sizes = [size for size in every if options.only in size.name]
    if not sizes:
        print(f"no graph has '{options.only}' in its name", file=sys.stderr)
        return 1
    context = multiprocessing.get_context("spawn")
    table = Table(max(len(size.name) for size in sizes))
    for size in sizes:
        with context.Pool(1) as pool:
            table.print(pool.apply(measure, (size, options.device, options.cpu_time)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
