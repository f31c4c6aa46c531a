"""`python -m benchmarks [--device D] [--suite S] [--only WORD] [--json FILE]`: tables of times.

Each kernel and model is checked on random data, then timed in turn with NumPy (on a CPU) and what
is installed of PyTorch, ONNX Runtime and tinygrad. The share is of the ceiling measured in the same
run: the device's copy bandwidth for kernels bound by memory, the best matmul rate of all
contestants for matmuls. Rows are printed, and kept in the file, as they are measured. `--suite odd`
times thirty products whose sizes fit no tile instead; on a GPU in f32, tf32 and bf16, the last two
beside products of 4096 and 8192. `--suite language` times kernels of language models.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from datetime import date
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np

import mgn
from benchmarks.contests import contestants, models
from benchmarks.contests.cases import Case
from benchmarks.contests.suites import SUITES
from benchmarks.table import Table, keep
from mgn.bench.timing import APART, SHARED, interleaved_medians

COPY_BYTES = {"cpu": 256 << 20, "gpu": 1 << 30}
Row = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the tables, and writes the JSON file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--device", default="auto", help="as in mgn-run")
    names = sorted({suite for _, suite in SUITES})
    parser.add_argument("--suite", choices=names, default="kernels")
    parser.add_argument("--json", type=Path, help="write the rows to this file as well")
    parser.add_argument("--only", default="", help="kernels and models whose name has this word")
    options = parser.parse_args(arguments)
    from mgn.runtime.devices import choose

    device = choose(options.device)
    cases = [case for case in SUITES[device.kind, options.suite] if options.only in case.name]
    chosen = [model for model in models.MODELS if options.only in model.name]
    chosen = chosen if options.suite == "kernels" else []
    if not cases and not chosen:
        print(f"nothing has '{options.only}' in its name", file=sys.stderr)
        return 1
    print(f"{device.name}, {device.driver}, {date.today()}", flush=True)
    result: dict[str, Any] = {"device": device.identity, "date": str(date.today())}

    if cases:
        result["copy GB/s"] = bandwidth = copy_bandwidth(options.device) / 1e9
        print(f"copy {bandwidth:.4g} GB/s\n", flush=True)
        kept = result["kernels"] = list[Row]()
        for row in kernel_rows(cases, options.device, device.kind, bandwidth):
            kept.append(row)
            keep(result, options.json)
        print(f"{against_torch(kept)}\n", flush=True)
    if chosen:
        kept = result["models"] = list[Row]()
        for row in model_rows(chosen, options.device, device.kind):
            kept.append(row)
            keep(result, options.json)
    return 0


def copy_bandwidth(device: str) -> float:
    """Bytes per second of a copy on the device, read and written bytes counted."""
    from mgn.runtime.devices import choose

    size = COPY_BYTES[choose(device).kind]
    program = f"graph g(x: f32[{size // 4}]) {{ return y = identity(x) }}"
    executable = mgn.compile(mgn.parse(program), device=device)
    executable(x=np.ones(size // 4, np.float32))
    return 2 * size / interleaved_medians({"copy": contestants.replay_of(executable)})["copy"]


def _timed(functions: dict[str, Any], kind: str) -> dict[str, float]:
    return interleaved_medians(functions, SHARED if kind == "cpu" else APART)


def kernel_rows(cases: Sequence[Case], device: str, kind: str, bandwidth: float) -> Iterator[Row]:
    """One row a case: times in ms, rates, share of the ceiling as far as it is known.

    Rows are printed as they come; those whose ceiling a later one raised, at the end once more.
    """
    rows: list[Row] = []
    table = Table(max(len(case.name) for case in cases), ("bound", "precision"))
    printed: list[float] = []
    for case in cases:
        times = _timed(contestants.contestants_of(case, device), kind)
        row: Row = {"kernel": case.name, "bound": case.bound, "precision": case.precision}
        row.update({f"{name} ms": value * 1e3 for name, value in times.items()})
        row["GFLOP/s"] = case.operations / times["mgn"] / 1e9
        row["GB/s"] = case.bytes / times["mgn"] / 1e9
        rows.append(row)
        set_shares(rows, bandwidth)
        if "torch ms" in row:
            row["against torch"] = row["torch ms"] / row["mgn ms"]
        table.print(row)
        printed.append(row["share"])
        yield row
    changed = [row for row, share in zip(rows, printed, strict=True) if row["share"] != share]
    if changed:
        print("\nof the best rate of all rows:")
    for row in changed:
        table.print(row)


def set_shares(rows: Sequence[Row], bandwidth: float) -> None:
    """Gives each row its share of the ceiling as far as it is known: of the copy's GB/s, or of the
    best matmul rate of a contestant.
    """
    best: dict[str, float] = {}
    for row in rows:
        fastest = min(value for name, value in row.items() if name.endswith(" ms"))
        rate = row["GFLOP/s"] * row["mgn ms"] / fastest
        if row["bound"] == "matmul":
            best[row["precision"]] = max(rate, best.get(row["precision"], 0.0))
    for row in rows:
        if row["bound"] == "matmul":
            row["share"] = row["GFLOP/s"] / best[row["precision"]]
        else:
            row["share"] = row["GB/s"] / bandwidth


def against_torch(rows: Sequence[Row]) -> str:
    """The geometric mean of PyTorch's time over mgn's, by what bounds the kernel."""
    ratios: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if "against torch" in row:
            what = ratios.setdefault((row["bound"], row["precision"]), [])
            what.append(row["against torch"])
    return "\n".join(
        f"PyTorch's time over mgn's, {precision}, bound by {bound}: geometric mean "
        f"{exp(sum(map(log, values)) / len(values)):.3g} over {len(values)} kernels"
        for (bound, precision), values in ratios.items()
    )


def model_rows(chosen: Sequence[models.Model], device: str, kind: str) -> Iterator[Row]:
    """One row a model: times in ms of all contestants, by the wall clock."""
    table = Table(max(len(model.name) for model in chosen))
    for model in chosen:
        times = _timed(models.contestants_of(model, device), kind)
        row: Row = {"model": model.name} | {f"{k} ms": v * 1e3 for k, v in times.items()}
        table.print(row)
        yield row


if __name__ == "__main__":
    sys.exit(main())
