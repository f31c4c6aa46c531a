"""What a device can do: the figures that the compiler's prices and schedules come from.

In: a `ComputeDevice`. Out: a dictionary with the fields of `mgn.dialects.kernel.Device`. What the
driver tells is asked; bandwidth, rates and the cost of a launch are measured once for each device
and driver, and kept on disk. `MGN_DEVICE_FIGURES` names a JSON file whose entries win over both.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from mgn.runtime.devices import ComputeDevice, opencl
from mgn.runtime.errors import DeviceError
from mgn.runtime.host_arrays import DTYPES, nearest
from mgn.runtime.location import cache_folder, write_atomically
from mgn.runtime.matrix_figures import (
    BY_GROUPS,
    GROUP_GAIN,
    MATRIX_STEPS,
    OPERATIONS,
    REACHED,
    SUB_GROUPS,
    matrix_source,
    matrix_unit,
)

FIGURES_VARIABLE = "MGN_DEVICE_FIGURES"
_VERSION = 4
_VENDORS = ("intel", "nvidia", "amd", "pocl", "apple", "arm", "qualcomm")
_REPEATS = 12
_LAUNCHES = 200
_WAKING_SECONDS = 0.3
_CHAINS = 8
_CACHED_SIZES = tuple(1 << power for power in range(19, 25))
_CACHED_ITEMS = 64

HALF_SLOWER = 16.0
"""How much slower a CPU does simple operations in half precision: it rounds after each."""

_SOURCE = """
__kernel void empty(__global float *y) {}
__kernel void copy(__global const COPIED *x, __global COPIED *y, int chunk) {
  size_t first = get_global_id(0) * chunk;
  for (int i = 0; i < chunk; i++) y[first + i] = x[first + i];
}
"""
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
    """How much work a measurement takes on a kind of device."""

    bytes: int
    vector: str
    vector_bytes: int
    chunk: int
    items: int
    group: int
    steps: int


_SCALES = {
    "cpu": _Scale(32 << 20, "float16", 64, 1 << 14, 64, 1, 2048),
    "gpu": _Scale(1 << 30, "float4", 16, 1, 2048, 256, 512),
}
_LANES = {"cpu": {"float": 16, "double": 8}, "gpu": {"float": 1, "double": 1}}


def _source(kind: str, has_fp64: bool) -> str:
    """All the measuring kernels as one program, since each build takes a while."""
    text = _SOURCE.replace("COPIED", _SCALES[kind].vector)
    if has_fp64:
        text += "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
    for scalar, lanes in _LANES[kind].items():
        if scalar == "double" and not has_fp64:
            continue
        vector = scalar if lanes == 1 else f"{scalar}{lanes}"
        rate = _RATE_SOURCE.replace("SCALAR", scalar).replace("VECTOR", vector)
        text += rate.replace("CHAINS", str(_CHAINS))
    return text


def describe(device: ComputeDevice, *, measure: bool = True) -> dict[str, Any]:
    """The figures of a device. Without `measure` it gives only what is known without a kernel."""
    figures = probe(device)
    if measure:
        figures |= _measured(device, figures)
    return _with_overrides(figures)


def probe(device: ComputeDevice) -> dict[str, Any]:
    """What the driver says of a device; all fields but those that are measured."""
    handle = device.handle
    extensions = set(handle.extensions.split())
    vendor = handle.vendor.lower()
    is_cpu = device.kind == "cpu"
    return {
        "name": device.name,
        "kind": "cpu" if is_cpu else "gpu",
        "vendor": next((name for name in _VENDORS if name in vendor), "other"),
        "compute_units": handle.max_compute_units,
        "vector_bits": 32 * max(handle.native_vector_width_float, 1) if is_cpu else 128,
        "local_memory": handle.local_mem_size,
        "max_work_group_size": handle.max_work_group_size,
        "sub_group_size": 1 if is_cpu else _sub_group_size(handle, extensions),
        "global_memory": handle.global_mem_size,
        "has_fp16": "cl_khr_fp16" in extensions,
        "has_fp64": bool(handle.double_fp_config),
        "matrix_unit": matrix_unit(handle),
    }


def _sub_group_size(handle: Any, extensions: set[str]) -> int:
    cl = opencl()
    if "cl_nv_device_attribute_query" in extensions:
        return int(handle.warp_size_nv)
    try:
        context = cl.Context([handle])
        program = cl.Program(context, _source("gpu", False)).build(cache_dir=False)
        kernel = cl.Kernel(program, "empty")
        info = cl.kernel_work_group_info.PREFERRED_WORK_GROUP_SIZE_MULTIPLE
        return int(kernel.get_work_group_info(info, handle))
    except cl.Error:
        return 32


def _measured(device: ComputeDevice, figures: dict[str, Any]) -> dict[str, Any]:
    root = cache_folder()
    name = hashlib.sha256(f"{_VERSION} {device.identity}".encode()).hexdigest()[:32]
    path = None if root is None else root / "devices" / f"{name}.json"
    if path is not None:
        try:
            known = _valid(json.loads(path.read_text()))
        except (OSError, ValueError):
            known = None
        if known is not None:
            return known
    cl = opencl()
    try:
        measured = _Bench(device, figures).measure()
    except cl.Error as error:
        raise DeviceError(f"{device.name} cannot run a kernel: {error}") from None
    if path is not None:
        write_atomically(path, json.dumps(measured, indent=2).encode())
    return measured


def _valid(data: Any) -> dict[str, Any] | None:
    """The measured figures of a file that is whole; None for any other content."""
    try:
        rates: dict[str, Any] = dict(data["rates"])
        matrix: dict[str, Any] = dict(data["matrix_rates"])
        numbers = [data["bandwidth"], data["launch_cost"], rates["f32"], *rates.values()]
        numbers += [*matrix.values(), data["cache_gain"]]
        cache = data["cache"]
    except (KeyError, TypeError, ValueError):
        return None
    if not all(_positive(number) for number in numbers) or type(cache) is not int or cache < 0:
        return None
    return {
        "bandwidth": numbers[0],
        "launch_cost": numbers[1],
        "rates": rates,
        "matrix_rates": matrix,
        "cache": cache,
        "cache_gain": data["cache_gain"],
    }


def _positive(number: Any) -> bool:
    return isinstance(number, float) and 0.0 < number < float("inf")


def overrides() -> dict[str, Any]:
    """The entries of the file that MGN_DEVICE_FIGURES names. DeviceError where it is none."""
    chosen = os.environ.get(FIGURES_VARIABLE)
    if not chosen:
        return {}
    try:
        figures: Any = json.loads(Path(chosen).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        words = error.strerror if isinstance(error, OSError) else error
        raise DeviceError(
            f"{FIGURES_VARIABLE} names {chosen}, which is unusable: {words}"
        ) from None
    if not isinstance(figures, dict):
        raise DeviceError(f"{FIGURES_VARIABLE} names {chosen}, which holds no JSON object")
    return cast(dict[str, Any], figures)


def _with_overrides(figures: dict[str, Any]) -> dict[str, Any]:
    """Figures with those of the file in their places, each of its kind; rates one by one."""
    known: dict[str, Any] = {"bandwidth": 0.0, "launch_cost": 0.0, "cache": 0, "cache_gain": 1.0}
    known |= {"rates": {}, "matrix_rates": {}, **figures}
    merged = dict(figures)
    for name, value in overrides().items():
        if name not in known:
            raise DeviceError(f"{FIGURES_VARIABLE}: no figure '{name}'{nearest(name, [*known])}")
        if name in ("rates", "matrix_rates") and isinstance(value, dict):
            rates = cast(dict[str, Any], value)
            for element in rates.keys() - _RATED[name]:
                hint = nearest(element, _RATED[name])
                raise DeviceError(f"{FIGURES_VARIABLE}: no figure '{name}.{element}'{hint}")
            merged[name] = known[name] | {
                element: _of_kind(f"{name}.{element}", rate, 0.0) for element, rate in rates.items()
            }
        else:
            merged[name] = _of_kind(name, value, known[name])
    return merged


_RATED = {"rates": [*DTYPES], "matrix_rates": [*DTYPES, "tf32"]}
"""What there may be rates of."""

_CHOICES = {
    "kind": ("cpu", "gpu"),
    "vendor": (*_VENDORS, "other"),
    "matrix_unit": ("none", "mma", "wgmma"),
    "vector_bits": tuple(32 << n for n in range(8)),
    "sub_group_size": tuple(1 << n for n in range(8)),
}
"""The values of figures that have few."""

_WANTED = {bool: "true or false", int: "a whole number above 0", float: "a number above 0"}


def _of_kind(name: str, value: Any, like: Any) -> Any:
    """A value that may stand for `like`. DeviceError where it may not."""
    kind: type = type(like)
    if kind is float and type(value) is int:
        value = float(value)
    numeric = kind in (int, float)
    if type(value) is not kind or (numeric and not 0 < value < float("inf")):
        wanted = _WANTED.get(kind, "a text" if kind is str else "an object of rates")
        raise DeviceError(f"{FIGURES_VARIABLE}: {name} must be {wanted}, not {json.dumps(value)}")
    choices = _CHOICES.get(name, (value,))
    if value not in choices:
        listed = ", ".join(map(str, choices))
        raise DeviceError(f"{FIGURES_VARIABLE}: {name} is one of {listed}, not {value}")
    return value


class _Bench:
    """Small kernels whose times give a device's figures."""

    def __init__(self, device: ComputeDevice, figures: dict[str, Any]) -> None:
        cl = opencl()
        self._handle = device.handle
        self._kind: str = figures["kind"]
        self._units: int = figures["compute_units"]
        self._has_fp64: bool = figures["has_fp64"]
        self._scale = _SCALES[self._kind]
        self._context = cl.Context([device.handle])
        self._queue = cl.CommandQueue(self._context)

    def measure(self) -> dict[str, Any]:
        source = _source(self._kind, self._has_fp64)
        program = opencl().Program(self._context, source).build(cache_dir=False)
        if self._kind == "gpu":
            self._wake(program)
        f32 = self._rate(program, "float", np.float32)
        half = f32 / HALF_SLOWER if self._kind == "cpu" else f32
        f64 = self._rate(program, "double", np.float64) if self._has_fp64 else f32 / 64.0
        bandwidth = self._bandwidth(program, self._scale.bytes)
        cache, gain = self._cache(program, bandwidth)
        return {
            "bandwidth": bandwidth,
            "launch_cost": self._launch_cost(program),
            "rates": {"f32": f32, "f64": f64, "f16": half, "bf16": half},
            "matrix_rates": self._matrix_rates(),
            "cache": cache,
            "cache_gain": gain,
        }

    def _wake(self, program: Any) -> None:
        """Keeps a GPU busy until its clock, which falls while it idles, is back."""
        end = time.perf_counter() + _WAKING_SECONDS
        while time.perf_counter() < end:
            self._rate(program, "float", np.float32)

    def _matrix_rates(self) -> dict[str, float]:
        """Operations per second of products on the matrix unit; empty where there is none."""
        source = matrix_source(self._handle)
        if source is None:
            return {}
        program = opencl().Program(self._context, source).build(cache_dir=False)
        items = SUB_GROUPS * 32 * self._units
        target = self._buffer(items * 4)
        rates: dict[str, float] = {}
        for name, operations in OPERATIONS.items():
            kernel = opencl().Kernel(program, f"rate_{name}")
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

    def _bandwidth(self, program: Any, size: int) -> float:
        """Bytes read and written per second by a copy of so many bytes."""
        scale = self._scale
        kernel = opencl().Kernel(program, "copy")
        source, target = self._buffer(size), self._buffer(size)
        vectors = size // scale.vector_bytes
        chunk = min(scale.chunk, max(vectors // _CACHED_ITEMS, 1))
        kernel.set_args(source, target, np.int32(chunk))
        items = vectors // chunk
        return 2.0 * size / self._time(lambda: self._launch(kernel, items, scale.group))

    def _cache(self, program: Any, bandwidth: float) -> tuple[int, float]:
        """How many bytes a CPU keeps between kernels, and how much faster it copies them.

        A size is kept if its copy is nearer to the fastest one than to that of large buffers.
        """
        if self._kind != "cpu":
            return 0, 1.0
        speeds = {size: self._bandwidth(program, size) for size in _CACHED_SIZES}
        gain = max(*speeds.values(), bandwidth) / bandwidth
        kept = [2 * size for size, speed in speeds.items() if speed >= gain**0.5 * bandwidth]
        return max(kept, default=0), gain

    def _launch_cost(self, program: Any) -> float:
        """Seconds from one launch of an empty kernel to the next."""
        kernel = opencl().Kernel(program, "empty")
        target = self._buffer(4096)
        kernel.set_args(target)

        items = 4 * self._units * self._scale.group

        def enqueue() -> None:
            for _ in range(_LAUNCHES):
                self._launch(kernel, items, self._scale.group)

        return self._time(enqueue) / _LAUNCHES

    def _rate(self, program: Any, scalar: str, number: type[np.floating[Any]]) -> float:
        """Operations per second of independent chains of fused multiply-adds."""
        scale = self._scale
        lanes = _LANES[self._kind][scalar]
        kernel = opencl().Kernel(program, f"rate_{scalar}")
        items = scale.items * self._units
        target = self._buffer(items * lanes * np.dtype(number).itemsize)
        kernel.set_args(target, number(0.997), number(0.003), np.int32(scale.steps))
        seconds = self._time(lambda: self._launch(kernel, items, scale.group))
        return 2.0 * items * scale.steps * _CHAINS * lanes / seconds
