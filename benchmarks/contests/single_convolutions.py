"""Single convolutions beside PyTorch: those of networks of images, in f32, tf32 and bf16.

In: a device, a precision. Out: a row for each: milliseconds of both, how much faster mgn is. mgn's
result is checked on some of its places before. PyTorch has its own choice of algorithms, in both
layouts, of which the better counts; on a GPU it is replayed as a graph of ten.
"""

import importlib.util
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import mgn
from benchmarks.contests.contestants import TOLERANCES
from mgn.bench.peers import replay_of
from mgn.bench.timing import APART, SHARED, interleaved_medians

PRECISIONS = ("f32", "tf32", "bf16")

CALLS, REPLAYS = 10, 8
"""Convolutions in a graph of PyTorch's, and how often it is replayed."""

CHECKED = 5
"""Places of a result that are compared."""


@dataclass(frozen=True)
class Convolution:
    """The shapes of an image and of weights; the padding keeps the size at stride 1."""

    name: str
    image: tuple[int, ...]
    weights: tuple[int, ...]
    stride: int = 1

    @property
    def padding(self) -> int:
        return self.weights[-1] // 2

    @property
    def groups(self) -> int:
        return self.image[1] // self.weights[1]


CONVOLUTIONS = (
    Convolution("3x3, 32x64x56x56", (32, 64, 56, 56), (64, 64, 3, 3)),
    Convolution("3x3, 32x256x14x14", (32, 256, 14, 14), (256, 256, 3, 3)),
    Convolution("1x1, 32x512x28x28 to 128", (32, 512, 28, 28), (128, 512, 1, 1)),
    Convolution("7x7 / 2, 32x3x224x224 to 64", (32, 3, 224, 224), (64, 3, 7, 7), 2),
    Convolution("3x3 depthwise, 32x96x112x112", (32, 96, 112, 112), (96, 1, 3, 3)),
    Convolution("3x3, 1x256x28x28", (1, 256, 28, 28), (256, 256, 3, 3)),
)


def rows(device: str, precisions: tuple[str, ...], only: str) -> Iterator[dict[str, Any]]:
    """The rows of those whose name has a word."""
    for precision in precisions:
        for case in CONVOLUTIONS:
            if only in case.name:
                yield measured(case, precision, device)


def measured(case: Convolution, precision: str, device: str) -> dict[str, Any]:
    """A row. SystemExit where the result is wrong."""
    element = "bf16" if precision == "bf16" else "f32"
    how = f"stride = {case.stride}, padding = {case.padding}, groups = {case.groups}"
    text = f"""graph g(x: {element}{list(case.image)}) {{
  param w: {element}{list(case.weights)}
  return y = conv2d(x, w, {how})
}}"""
    executable = mgn.compile(
        mgn.parse(text), device=device, precision="tf32" if precision == "tf32" else "f32"
    )
    generator = np.random.default_rng(0)
    dtype = ml_dtypes.bfloat16 if element == "bf16" else np.float32
    image = generator.standard_normal(case.image, np.float32).astype(dtype)
    weights = generator.standard_normal(case.weights, np.float32).astype(dtype)
    executable.params["w"] = weights
    check(case, precision, image, weights, executable(x=image)["y"])
    on_gpu = executable.device.kind == "gpu"
    contestants = {"mgn": replay_of(executable)}
    times = interleaved_medians(contestants, APART if on_gpu else SHARED)
    row: dict[str, Any] = {"convolution": f"{case.name}, {precision}", "mgn ms": times["mgn"] * 1e3}
    if importlib.util.find_spec("torch") is not None:
        row["torch ms"] = torch_seconds(case, precision, on_gpu) * 1e3
        row["faster"] = row["torch ms"] / row["mgn ms"]
    return row


def check(
    case: Convolution, precision: str, image: np.ndarray, weights: np.ndarray, found: np.ndarray
) -> None:
    """Compares some places of a result with NumPy in f64. SystemExit where one is wrong. With one
    channel in a group it is a sum over windows and no product: nothing is rounded.
    """
    if precision == "tf32" and case.weights[1] == 1:
        precision = "f32"
    wide, filters = (_rounded(array, precision).astype(np.float64) for array in (image, weights))
    low, size = case.padding, case.weights[-1]
    wide = np.pad(wide, [(0, 0), (0, 0), (low, low), (low, low)])
    generator = np.random.default_rng(1)
    for _ in range(CHECKED):
        n, y, x = (int(generator.integers(found.shape[axis])) for axis in (0, 2, 3))
        top, left = y * case.stride, x * case.stride
        window = wide[n, :, top : top + size, left : left + size]
        grouped = window.reshape(case.groups, 1, case.weights[1], size, size)
        each = filters.reshape(case.groups, -1, *case.weights[1:])
        wanted = (grouped * each).sum(axis=(2, 3, 4)).reshape(-1)
        scale = (np.abs(grouped) * np.abs(each)).sum(axis=(2, 3, 4)).max()
        error = float(np.abs(found[n, :, y, x].astype(np.float64) - wanted).max() / scale)
        if not error <= TOLERANCES[precision]:
            raise SystemExit(f"{case.name}, {precision}: wrong result, relative error {error:.3g}")


def _rounded(array: np.ndarray, precision: str) -> np.ndarray:
    """The nearest numbers of tf32, ties to even."""
    if precision != "tf32":
        return array
    bits = array.view(np.uint32)
    bits = bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))
    return (bits & np.uint32(0xFFFFE000)).view(np.float32)


def torch_seconds(case: Convolution, precision: str, on_gpu: bool) -> float:
    """PyTorch's better time of the two layouts."""
    import torch

    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    place = "cuda" if on_gpu else "cpu"
    found: list[float] = []
    for layout in (torch.contiguous_format, torch.channels_last):
        image, weights = (
            torch.randn(shape).to(place, dtype).to(memory_format=layout)
            for shape in (case.image, case.weights)
        )

        def call(image: Any = image, weights: Any = weights) -> None:
            torch.nn.functional.conv2d(
                image, weights, None, case.stride, case.padding, 1, case.groups
            )

        with torch.no_grad():
            if on_gpu:
                found.append(_replayed(torch, call))
            else:
                found.append(interleaved_medians({"torch": call})["torch"])
    return min(found)


def _replayed(torch: Any, call: Any) -> float:
    """The seconds of a call in a graph of CUDA's."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            call()
    times: list[float] = []
    for _ in range(REPLAYS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 1e3 / CALLS)
    return statistics.median(times[1:])
