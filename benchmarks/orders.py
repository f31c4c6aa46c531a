"""`python -m benchmarks.orders [--device D] [--sizes 1024,65536] [--only WORD]`: sorts, scans and
scatters beside PyTorch, or NumPy where that is not installed.

Each row has the time of mgn and of its peer, how much faster mgn is, and how much of what the
device's bandwidth allows it reaches. Results are checked before.
"""

import argparse
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import mgn
from benchmarks.contests.contestants import replay_of
from benchmarks.contests.order_cases import DRAWS, OrderCase, cases_of
from benchmarks.table import Table, keep
from mgn.api import describe_device
from mgn.bench.timing import APART, SHARED, interleaved_medians

SIZES = "1024,65536,1048576,16777216"

ROWS_OF = {1: 1, 4096: 1 << 20, 1024: 1 << 14}
"""How many elements there are at least for so many to be in a row of many; 1 is one row."""

TOLERANCE = 1e-3
"""The largest error of sums and products, relative to the largest of them."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.orders", description=__doc__)
    parser.add_argument("--device", default="auto", help="as in mgn-run")
    parser.add_argument("--sizes", default=SIZES, help="elements of the inputs")
    parser.add_argument("--only", default="", help="cases whose name has this word")
    parser.add_argument("--draws", default=",".join(DRAWS), help="how elements are drawn")
    parser.add_argument("--kernels", action="store_true", help="print the time of each kernel")
    parser.add_argument("--json", type=Path, help="a file for the rows")
    options = parser.parse_args(arguments)
    table, rows = Table(44), list[dict[str, Any]]()
    for case in chosen(options.sizes, options.draws.split(","), options.only):
        row = measured(case, options.device, options.kernels)
        table.print(row)
        rows.append(row)
        keep(rows, options.json)
    if not rows:
        print(f"nothing has '{options.only}' in its name", file=sys.stderr)
        return 1
    return 0


def chosen(sizes: str, draws: Sequence[str], only: str) -> Iterator[OrderCase]:
    """The cases whose name has a word."""
    for size in map(int, sizes.split(",")):
        for length, least in ROWS_OF.items():
            if size < least:
                continue
            for element in ("f32", "i32"):
                for how in draws:
                    rows = 1 if length == 1 else size // length
                    found = cases_of(size, rows, element, how)
                    yield from (case for case in found if only in case.name)


def measured(case: OrderCase, device: str, kernels: bool = False) -> dict[str, Any]:
    """A row of the table. SystemExit where the result is wrong."""
    executable = mgn.compile(mgn.parse(case.program), device=device)
    (found,) = executable(**case.arrays).values()
    check(case, found)
    on_gpu = executable.device.kind == "gpu"
    contestants: dict[str, Callable[[], Any]] = {"mgn": replay_of(executable)}
    contestants["peer"] = peer_of(case, on_gpu)
    times = interleaved_medians(contestants, APART if on_gpu else SHARED)
    if kernels:
        executable.replay(profile=True)
        for launch in executable.replay(profile=True):
            print(f"    {launch.kernel:40s} {launch.seconds * 1e6:9.1f} µs")
    bound = describe_device(executable.device).seconds_to_move(case.moved)
    return {
        "case": case.name,
        "mgn ms": times["mgn"] * 1e3,
        "peer ms": times["peer"] * 1e3,
        "faster": times["peer"] / times["mgn"],
        "of bound": bound / times["mgn"],
    }


def check(case: OrderCase, found: np.ndarray) -> None:
    """Compares with NumPy: orders exactly, sums and products within a tolerance."""
    if case.name.startswith("argsort"):
        right = sorts_stably(case.arrays["x"], found)
    elif case.name.startswith(("cum", "scatter_add")):
        wanted = case.numpy(*case.arrays.values())
        error = np.max(np.abs(found - wanted)) / np.max(np.abs(wanted))
        right = bool(error <= TOLERANCE)
    else:
        right = np.array_equal(found, case.numpy(*case.arrays.values()).astype(found.dtype))
    if not right:
        raise SystemExit(f"{case.name}: wrong result")


def sorts_stably(x: np.ndarray, order: np.ndarray) -> bool:
    """Whether positions are all there are in each row, and put its elements in stable order."""
    values = np.take_along_axis(x, order, -1)
    rises = values[:, 1:] > values[:, :-1]
    later = (values[:, 1:] == values[:, :-1]) & (order[:, 1:] > order[:, :-1])
    met = np.zeros(order.shape, bool)
    np.put_along_axis(met, order, True, -1)
    return bool(np.all(rises | later) and met.all())


def peer_of(case: OrderCase, on_gpu: bool) -> Callable[[], float | None]:
    """PyTorch on the same kind of device, timed by events on a GPU; NumPy where it is missing."""
    if importlib.util.find_spec("torch") is None:

        def numpy() -> None:
            case.numpy(*case.arrays.values())

        return numpy
    import torch

    place = "cuda" if on_gpu else "cpu"
    tensors = [torch.from_numpy(array).to(place) for array in case.arrays.values()]

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


if __name__ == "__main__":
    sys.exit(main())
