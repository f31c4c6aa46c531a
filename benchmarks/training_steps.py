"""`python -m benchmarks.training_steps [CASE …] [--inductor] [--kernels N] [--optimizer adamw]
[--one-core]`: the time of a training step beside PyTorch's.

A step is forward, backward and update, on a batch that lies in the host's memory, and ends with its
loss on the host. Contestants take turns, so that a machine that is busy or slow is so for all; the
figures are medians, and shares of PyTorch's time over mgn's. `--inductor` adds torch.compile, which
needs a compiler of C++. `--one-core` keeps all to one core, and times what a step takes of the
processor, which others on the machine change less. `--kernels 12` prints where the time of mgn's
step goes: kernels by name, the longest first.
"""

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable, Sequence
from math import inf

import torch

from benchmarks.one_core import on_one_core
from benchmarks.training.cases import STEPS, Case
from benchmarks.training.side_by_side import ADAMW, SGD, Kind, Pair, Peer, paired

KINDS = {"adamw": ADAMW, "sgd": SGD}
WARM = 2
"""Steps of each before any is timed."""

PROFILED = 10
"""Steps whose launches are timed by the device."""

Step = Callable[[], object]


def contestants(case: Case, kind: Kind, pair: Pair, with_inductor: bool) -> dict[str, Step]:
    """A step of each by name."""
    batch = case.batch(pair.trainer.inputs, 0)
    eager = Peer(case, pair.module, kind)
    tensors = eager.tensors(batch)
    found: dict[str, Step] = {
        "mgn": lambda: pair.trainer.step(batch),
        "eager": lambda: eager.step(tensors),
    }
    if with_inductor:
        compiled = Peer(case, pair.module, kind)
        compiled.compile()
        found["inductor"] = lambda: compiled.step(tensors)
    return found


def in_turn(
    steps: dict[str, Step], rounds: int, clock: Callable[[], float]
) -> dict[str, list[float]]:
    """Seconds of a step of each, one after the other in every round; in a round each has two, of
    which the second counts, since the threads of the one before spin for a while.
    """
    times: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(rounds + WARM):
        for name, step in steps.items():
            step()
            start = clock()
            step()
            if number >= WARM:
                times[name].append(clock() - start)
    return times


def kernel_table(pair: Pair, count: int) -> str:
    """The kernels of mgn's step by name: milliseconds, share, launches; longest first. Each launch
    counts as in the quickest of several steps.
    """
    best: dict[int, tuple[str, float]] = {}
    for _ in range(PROFILED):
        for item in pair.trainer.executable.replay(profile=True):
            _, known = best.get(item.step, ("", inf))
            best[item.step] = item.kernel, min(known, item.seconds)
    totals: dict[str, tuple[int, float]] = {}
    for name, seconds in best.values():
        launches, known = totals.get(name, (0, 0.0))
        totals[name] = (launches + 1, known + seconds)
    whole = sum(seconds for _, seconds in totals.values())
    ordered = sorted(totals.items(), key=lambda item: -item[1][1])[:count]
    lines = [
        f"  {1e3 * seconds:8.3f} ms {seconds / whole:5.0%} {launches:4} × {name}"
        for name, (launches, seconds) in ordered
    ]
    return "\n".join([*lines, f"  {1e3 * whole:8.3f} ms in {len(best)} launches"])


def row(
    case: Case,
    kind: Kind,
    pair: Pair,
    with_inductor: bool,
    rounds: int,
    clock: Callable[[], float],
) -> str:
    """The row of a table."""
    times = in_turn(contestants(case, kind, pair, with_inductor), rounds, clock)
    medians = {name: statistics.median(values) for name, values in times.items()}
    figures = [f"{1e3 * medians[name]:.2f} ({1e3 * min(times[name]):.2f})" for name in times]
    shares = [f"{medians[name] / medians['mgn']:.2f}" for name in times if name != "mgn"]
    return f"| {case.name} | {' | '.join([*figures, *shares])} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help="parts of names; all by default")
    parser.add_argument("--inductor", action="store_true", help="beside torch.compile, too")
    parser.add_argument("--kernels", type=int, default=0, metavar="N", help="the longest kernels")
    parser.add_argument("--optimizer", choices=KINDS, default="adamw")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--device", default="auto", help="as in mgn-run")
    parser.add_argument("--one-core", action="store_true", help="processor time, on one core")
    options = parser.parse_args(arguments)
    clock = on_one_core() if options.one_core else time.perf_counter
    names = ["mgn", "eager", *(["inductor"] if options.inductor else [])]
    head = ["network", *(f"{name}, ms (least)" for name in names)]
    head += [f"{name} / mgn" for name in names[1:]]
    print(f"{torch.get_num_threads()} threads of PyTorch; medians of {options.rounds} steps\n")
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}", flush=True)
    kind = KINDS[options.optimizer]
    for case in STEPS:
        if options.cases and not any(word.lower() in case.name.lower() for word in options.cases):
            continue
        missing = [item for item in case.packages if importlib.util.find_spec(item) is None]
        if missing:
            print(f"{case.name}: needs {', '.join(missing)}", flush=True)
            continue
        pair = paired(case, kind, options.device)
        print(row(case, kind, pair, options.inductor, options.rounds, clock), flush=True)
        if options.kernels:
            print(kernel_table(pair, options.kernels), flush=True)


if __name__ == "__main__":
    main()
