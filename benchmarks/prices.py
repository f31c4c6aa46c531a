"""`python -m benchmarks.prices [--device D] [--only WORD] [--seed N] [--drawn N] [--seconds S]`:
predicted against measured times of programs, each in several arrangements.

Each program is compiled to the kernels that are chosen for it and to others. All arrangements of a
program compute the same, which is checked, and are timed in many short turns by wall clock: of some
runs which are enqueued one after another without a wait, so that what a launch costs shows as it
does in a program, and the wait for the host does not. The least time of a turn counts, and the
least of all turns. On a CPU, whose speed drifts, a fixed product takes turns with each program: the
median of what times are in proportion to it counts there. The *loss* of a program is by how much
the choice is slower than the fastest arrangement. Worst rows come first.
"""

import argparse
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import geometric_mean, median

import numpy as np

import mgn
from benchmarks.pricing.alternatives import alternatives, forced
from benchmarks.pricing.programs import Program, drawn_programs, known_programs
from benchmarks.table import Table, keep
from mgn.api import describe_device
from mgn.dialects.kernel.device import Device
from mgn.passes.saturate.memo import Choice
from mgn.runtime.devices import choose

MOST = 5
"""Alternatives of a program that are compiled."""

LOSS = 0.05
"""From which loss on an alternative counts as better than the choice."""

TURNS, TURN_SECONDS = 40, 0.003
"""Turns of each arrangement of a program, and how long about one lasts."""

TOGETHER, TOGETHER_SECONDS, TRIED = 50, 1e-3, 5
"""The most runs that are enqueued together, how long about they last, and of how many single runs
the shortest says so: the first ones of a program are slow.
"""

CALIBRATION = Program(
    "calibration", "graph g(a: f32[384, 384], b: f32[384, 384]) { return y = a @ b }"
)
"""What is timed beside each program."""

TOLERANCE = {"f32": 1e-3, "tf32": 3e-2, "bf16": 5e-2}
"""Largest accepted difference of two arrangements, relative to the largest magnitude."""


@dataclass(frozen=True)
class Arrangement:
    """Kernels of a program: how many, and the seconds that are predicted and measured."""

    kernels: int
    names: str
    predicted: float
    measured: float


@dataclass(frozen=True)
class Row:
    """A program with its arrangements, the chosen one first."""

    program: str
    arrangements: tuple[Arrangement, ...]
    calibration: float

    @property
    def best(self) -> Arrangement:
        return min(self.arrangements, key=lambda item: item.measured)

    @property
    def loss(self) -> float:
        """By how much the choice is slower than the fastest arrangement, relatively."""
        return self.arrangements[0].measured / self.best.measured - 1.0

    @property
    def shown(self) -> dict[str, object]:
        chosen, best = self.arrangements[0], self.best
        return {
            "program": self.program,
            "arrangements": len(self.arrangements),
            "rank": rank_correlation(list(self.arrangements)),
            "µs predicted": chosen.predicted * 1e6,
            "µs measured": chosen.measured * 1e6,
            "µs of best": best.measured * 1e6,
            "predicted of best": best.predicted * 1e6,
            "loss %": 100.0 * self.loss,
        }


class Contestant:
    """One arrangement of a program on a device."""

    def __init__(self, program: Program, choice: Choice, device: str) -> None:
        with forced(choice):
            self.executable = mgn.compile(
                mgn.parse(program.text), device=device, precision=program.precision
            )
        self.predicted = choice.selection.cost
        self.lines = self.executable.report.kernels
        self.turns: list[float] = []
        self.together = 1

    def take_turn(self) -> None:
        """Runs for a while and keeps the least time."""
        if not self.turns:
            least = min(self._time() for _ in range(TRIED))
            self.together = max(1, min(TOGETHER, int(TOGETHER_SECONDS / least)))
        end, least = time.perf_counter() + TURN_SECONDS, self._time()
        while time.perf_counter() < end:
            least = min(least, self._time())
        self.turns.append(least)

    def _time(self) -> float:
        """Seconds of a run, in the mean of as many as are enqueued together."""
        start = time.perf_counter()
        self.executable.replay(times=self.together)
        return (time.perf_counter() - start) / self.together

    def arrangement(self, calibration: "Contestant") -> Arrangement:
        """What was measured; on a CPU in proportion to what took the same turns."""
        names, seconds = (
            "; ".join(" ".join(line.operations) for line in self.lines),
            min(self.turns),
        )
        if self.executable.device.kind == "cpu":
            ratio = median(a / b for a, b in zip(self.turns, calibration.turns, strict=True))
            seconds = ratio * min(calibration.turns)
        return Arrangement(len(self.lines), names, self.predicted, seconds)


def row_of(program: Program, device: str, described: Device, calibration: Contestant) -> Row:
    """Compiles a program in its arrangements, compares what they compute, and times them."""
    contestants = [
        Contestant(program, choice, device) for choice in alternatives(program, described, MOST)
    ]
    check_results(program, contestants)
    calibration.turns.clear()
    for _ in range(TURNS):
        for item in (calibration, *contestants):
            item.take_turn()
    return Row(
        program.name,
        tuple(item.arrangement(calibration) for item in contestants),
        min(calibration.turns),
    )


def check_results(program: Program, contestants: Sequence[Contestant]) -> None:
    """Sets parameters and inputs alike; ArithmeticError where results differ."""
    arrays, wanted = random_inputs(program), dict[str, np.ndarray]()
    for item in contestants:
        draws = np.random.default_rng(1)
        for name, shape in program.parameters.items():
            item.executable.params[name] = (0.05 * draws.standard_normal(shape)).astype(np.float32)
        found = item.executable.run(arrays)
        wanted = wanted or found
        for name, array in found.items():
            scale = float(np.max(np.abs(wanted[name]), initial=0.0)) or 1.0
            error = float(np.max(np.abs(array.astype(np.float64) - wanted[name]), initial=0.0))
            if not error <= TOLERANCE[program.precision] * scale:
                raise ArithmeticError(f"{program.name}: {name} differs by {error / scale:.3g}")


def random_inputs(program: Program) -> dict[str, np.ndarray]:
    """Normal numbers, and indices that every table and every class has."""
    draws = np.random.default_rng(0)
    return {
        name: draws.integers(0, 60, shape).astype(np.int32)
        if element == "i32"
        else draws.standard_normal(shape).astype(np.float32)
        for name, (element, shape) in program.inputs.items()
    }


def ranks(values: Sequence[float]) -> np.ndarray:
    """The rank of each value, the mean of them for equal ones."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2.0)[places]


def correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's rank correlation; not a number where all of one are equal."""
    if len(first) < 2:
        return math.nan
    a, b = (item - item.mean() for item in (ranks(first), ranks(second)))
    scale = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / scale if scale else math.nan


def rank_correlation(items: Sequence[Arrangement]) -> float:
    """Spearman's rank correlation of what is predicted and what was measured."""
    return correlation([item.predicted for item in items], [item.measured for item in items])


def within(rows: Sequence[Row]) -> float:
    """The rank correlation over all arrangements, each in the mean time of its program."""
    pairs: list[tuple[float, float]] = []
    for row in rows:
        if len(row.arrangements) > 1:
            mean = geometric_mean(item.predicted for item in row.arrangements)
            middle = geometric_mean(item.measured for item in row.arrangements)
            pairs += [(i.predicted / mean, i.measured / middle) for i in row.arrangements]
    return correlation([first for first, _ in pairs], [second for _, second in pairs])


def in_proportion(rows: Sequence[Row]) -> list[Row]:
    """The rows as if the calibration had taken as long beside each as at its quickest."""
    least = min(row.calibration for row in rows)
    return [
        replace(
            row,
            arrangements=tuple(
                replace(item, measured=item.measured * least / row.calibration)
                for item in row.arrangements
            ),
            calibration=least,
        )
        for row in rows
    ]


def summary(rows: Sequence[Row]) -> Iterator[str]:
    """What all rows say together."""
    items = [item for row in rows for item in row.arrangements]
    losses = [row.loss for row in rows]
    error = geometric_mean(max(i.predicted / i.measured, i.measured / i.predicted) for i in items)
    yield f"{len(rows)} programs, {len(items)} arrangements, times off by {error:.2f} in the mean"
    yield f"rank correlation over all arrangements {rank_correlation(items):.3f}"
    yield f"rank correlation within programs {within(rows):.3f}"
    beaten = sum(loss > LOSS for loss in losses)
    yield f"an alternative beats the choice by more than {LOSS:.0%} in {beaten} programs"
    yield f"largest loss {max(losses):.1%}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.prices", description=__doc__)
    parser.add_argument("--device", default="cpu", help="as in mgn-run")
    parser.add_argument("--only", default="", help="programs whose name has this word")
    parser.add_argument("--seed", type=int, default=0, help="of the programs drawn at random")
    parser.add_argument("--drawn", type=int, default=12, help="how many programs are drawn")
    parser.add_argument("--seconds", type=float, default=1e9, help="no new program after so long")
    parser.add_argument("--json", type=Path, help="write the rows to this file as well")
    options = parser.parse_args()
    os.environ["MGN_PROGRAM_CACHE"] = "off"
    device = choose(options.device)
    described, on_gpu = describe_device(device), device.kind == "gpu"
    programs = [*known_programs(on_gpu), *drawn_programs(on_gpu, options.seed, options.drawn)]
    (first,) = alternatives(CALIBRATION, described, 0)
    calibration = Contestant(CALIBRATION, first, options.device)
    check_results(CALIBRATION, [calibration])
    end, rows = time.perf_counter() + options.seconds, list[Row]()
    for program in programs:
        if options.only not in program.name or time.perf_counter() > end:
            continue
        try:
            rows.append(row_of(program, options.device, described, calibration))
        except (mgn.MgnError, ArithmeticError) as error:  # others are still to be measured
            print(f"{program.name}: {error}", flush=True)
            continue
        keep([asdict(row) for row in rows], options.json)
    if not rows:
        print("no program was measured", file=sys.stderr)
        return 1
    if not on_gpu:
        rows = in_proportion(rows)
    rows.sort(key=lambda row: -row.loss)
    table = Table(42)
    for row in rows:
        table.print(row.shown)
    for row in rows:
        if row.loss > LOSS:
            print(f"{row.program}: chosen {row.arrangements[0].names} | best {row.best.names}")
    print("\n".join(summary(rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
