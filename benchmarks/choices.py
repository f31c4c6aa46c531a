"""`python -m benchmarks.choices [--operations N …] [--seeds N] [--device NAME]`: choices of kernels
for small graphs beside those of a longer search, as a table.

Each row is of graphs with so many operations, drawn at random by seed: how many of the usual
choices are dearer than those of a search that takes far longer, by how much on average and at
worst, and what both searches take. `whole` says how many graphs the search looked at whole, so that
no choice of any kernels is cheaper by mgn's prices, and `known` for how many the longer one did.
Times are in seconds, of encoding, saturation and all that follows.
"""

import argparse
import sys
import time
from dataclasses import dataclass

from benchmarks.graphs.small_graphs import small_graph
from benchmarks.table import Table
from mgn.dialects.kernel.device import DEVICES
from mgn.passes.saturate import SaturateOptions, SaturateReport, saturate_graph
from mgn.passes.saturate.candidates.limits import TIME, CutLimits
from mgn.passes.saturate.extraction.report import PROVED

LONGER = SaturateOptions(
    extract_budget=60.0, memoise=False, limits=CutLimits(whole=True, kernels=100_000, likely=8_000)
)
USUAL = SaturateOptions(memoise=False)
OPERATIONS = (8, 10, 12, 14, 16, 18, 20)


@dataclass(frozen=True)
class Compared:
    """A graph's usual choice beside a better search: its excess cost, the seconds of both, and
    whether each was whole.
    """

    excess: float
    seconds: float
    longer: float
    whole: bool
    known: bool


def compare(seed: int, operations: int, device: str) -> Compared:
    """One graph by both searches."""
    usual, seconds = _searched(seed, operations, device, USUAL)
    better, longer = _searched(seed, operations, device, LONGER)
    excess = max(usual.cost_after / better.cost_after - 1.0, 0.0)
    return Compared(
        excess if excess > PROVED else 0.0, seconds, longer, _is_whole(usual), _is_whole(better)
    )


def _searched(
    seed: int, operations: int, device: str, options: SaturateOptions
) -> tuple[SaturateReport, float]:
    graph = small_graph(seed, operations)
    start = time.perf_counter()
    report = saturate_graph(graph, DEVICES[device], options)
    return report, time.perf_counter() - start


def _is_whole(report: SaturateReport) -> bool:
    return TIME not in report.passed_over


def row_of(operations: int, device: str, found: list[Compared]) -> dict[str, str]:
    """One row of the table."""
    mean = sum(item.excess for item in found) / len(found)
    seconds = [item.seconds for item in found]
    return {
        "graphs": f"{operations} operations, {device}",
        "seeds": str(len(found)),
        "dearer": str(sum(item.excess > 0.0 for item in found)),
        "mean": f"{mean:.2%}",
        "worst": f"{max(item.excess for item in found):.2%}",
        "seconds": f"{sum(seconds) / len(found):.2f}",
        "at most": f"{max(seconds):.2f}",
        "longer": f"{max(item.longer for item in found):.2f}",
        "whole": str(sum(item.whole for item in found)),
        "known": str(sum(item.known for item in found)),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.choices", description=__doc__)
    parser.add_argument("--operations", type=int, nargs="+", default=OPERATIONS)
    parser.add_argument("--seeds", type=int, default=20, help="graphs of each size and device")
    parser.add_argument("--device", choices=DEVICES, nargs="+", default=["cpu", "nvidia-h200"])
    options = parser.parse_args()
    _searched(0, 4, options.device[0], USUAL)
    table = Table(28)
    for operations in options.operations:
        for device in options.device:
            found = [compare(seed, operations, device) for seed in range(options.seeds)]
            table.print(row_of(operations, device, found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
