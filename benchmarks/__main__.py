"""`python -m benchmarks [--device D] [--json FILE] [--only WORD]`: the table of kernels.

Each kernel is checked against NumPy in f64 on random data, then timed in turn with NumPy (on a CPU)
and, where it is installed, PyTorch. The share is of the ceiling measured in the same run: the
device's copy bandwidth for kernels bound by memory, the best matmul rate of all contestants for
matmuls.
"""

import argparse
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import mgn
from benchmarks.cases import CASES, Case
from benchmarks.measure import interleaved_medians

COPY_BYTES = 256 << 20
TOLERANCE = 2e-5
"""Largest accepted error relative to the largest magnitude of the result."""


def contestants_of(case: Case, device: str) -> dict[str, Callable[[], Any]]:
    """The functions to time, after mgn's result was checked against NumPy in f64."""
    generator = np.random.default_rng(0)
    arrays = {
        name: generator.standard_normal(shape, np.float32) for name, shape in case.inputs.items()
    }
    executable = mgn.compile(mgn.parse(case.program), device=device)
    found = next(iter(executable(**arrays).values()))
    wanted = case.numpy(*(array.astype(np.float64) for array in arrays.values()))
    error = float(np.max(np.abs(found - wanted)) / np.max(np.abs(wanted)))
    if not error <= TOLERANCE:
        raise SystemExit(f"{case.name}: wrong result, relative error {error:.3g}")
    on_gpu = executable.device.kind == "gpu"
    contestants: dict[str, Callable[[], Any]] = {"mgn": replay_of(executable)}
    if not on_gpu:
        contestants["numpy"] = lambda: case.numpy(*arrays.values())
    if importlib.util.find_spec("torch") is not None:
        contestants["torch"] = torch_call(case, arrays, on_gpu)
    return contestants


def replay_of(executable: mgn.Executable) -> Callable[[], Any]:
    """mgn's contestant: timed by the device's events on a GPU, by the wall clock on a CPU."""
    if executable.device.kind != "gpu":
        return executable.replay

    def replay() -> float:
        launches = executable.replay(profile=True)
        return max(launch.start + launch.seconds for launch in launches)

    return replay


def torch_call(case: Case, arrays: dict[str, np.ndarray], on_gpu: bool) -> Callable[[], Any]:
    """PyTorch's contestant, on the same kind of device; timed by events on a GPU."""
    import torch

    place = "cuda" if on_gpu else "cpu"
    tensors = [torch.from_numpy(array).to(place) for array in arrays.values()]

    def call() -> float | None:
        if not on_gpu:
            case.torch(torch, *tensors)
            return None
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        case.torch(torch, *tensors)
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) / 1e3

    return call


def copy_bandwidth(device: str) -> float:
    """Bytes per second of a copy on the device, read and written bytes counted."""
    count = COPY_BYTES // 4
    executable = mgn.compile(
        mgn.parse(f"graph g(x: f32[{count}]) {{ return y = identity(x) }}"), device=device
    )
    executable(x=np.ones(count, np.float32))
    return 2 * COPY_BYTES / interleaved_medians({"copy": replay_of(executable)})["copy"]


def rows_of(cases: list[Case], device: str) -> list[dict[str, Any]]:
    """One row a case: times in ms, rates, share of the ceiling."""
    bandwidth = copy_bandwidth(device)
    rows: list[dict[str, Any]] = []
    for case in cases:
        times = interleaved_medians(contestants_of(case, device))
        row: dict[str, Any] = {"kernel": case.name, "bound": case.bound}
        row.update({f"{name} ms": value * 1e3 for name, value in times.items()})
        row["GFLOP/s"] = case.operations / times["mgn"] / 1e9
        row["GB/s"] = case.bytes / times["mgn"] / 1e9
        rows.append(row)
    best = max(
        (
            row["GFLOP/s"] * row["mgn ms"] / min(v for k, v in row.items() if k.endswith(" ms"))
            for row in rows
            if row["bound"] == "matmul"
        ),
        default=1.0,
    )
    for row in rows:
        ceiling = best if row["bound"] == "matmul" else bandwidth / 1e9
        row["share"] = row["GFLOP/s" if row["bound"] == "matmul" else "GB/s"] / ceiling
    return rows


def table_of(rows: list[dict[str, Any]]) -> str:
    """The rows as aligned text."""
    names = list(dict.fromkeys(name for row in rows for name in row if name != "bound"))
    lines = [names]
    for row in rows:
        cells = [row.get(name, "") for name in names]
        lines.append([f"{c:.3g}" if isinstance(c, float) else str(c) for c in cells])
    widths = [max(len(line[column]) for line in lines) for column in range(len(names))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--device", default="auto", help="as in mgn-run")
    parser.add_argument("--json", type=Path, help="write the rows to this file as well")
    parser.add_argument("--only", default="", help="kernels whose name has this word")
    options = parser.parse_args()
    cases = [case for case in CASES if options.only in case.name]
    if not cases:
        print(f"no kernel has '{options.only}' in its name", file=sys.stderr)
        return 1
    rows = rows_of(cases, options.device)
    print(table_of(rows))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
