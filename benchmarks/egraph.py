"""`python -m benchmarks.egraph [--only WORD]`: how the e-graph scales, as a table.

Each graph runs in a process of its own, first cold and then once more, as a program compiled again.
A row without memory decides equal layers each for itself, and the graph once more from the start.
Times are in seconds, memory is the peak of the process, the graph itself included.
"""

import argparse
import multiprocessing
import resource
import sys
import time
from dataclasses import dataclass

from benchmarks.egraph_graphs import inference_graph, training_graph
from benchmarks.table import Table
from mgn.dialects.kernel.device import DEVICES
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


SIZES = (
    Size("training 24 layers", True, 24),
    Size("training 24 layers, no memory", True, 24, memoise=False),
    Size("inference 10,000", False, 244),
    Size("inference 50,000", False, 1220),
    Size("inference 100,000", False, 2440),
)
STAGES = ("compare", "encode", "saturate", "view", "candidates", "extract", "check", "rebuild")


def measure(size: Size) -> dict[str, str]:
    """One row of the table."""
    graph = (training_graph if size.training else inference_graph)(size.layers)
    copy = graph.clone()
    options = SaturateOptions(memoise=size.memoise)
    start = time.perf_counter()
    report = saturate_graph(graph, DEVICES["cpu"], options)
    cold = time.perf_counter() - start
    start = time.perf_counter()
    saturate_graph(copy, DEVICES["cpu"], options)
    again = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "graph": size.name,
        "operations": f"{report.operations:,}",
        **_stages(report),
        "cold": f"{cold:.2f}",
        "again": f"{again:.2f}",
        "MiB": f"{peak:.0f}",
        "kernels": f"{report.kernel_count:,}",
        "fixpoint": "yes" if report.saturated else "no",
        "gap": report.extraction.proof,
    }


def _stages(report: SaturateReport) -> dict[str, str]:
    return {stage: f"{report.seconds.get(stage, 0.0):.2f}" for stage in STAGES}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.egraph", description=__doc__)
    parser.add_argument("--only", default="", help="graphs whose name has this word")
    options = parser.parse_args()
    sizes = [size for size in SIZES if options.only in size.name]
    if not sizes:
        print(f"no graph has '{options.only}' in its name", file=sys.stderr)
        return 1
    context = multiprocessing.get_context("spawn")
    table = Table(max(len(size.name) for size in sizes))
    for size in sizes:
        with context.Pool(1) as pool:
            table.print(pool.apply(measure, (size,)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
