"""`python -m benchmarks.zoo [names] [--small] [--dim NAME=N] [--one-core] [--device D]
[--precision P] [--resident on] [--against A,B] [--beside N] [--json FILE]`: the models of
`examples/models/` beside those of torchvision, transformers and diffusers.

In: names of models; without any, all. Sizes are those of their files, but for what `--dim` gives:
fewer layers, say, of a model that memory does not hold. Out: a row for each graph that is timed;
what a contestant cannot run is said below it, and which models are left out because their peer is
not installed. The status is 1 where an error is too large. A row has

- the largest error against the peer, and how many launches a run has;
- mebibytes on the device, and those of the weights among them;
- seconds of compilation, for which the driver may have the kernels already;
- the most mebibytes of memory that the process has had so far, with pages of mapped files;
- milliseconds of mgn, PyTorch (`torch`), `torch.compile` (`inductor`) and, on a CPU, ONNX Runtime
  (`onnxruntime`).

On a GPU, PyTorch computes there in the precision's type, and `torch.compile` has CUDA graphs. Runs
of mgn follow one another, as a program's do. `--one-core` keeps all to one core, and times what a
call takes of the processor: others on the machine change that less. `--resident on` makes runs of
kernels one launch on a CPU. The extra `test-models` brings the peers.
"""

import argparse
import os
import resource
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.in_a_row import in_a_row
from benchmarks.one_core import on_one_core, timed_by
from benchmarks.table import Table, keep
from benchmarks.zoo.contestants import CONTESTANTS, contestants_of
from benchmarks.zoo.entry import Entry
from benchmarks.zoo.table import add_choice, chosen
from benchmarks.zoo.trial import MOST_BESIDE, TOLERANCES, Trial, tried
from mgn.bench.timing import interleaved_medians
from mgn.driver.residency import RESIDENCIES
from mgn.executable import Executable

MEBI = 1 << 20
SELF = resource.RUSAGE_SELF


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the rows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.zoo", description=__doc__)
    add_choice(parser)
    parser.add_argument("--small", action="store_true", help="at the sizes of the tests")
    parser.add_argument("--one-core", action="store_true", help="processor time, on one core")
    parser.add_argument("--device", default="auto", help="as in mgn-run")
    parser.add_argument("--precision", default="f32", choices=TOLERANCES, help="as in mgn-run")
    parser.add_argument("--resident", default="auto", choices=RESIDENCIES, help="as in mgn-run")
    parser.add_argument("--against", default=",".join(CONTESTANTS), help="none, or some of these")
    parser.add_argument(
        "--beside",
        type=int,
        default=MOST_BESIDE,
        help="a peer of more parameters is given up before mgn begins, which holds each once",
    )
    parser.add_argument("--json", type=Path, help="write the rows to this file as well")
    options = parser.parse_args(arguments)
    entries = chosen(parser, options)
    clock = on_one_core() if options.one_core else time.perf_counter
    against = [name for name in options.against.split(",") if name in CONTESTANTS]
    warnings.simplefilter("ignore")  # of exporters, about their own insides
    os.environ["MGN_PROGRAM_CACHE"] = "off"
    table, rows, worst = Table(18), list[dict[str, Any]](), 0.0
    for entry in entries:
        choices = options.device, options.precision, options.beside
        trial = tried(entry, options.small, *choices, clock, options.resident)
        worst = max(worst, trial.error)
        for row, remarks in rows_of(entry, trial, against, clock):
            table.print(row)
            for remark in remarks:
                print(f"  {remark}", file=sys.stderr)
            rows.append(row)
            keep(rows, options.json)
    return 0 if worst <= TOLERANCES[options.precision] else 1


def rows_of(
    entry: Entry, trial: Trial, against: Sequence[str], clock: Callable[[], float]
) -> list[tuple[Any, list[str]]]:
    """A row for the model's graph, and one for its decoding, with remarks."""
    graphs = [entry.call.graph, *([] if entry.decoder is None else ["decode"])]
    found: list[tuple[Any, list[str]]] = []
    for graph in graphs:
        executable = trial.program[graph]
        row: dict[str, Any] = {"model": f"{entry.name}.{graph}" if len(graphs) > 1 else entry.name}
        errors = [value for name, value in trial.errors.items() if name.split(".")[0] == graph]
        row["error"] = max(errors)
        row |= figures_of(executable) | {"peak MiB": resource.getrusage(SELF).ru_maxrss / 1024}
        calls, remarks = contestants_of(entry, graph, trial, against)
        calls = {"mgn": in_a_row(executable), **calls}
        timed = calls
        if not trial.on_gpu:
            timed = {name: timed_by(clock, call) for name, call in calls.items()}
        seconds = interleaved_medians(timed)
        if trial.peer_seconds is not None and graph == entry.call.graph:
            seconds["torch"] = trial.peer_seconds
            remarks.append("torch: its first call, before mgn began")
        row |= {f"{name} ms": value * 1e3 for name, value in seconds.items()}
        found.append((row, remarks))
    return found


def figures_of(executable: Executable) -> dict[str, Any]:
    """Launches, memory, seconds of compilation."""
    return {
        "launches": len(executable.plan.launches),
        "MiB": executable.allocated / MEBI,
        "weights": executable.held_bytes / MEBI,
        "compile s": sum(seconds for _, seconds in executable.report.times),
    }


if __name__ == "__main__":
    raise SystemExit(main())
