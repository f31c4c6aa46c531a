"""A case as functions to be timed, after mgn's result was checked.

In: a case and a device. Out: mgn's replay, and where they are there, NumPy (on a CPU), PyTorch and
tinygrad.
"""

import importlib.util
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

import mgn
from benchmarks.contests import in_tinygrad
from benchmarks.contests.cases import Arrays, Case
from mgn.bench.peers import replay_of

TOLERANCES = {"f32": 2e-5, "tf32": 4e-5, "bf16": 2**-7, "f16": 2**-10}
"""Largest accepted error relative to the largest magnitude of the result, by what is multiplied.

Operands of tf32 are rounded in the reference too, but matrix units cut off what does not fit a sum
where an addition would round. A result in half precision is rounded up to three times."""

DTYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}

CHECKED_ROWS = 64


def contestants_of(case: Case, device: str) -> dict[str, Callable[[], Any]]:
    """The functions to time. SystemExit where mgn's result is wrong."""
    arrays = arrays_of(case)
    executable = executable_of(case, device)
    found = next(iter(executable(**arrays).values()))
    check(case, arrays, found)
    on_gpu = executable.device.kind == "gpu"
    contestants: dict[str, Callable[[], Any]] = {"mgn": replay_of(executable)}
    if not on_gpu:
        contestants["numpy"] = lambda: case.numpy(*arrays.values())
    if importlib.util.find_spec("torch") is not None:
        contestants["torch"] = torch_call(case, arrays, on_gpu)
    if in_tinygrad.is_there() and case.precision != "tf32":
        contestants["tinygrad"] = tinygrad_call(case, arrays, found.shape, on_gpu)
    return contestants


def executable_of(case: Case, device: str) -> mgn.Executable:
    """The case, compiled."""
    precision = "tf32" if case.precision == "tf32" else "f32"
    return mgn.compile(mgn.parse(case.program), device=device, precision=precision)


def arrays_of(case: Case) -> Arrays:
    """Random inputs."""
    generator = np.random.default_rng(0)
    dtype = DTYPES.get(case.precision, np.float32)
    return {
        name: generator.integers(0, case.below[name], shape, np.int32)
        if name in case.below
        else generator.standard_normal(shape, np.float32).astype(dtype, copy=False)
        for name, shape in case.inputs.items()
    }


def check(case: Case, arrays: Arrays, found: np.ndarray, whose: str = "mgn") -> None:
    """Compares with NumPy in f64, where rows are independent on some of them."""
    rows = found.shape[0] if found.ndim else 1
    if case.by_row and rows > CHECKED_ROWS:
        picked = np.random.default_rng(1).choice(rows, CHECKED_ROWS, replace=False)
        arrays = {
            name: array[picked] if name in case.by_row else array for name, array in arrays.items()
        }
        found = found[picked]
    wanted = case.numpy(*(array.astype(np.float64) for array in arrays.values()))
    error = float(np.max(np.abs(found.astype(np.float64) - wanted)) / np.max(np.abs(wanted)))
    if not error <= TOLERANCES[case.precision]:
        raise SystemExit(f"{case.name}: wrong result of {whose}, relative error {error:.3g}")


def torch_call(case: Case, arrays: Arrays, on_gpu: bool) -> Callable[[], Any]:
    """PyTorch's contestant, on the same kind of device; timed by events on a GPU."""
    import torch

    place = "cuda" if on_gpu else "cpu"
    tensors = [_tensor(torch, array).to(place) for array in arrays.values()]

    def call() -> float | None:
        if not on_gpu:
            case.torch(torch, *tensors)
            return None
        torch.backends.cuda.matmul.allow_tf32 = case.precision == "tf32"
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        case.torch(torch, *tensors)
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) / 1e3

    return call


def tinygrad_call(
    case: Case, arrays: Arrays, shape: tuple[int, ...], on_gpu: bool
) -> Callable[[], Any]:
    """tinygrad's contestant. SystemExit where its result is wrong: it speaks by `in_tinygrad`."""
    tensors = [in_tinygrad.tensor(array) for array in arrays.values()]
    call = in_tinygrad.replayed(case.torch, tensors)
    check(case, arrays, in_tinygrad.result(call).reshape(shape), "tinygrad")
    return in_tinygrad.timed(call, on_gpu)


def _tensor(torch: Any, array: np.ndarray) -> Any:
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.astype(np.float32)).to(torch.bfloat16)
    return torch.from_numpy(array)
