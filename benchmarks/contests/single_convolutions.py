"""Single convolutions beside PyTorch: those of networks of images, in f32, tf32 and bf16.

In: a device, a precision. Out: a row for each: milliseconds of both with images whose channels come
first and last in memory, and how much faster mgn's better layout is than PyTorch's. mgn's results
are checked on some of their places before. PyTorch has its own choice of algorithms. On a GPU runs
follow one another, PyTorch's in a graph of ten.
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
from benchmarks.in_a_row import in_a_row
from mgn.bench.peers import Timed
from mgn.bench.timing import APART, SHARED, interleaved_medians
from mgn.executable import Executable

PRECISIONS = ("f32", "tf32", "bf16")

LAYOUTS = ("first", "last")
"""Where the channels of an image come in memory."""

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
    """The rows of those whose name has a word. SystemExit where a result is wrong."""
    for precision in precisions:
        for case in CONVOLUTIONS:
            if only in case.name:
                yield measured(case, precision, device)


def measured(case: Convolution, precision: str, device: str) -> dict[str, Any]:
    """A row. SystemExit where a result is wrong."""
    executables = [_checked(case, precision, device, last) for last in (False, True)]
    on_gpu = executables[0].device.kind == "gpu"
    contestants: dict[str, Timed] = {
        layout: in_a_row(item) for layout, item in zip(LAYOUTS, executables, strict=True)
    }
    times = interleaved_medians(contestants, APART if on_gpu else SHARED)
    row: dict[str, Any] = {"convolution": f"{case.name}, {precision}"}
    row |= {f"mgn, {layout}": times[layout] * 1e3 for layout in LAYOUTS}
    if importlib.util.find_spec("torch") is not None:
        found = torch_seconds(case, precision, on_gpu)
        row |= {f"torch, {layout}": found[layout] * 1e3 for layout in LAYOUTS}
        row["faster"] = min(found.values()) / min(times.values())
    return row


def _checked(case: Convolution, precision: str, device: str, last: bool) -> Executable:
    """The convolution, compiled for images whose channels come last or not, and checked."""
    element = "bf16" if precision == "bf16" else "f32"
    how = f"stride = {case.stride}, padding = {case.padding}, groups = {case.groups}"
    shape, image, moved = case.image, "x", "{}"
    if last:
        shape, image = _channels_last(shape), "transpose(x, [0, 3, 1, 2])"
        moved = "transpose({}, [0, 2, 3, 1])"
    text = f"""graph g(x: {element}{list(shape)}) {{
  param w: {element}{list(case.weights)}
  return y = {moved.format(f"conv2d({image}, w, {how})")}
}}"""
    executable = mgn.compile(
        mgn.parse(text), device=device, precision="tf32" if precision == "tf32" else "f32"
    )
    generator = np.random.default_rng(0)
    dtype = ml_dtypes.bfloat16 if element == "bf16" else np.float32
    drawn = generator.standard_normal(case.image, np.float32).astype(dtype)
    weights = generator.standard_normal(case.weights, np.float32).astype(dtype)
    executable.params["w"] = weights
    found = executable(x=drawn.transpose(0, 2, 3, 1) if last else drawn)["y"]
    check(case, precision, drawn, weights, found.transpose(0, 3, 1, 2) if last else found)
    return executable


def _channels_last(shape: tuple[int, ...]) -> tuple[int, ...]:
    images, channels, *sides = shape
    return (images, *sides, channels)


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


def torch_seconds(case: Convolution, precision: str, on_gpu: bool) -> dict[str, float]:
    """PyTorch's time in each layout."""
    import torch

    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    place = "cuda" if on_gpu else "cpu"
    found: dict[str, float] = {}
    formats = (torch.contiguous_format, torch.channels_last)
    for name, layout in zip(LAYOUTS, formats, strict=True):
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
                found[name] = _replayed(torch, call)
            else:
                found[name] = interleaved_medians({"torch": call})["torch"]
    return found


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
