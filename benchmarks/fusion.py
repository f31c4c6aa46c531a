"""`python -m benchmarks.fusion [--device D] [--only WORD] [--part I/N] [--json FILE]`: kernels as
the e-graph fuses them against a kernel for each operation, region by region.

Each region is compiled both ways and the results are compared; then both are timed in turn, on a
CPU by the least of many runs, on a GPU by the sum of the device's own times of the kernels. The
table has the measured and the predicted ratio of the times, fused to separate: a ratio above 1.05
is a region that fusion made slower.
"""

import argparse
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import geometric_mean, median

import numpy as np

import mgn
from benchmarks.graphs.fusion_regions import CELLS, Cell
from benchmarks.table import keep
from mgn.passes.saturate import SaturateOptions

SLOWER = 1.05
TOLERANCE = {"f32": 2e-4, "f16": 2e-2}
"""Largest accepted difference of the two results, relative to their largest magnitude."""
ROUNDS = 10
ROUND_SECONDS = 0.2
"""Least rounds and least time of a measurement: in each round both run once."""
DOUBTFUL = 5
"""How many times a region is measured that looks slower."""


@dataclass(frozen=True)
class Row:
    """What was found for one cell; times in microseconds."""

    region: str
    shape: str
    element: str
    kernels: int
    separate_kernels: int
    fused: float
    separate: float
    ratio: float
    predicted: float


class Contestant:
    """One way to compile a cell."""

    def __init__(self, cell: Cell, device: str, fuse: bool) -> None:
        self.executable = mgn.compile(
            mgn.parse(cell.program), device=device, saturation=SaturateOptions(fuse=fuse)
        )
        self.on_gpu = self.executable.device.kind == "gpu"
        report = self.executable.report
        assert report.saturation is not None
        self.predicted = report.saturation.cost_after
        self.kernels = report.saturation.kernel_count
        self.times: list[float] = []

    def run(self) -> None:
        """Runs once and keeps the time."""
        self.times.append(self._time())

    def _time(self) -> float:
        if self.on_gpu:
            return sum(launch.seconds for launch in self.executable.replay(profile=True))
        start = time.perf_counter()
        self.executable.replay()
        return time.perf_counter() - start

    @property
    def seconds(self) -> float:
        """The least time on a CPU, whose disturbances only add; the middle one on a GPU."""
        return median(self.times) if self.on_gpu else min(self.times)


def random_inputs(cell: Cell) -> dict[str, np.ndarray]:
    """Normal numbers, and indices that every table and every class has."""
    generator = np.random.default_rng(0)
    return {
        name: generator.integers(0, 60, shape).astype(np.int32)
        if element == "i32"
        else generator.standard_normal(shape).astype(element.replace("f", "float"))
        for name, (element, shape) in cell.inputs.items()
    }


def row_of(cell: Cell, device: str) -> Row:
    """Compiles a cell both ways, compares the results, and times both in turn."""
    fused, separate = (Contestant(cell, device, fuse) for fuse in (True, False))
    inputs = random_inputs(cell)
    found, wanted = fused.executable.run(inputs), separate.executable.run(inputs)
    for name, array in wanted.items():
        scale = float(np.max(np.abs(array.astype(np.float64)))) or 1.0
        error = float(np.max(np.abs(found[name].astype(np.float64) - array))) / scale
        if not error <= TOLERANCE[cell.element]:
            raise ArithmeticError(f"{name} differs by {error:.3g}")
    for _ in range(DOUBTFUL):
        end, rounds = time.perf_counter() + ROUND_SECONDS, 0
        while rounds < ROUNDS or time.perf_counter() < end:
            fused.run()
            separate.run()
            rounds += 1
        if fused.seconds <= SLOWER * separate.seconds:
            break
    return Row(
        cell.region,
        cell.shape,
        cell.element,
        fused.kernels,
        separate.kernels,
        fused.seconds * 1e6,
        separate.seconds * 1e6,
        fused.seconds / separate.seconds,
        fused.predicted / separate.predicted,
    )


def print_row(row: Row) -> None:
    """One line of the table."""
    mark = "  slower" if row.ratio > SLOWER else ""
    print(
        f"{row.region:26} {row.shape:>16} {row.element:4} "
        f"{row.kernels:3} {row.separate_kernels:3} {row.fused:10.1f} {row.separate:10.1f} "
        f"{row.ratio:7.2f} {row.predicted:7.2f}{mark}",
        flush=True,
    )


def part_of(text: str) -> slice:
    """`2/5` is every fifth cell from the second on."""
    number, count = map(int, text.split("/"))
    if not 1 <= number <= count:
        raise ValueError(f"part {number} of {count}")
    return slice(number - 1, None, count)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fusion", description=__doc__)
    parser.add_argument("--device", default="auto", help="as in mgn-run")
    parser.add_argument("--only", default="", help="regions whose name has this word")
    parser.add_argument("--part", type=part_of, default="1/1", help="such as 2/5: a part of them")
    parser.add_argument("--seconds", type=float, default=1e9, help="no new cell after that long")
    parser.add_argument("--json", type=Path, help="write the rows to this file as well")
    options = parser.parse_args()
    cells = [cell for cell in CELLS if options.only in cell.region][options.part]
    if not cells:
        print(f"no region has '{options.only}' in its name, or no such part", file=sys.stderr)
        return 1
    print(
        "region, shape, element, kernels fused and separate, µs fused and separate, ratio, model",
        flush=True,
    )
    end = time.perf_counter() + options.seconds
    rows: list[Row] = []
    for cell in cells:
        if time.perf_counter() > end:
            break
        try:
            rows.append(row_of(cell, options.device))
        except Exception as error:  # one region that fails leaves the others to be measured
            print(f"{cell.region} {cell.shape} {cell.element}: {error}", flush=True)
            continue
        print_row(rows[-1])
        keep([asdict(row) for row in rows], options.json)
    slower = [row for row in rows if row.ratio > SLOWER]
    mean = geometric_mean(row.ratio for row in rows) if rows else 1.0
    print(f"{len(rows)} of {len(cells)} cells, mean ratio {mean:.3f}, {len(slower)} slower")
    for row in sorted(slower, key=lambda item: -item.ratio):
        print_row(row)
    return 0


if __name__ == "__main__":
    sys.exit(main())
