"""`python -m benchmarks.training_device [--device D] [--only WORD]`: backward passes, updates and
whole training steps beside PyTorch.

Each row has the time of mgn by the wall clock, all launches included, that of PyTorch, mgn's share
of its rate, and how many launches there are. Results are compared with PyTorch's before, where it
is installed; the relative error is in the table.
"""

import argparse
import importlib.util
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import mgn
from benchmarks.table import Table, keep
from benchmarks.training.device_cases import TrainingCase, cases
from mgn.bench.timing import APART, SHARED, interleaved_medians

TOLERANCES = {"f32": 1e-4, "tf32": 5e-3, "bf16": 3e-2}
"""The largest error of a result, relative to its largest magnitude, by what is multiplied."""

HAS_TORCH = importlib.util.find_spec("torch") is not None


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training_device")
    parser.add_argument("--device", default="auto", help="as in mgn-run")
    parser.add_argument("--only", default="", help="cases whose name has this word")
    parser.add_argument("--kernels", action="store_true", help="print the longest launches")
    parser.add_argument("--json", type=Path, help="a file for the rows")
    options = parser.parse_args(arguments)
    table, rows = Table(48), list[dict[str, Any]]()
    for case in cases():
        if options.only in case.name:
            row = measured(case, options.device, options.kernels)
            table.print(row)
            rows.append(row)
            keep(rows, options.json)
    if not rows:
        print(f"nothing has '{options.only}' in its name", file=sys.stderr)
        return 1
    return 0


def measured(case: TrainingCase, device: str, kernels: bool) -> dict[str, Any]:
    """A row of the table. SystemExit where a result is wrong."""
    began = time.perf_counter()
    executable = mgn.compile(
        mgn.parse(case.program),
        device=device,
        precision=case.precision,
        mode="training" if case.steps else "inference",
    )
    compiled = time.perf_counter() - began
    weights = {name: np.array(executable.params[name]) for name in executable.params}
    found = executable(**case.arrays)
    on_gpu = executable.device.kind == "gpu"
    row: dict[str, Any] = {"case": case.name, "compile s": compiled}
    contestants: dict[str, Callable[[], Any]] = {"mgn": executable.replay}
    if HAS_TORCH:
        call = torch_call(case, weights, on_gpu)
        row["error"] = error_of(case, found, call())
        contestants["torch"] = timed(call, on_gpu)
    times = interleaved_medians(contestants, APART if on_gpu else SHARED)
    row["mgn ms"] = times["mgn"] * 1e3
    if HAS_TORCH:
        row |= {"torch ms": times["torch"] * 1e3, "share": times["torch"] / times["mgn"]}
    row["launches"] = len(executable.replay(profile=True))
    row["arena MiB"] = executable.report.memory.arena / 2**20
    if kernels:
        launches = sorted(executable.replay(profile=True), key=lambda one: -one.seconds)
        for launch in launches[:12]:
            print(f"    {launch.kernel:60s} {launch.seconds * 1e6:9.1f} µs")
    return row


def torch_call(
    case: TrainingCase, weights: Mapping[str, np.ndarray], on_gpu: bool
) -> Callable[[], Any]:
    """PyTorch's contestant; its first call gives what mgn's first run gives."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = case.precision == "tf32"
    place = "cuda" if on_gpu else "cpu"
    arrays = {**weights, **case.arrays}
    return case.torch(torch, {name: tensor(array).to(place) for name, array in arrays.items()})


def tensor(array: np.ndarray) -> Any:
    """An array as a tensor of its own memory."""
    import torch

    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.astype(np.float32)).to(torch.bfloat16)
    return torch.from_numpy(array.copy())


def timed(call: Callable[[], Any], on_gpu: bool) -> Callable[[], Any]:
    """A call, timed by the device's events on a GPU."""
    if not on_gpu:
        return call
    import torch

    def events() -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) / 1e3

    return events


def error_of(case: TrainingCase, found: Mapping[str, np.ndarray], wanted: Any) -> float | str:
    """The largest error of a result. SystemExit where it is above the tolerance.

    An optimiser alone returns nothing: its results are compared by the tests.
    """
    if wanted is None:
        return ""
    values = wanted if isinstance(wanted, tuple | list) else (wanted,)
    worst = 0.0
    for array, value in zip(found.values(), values, strict=True):
        right = value.detach().double().cpu().numpy()
        scale = max(float(np.max(np.abs(right))), 1e-30)
        worst = max(worst, float(np.max(np.abs(array.astype(np.float64) - right))) / scale)
    multiplied = "bf16" if "bf16" in case.program else case.precision
    if not worst <= TOLERANCES[multiplied]:
        raise SystemExit(f"{case.name}: wrong result, relative error {worst:.3g}")
    return worst


if __name__ == "__main__":
    sys.exit(main())
