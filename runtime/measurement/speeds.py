"""The speeds of a device, measured by small kernels.

In: a device and what its driver says of it. Out: `Speeds`, and the figures that follow from them.
What runs beside a measurement can only slow it down, so the best of several rounds counts. There
are more of them, after growing pauses, until the best of two telling ones was met twice.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mgn.runtime.devices import opencl
from mgn.runtime.measurement.matrix_figures import (
    BY_GROUPS,
    GROUP_GAIN,
    MATRIX_STEPS,
    OPERATIONS,
    REACHED,
    SUB_GROUPS,
    matrix_source,
    matrix_unit,
)

AGREEMENT = 0.9
"""What share of the best speed the second best must reach, for both to be believed."""

_TELLING = ("f32", "copy")

ROUNDS = 6
"""The most rounds of one measurement; two are enough on a quiet machine."""

_FIRST_PAUSE = 0.03
_REPEATS = 6
_LAUNCHES = 200
_WAKING_SECONDS = 0.3
_CHAINS = 8
_CACHED_SIZES = tuple(1 << power for power in range(19, 25))
_CACHED_ITEMS = 64

MEASURED = frozenset(
    {
        *("f32", "f64", "copy", "launches", "tanh"),
        *(f"copy {size}" for size in _CACHED_SIZES),
        *(f"matrix {name}" for name in OPERATIONS),
    }
)
"""Every speed that there may be."""

HALF_SLOWER = 16.0
"""How much slower a CPU does simple operations in half precision: it rounds after each."""

_SOURCE = """
__kernel void empty(__global float *y) {}
__kernel void copy(__global const COPIED *x, __global COPIED *y, int chunk) {
  size_t first = get_global_id(0) * chunk;
  for (int i = 0; i < chunk; i++) y[first + i] = x[first + i];
}
"""
_TANH_SOURCE = """
__kernel void tanh_rate(__global VECTOR *y, int steps) {
  VECTOR s[CHAINS];
  for (int j = 0; j < CHAINS; j++) s[j] = (VECTOR)(0.1f * (j + 1 + get_global_id(0) % 7));
  for (int i = 0; i < steps; i++) {
    #pragma unroll
    for (int j = 0; j < CHAINS; j++) s[j] = tanh(s[j]);
  }
  VECTOR total = s[0];
  for (int j = 1; j < CHAINS; j++) total += s[j];
  y[get_global_id(0)] = total;
}
"""
_TANH_STEPS = 256
TANH_IN_CHAINS = 76.0
"""Multiply-adds in whose time a CPU does one tanh after another, as `ELEMENT_COST` says."""

_RATE_SOURCE = """
__kernel void rate_SCALAR(__global VECTOR *y, SCALAR a, SCALAR b, int steps) {
  VECTOR s[CHAINS];
  for (int j = 0; j < CHAINS; j++) s[j] = (VECTOR)(a * (SCALAR)(j + get_global_id(0) % 7));
  for (int i = 0; i < steps; i++) {
    #pragma unroll
    for (int j = 0; j < CHAINS; j++) s[j] = fma(s[j], (VECTOR)(a), (VECTOR)(b));
  }
  VECTOR total = s[0];
  for (int j = 1; j < CHAINS; j++) total += s[j];
  y[get_global_id(0)] = total;
}
"""


@dataclass(frozen=True)
class _Scale:
    """How much work a measurement takes on a kind of device: on a CPU a few milliseconds, since its
    other threads sleep before, and on a GPU half of one, beside which a launch is nothing.
    `reached` is the share of the rate of multiply-adds in registers that counts.
    """

    bytes: int
    vector: str
    vector_bytes: int
    chunk: int
    items: int
    group: int
    steps: int
    reached: float


_GPU_REACHED = 0.87
"""The share of an NVIDIA H200's multiply-adds that the best products in f32 reach there."""

_SCALES = {
    "cpu": _Scale(32 << 20, "float16", 64, 1 << 14, 64, 1, 8192, 1.0),
    "gpu": _Scale(1 << 30, "float4", 16, 1, 2048, 256, 8192, _GPU_REACHED),
}
_LANES = {"cpu": {"float": 16, "double": 8}, "gpu": {"float": 1, "double": 1}}


def source(kind: str, has_fp64: bool) -> str:
    """All the measuring kernels as one program, since each build takes a while."""
    text = _SOURCE.replace("COPIED", _SCALES[kind].vector)
    if kind == "cpu":
        vector = _SCALES[kind].vector
        text += _TANH_SOURCE.replace("VECTOR", vector).replace("CHAINS", str(_CHAINS))
    if has_fp64:
        text += "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
    for scalar, lanes in _LANES[kind].items():
        if scalar == "double" and not has_fp64:
            continue
        vector = scalar if lanes == 1 else f"{scalar}{lanes}"
        rate = _RATE_SOURCE.replace("SCALAR", scalar).replace("VECTOR", vector)
        text += rate.replace("CHAINS", str(_CHAINS))
    return text


@dataclass
class Speeds:
    """The best speed of each kind and the second best, of so many rounds."""

    best: dict[str, float] = field(default_factory=dict[str, float])
    second: dict[str, float] = field(default_factory=dict[str, float])
    rounds: int = 0

    @property
    def agree(self) -> bool:
        """Whether the best rate and the best bandwidth were met twice: the machine was idle."""
        return all(self.second.get(name, 0.0) >= AGREEMENT * self.best[name] for name in _TELLING)

    def add(self, measured: Mapping[str, float]) -> None:
        """Takes in a round."""
        for name, speed in measured.items():
            first, second = self.best.get(name, 0.0), self.second.get(name, 0.0)
            self.best[name] = max(first, speed)
            self.second[name] = max(min(first, speed), second)
        self.rounds += 1

    def figures(self, kind: str) -> dict[str, Any]:
        """The measured figures of a device."""
        best = self.best
        f32 = best["f32"]
        half = f32 / HALF_SLOWER if kind == "cpu" else f32
        cache, gain = self._cache()
        matrix = {name[len("matrix ") :]: best[name] for name in best if name.startswith("matrix ")}
        return {
            "bandwidth": best["copy"],
            "launch_cost": 1.0 / best["launches"],
            "rates": {"f32": f32, "f64": best.get("f64", f32 / 64.0), "f16": half, "bf16": half},
            "matrix_rates": matrix,
            "cache": cache,
            "cache_gain": gain,
            "function_share": self._function_share(),
        }

    def _function_share(self) -> float:
        """What a tanh takes beside others, in the time that it takes in a chain; 1 if unknown."""
        if "tanh" not in self.best:
            return 1.0
        return min(0.5 * self.best["f32"] / self.best["tanh"] / TANH_IN_CHAINS, 1.0)

    def _cache(self) -> tuple[int, float]:
        """How many bytes a CPU keeps between kernels, and how much faster it copies them.

        A size is kept if its copy is nearer to the fastest one than to that of large buffers.
        """
        large = self.best["copy"]
        speeds = {size: self.best.get(f"copy {size}", large) for size in _CACHED_SIZES}
        gain = max(*speeds.values(), large) / large
        kept = [2 * size for size, speed in speeds.items() if speed > gain**0.5 * large]
        return max(kept, default=0), gain


def add_rounds(handle: Any, figures: Mapping[str, Any], speeds: Speeds) -> None:
    """Measures until the speeds agree, or there were enough rounds."""
    bench = _Bench(handle, figures)
    pause = _FIRST_PAUSE
    for _ in range(ROUNDS):
        speeds.add(bench.round())
        if speeds.agree:
            return
        time.sleep(pause)
        pause *= 2.0


class _Bench:
    """Small kernels whose times give a device's figures."""

    def __init__(self, handle: Any, figures: Mapping[str, Any]) -> None:
        cl = opencl()
        self._handle = handle
        self._kind: str = figures["kind"]
        self._units: int = figures["compute_units"]
        self._has_fp64: bool = figures["has_fp64"]
        self._scale = _SCALES[self._kind]
        self._context = cl.Context([handle])
        self._queue = cl.CommandQueue(self._context)
        self._copied = [self._buffer(self._scale.bytes) for _ in range(2)]
        self._program = self._built(source(self._kind, self._has_fp64))
        matrix = matrix_source(handle)
        self._matrix_program = None if matrix is None else self._built(matrix)

    def round(self) -> dict[str, float]:
        """Operations, bytes and launches per second, by name."""
        if self._kind == "gpu":
            self._wake()
        speeds = {"f32": self._rate("float", np.float32)}
        if self._has_fp64:
            speeds["f64"] = self._rate("double", np.float64)
        speeds["copy"] = self._bandwidth(self._scale.bytes)
        if self._kind == "cpu":
            speeds |= {f"copy {size}": self._bandwidth(size) for size in _CACHED_SIZES}
            speeds["tanh"] = self._functions()
        speeds["launches"] = self._launches()
        return speeds | {f"matrix {name}": rate for name, rate in self._matrix_rates().items()}

    def _built(self, source: str) -> Any:
        return opencl().Program(self._context, source).build(cache_dir=False)

    def _wake(self) -> None:
        """Keeps a GPU busy until its clock, which falls while it idles, is back."""
        end = time.perf_counter() + _WAKING_SECONDS
        while time.perf_counter() < end:
            self._rate("float", np.float32)

    def _matrix_rates(self) -> dict[str, float]:
        """Operations per second of products on the matrix unit; empty where there is none."""
        if self._matrix_program is None:
            return {}
        items = SUB_GROUPS * 32 * self._units
        target = self._buffer(items * 4)
        rates: dict[str, float] = {}
        for name, operations in OPERATIONS.items():
            kernel = opencl().Kernel(self._matrix_program, f"rate_{name}")
            kernel.set_args(target, np.int32(MATRIX_STEPS))
            seconds = self._time(lambda kernel=kernel: self._launch(kernel, items, 256))
            total = operations * MATRIX_STEPS * SUB_GROUPS * self._units
            rates[name] = REACHED * total / seconds
            if name in BY_GROUPS and matrix_unit(self._handle) == "wgmma":
                rates[name] *= GROUP_GAIN
        return rates

    def _buffer(self, size: int) -> Any:
        """A buffer that is in memory, and not zero."""
        cl = opencl()
        buffer = cl.Buffer(self._context, cl.mem_flags.READ_WRITE, size)
        cl.enqueue_fill_buffer(self._queue, buffer, np.float32(0.731), 0, size)
        return buffer

    def _time(self, enqueue: Callable[[], Any]) -> float:
        """The least seconds of a warmed-up kernel, from enqueue to the end of the queue.

        What runs beside it on the machine can only add to a time, so the least is the device's.
        """
        seconds: list[float] = []
        for _ in range(_REPEATS + 1):
            start = time.perf_counter()
            enqueue()
            self._queue.finish()
            seconds.append(time.perf_counter() - start)
        return min(seconds[1:])

    def _launch(self, kernel: Any, items: int, group: int) -> Any:
        return opencl().enqueue_nd_range_kernel(self._queue, kernel, (items,), (group,))

    def _bandwidth(self, size: int) -> float:
        """Bytes read and written per second by a copy of so many bytes."""
        scale = self._scale
        kernel = opencl().Kernel(self._program, "copy")
        vectors = size // scale.vector_bytes
        chunk = min(scale.chunk, max(vectors // _CACHED_ITEMS, 1))
        kernel.set_args(*self._copied, np.int32(chunk))
        items = vectors // chunk
        return 2.0 * size / self._time(lambda: self._launch(kernel, items, scale.group))

    def _launches(self) -> float:
        """Launches of an empty kernel per second."""
        kernel = opencl().Kernel(self._program, "empty")
        target = self._buffer(4096)
        kernel.set_args(target)

        items = 4 * self._units * self._scale.group

        def enqueue() -> None:
            for _ in range(_LAUNCHES):
                self._launch(kernel, items, self._scale.group)

        return _LAUNCHES / self._time(enqueue)

    def _functions(self) -> float:
        """Values of tanh per second that do not depend on one another."""
        scale, lanes = self._scale, _LANES[self._kind]["float"]
        kernel = opencl().Kernel(self._program, "tanh_rate")
        items = scale.items * self._units
        target = self._buffer(items * scale.vector_bytes)
        kernel.set_args(target, np.int32(_TANH_STEPS))
        seconds = self._time(lambda: self._launch(kernel, items, scale.group))
        return items * _TANH_STEPS * _CHAINS * lanes / seconds

    def _rate(self, scalar: str, number: type[np.floating[Any]]) -> float:
        """Operations per second of independent chains of fused multiply-adds."""
        scale = self._scale
        lanes = _LANES[self._kind][scalar]
        kernel = opencl().Kernel(self._program, f"rate_{scalar}")
        items = scale.items * self._units
        target = self._buffer(items * lanes * np.dtype(number).itemsize)
        kernel.set_args(target, number(0.997), number(0.003), np.int32(scale.steps))
        seconds = self._time(lambda: self._launch(kernel, items, scale.group))
        return scale.reached * 2.0 * items * scale.steps * _CHAINS * lanes / seconds
