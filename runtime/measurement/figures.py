"""What a device can do: the figures that the compiler's prices and schedules come from.

In: a `ComputeDevice`. Out: a dictionary with the fields of `mgn.dialects.kernel.Device`. What the
driver and the system tell is asked; bandwidth, rates and the cost of a launch are measured for each
device and driver, and kept on disk. `MGN_DEVICE_FIGURES` names a JSON file whose entries win over
both.
"""

import hashlib
import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from mgn.diagnostics import one_line
from mgn.runtime.devices import ComputeDevice, opencl
from mgn.runtime.errors import DeviceError
from mgn.runtime.host_arrays import DTYPES, nearest, shown
from mgn.runtime.location import FIGURES_VARIABLE, cache_folder, keep_file, kept_file
from mgn.runtime.measurement.barriers import barrier_seconds
from mgn.runtime.measurement.caches import cache_sizes
from mgn.runtime.measurement.matrix_figures import matrix_unit
from mgn.runtime.measurement.speeds import MEASURED, ROUNDS, Speeds, add_rounds, source
from mgn.tasks import task

_VERSION = 7
_MOST_BYTES = 1 << 16
"""No file of speeds is longer."""
_VENDORS = ("intel", "nvidia", "amd", "pocl", "apple", "arm", "qualcomm")

MOST_ROUNDS = 4 * ROUNDS
"""After how many rounds of measurements the best speeds are taken though they were not met twice.
"""

SETTLING_SECONDS = 60.0
"""How long such speeds are used before there are more rounds: what was loaded may be idle then."""


def describe(device: ComputeDevice, *, measure: bool = True, again: bool = False) -> dict[str, Any]:
    """The figures of a device; `again` measures though that was done before.

    Without `measure` it gives only what is known without a kernel.
    """
    figures = probe(device)
    if measure:
        speeds = _speeds(device, figures, again)
        figures |= speeds.figures(figures["kind"])
        figures["barrier_cost"] = barrier_seconds(device, again)
    return _with_overrides(figures)


def probe(device: ComputeDevice) -> dict[str, Any]:
    """What the driver says of a device; all fields but those that are measured."""
    handle = device.handle
    extensions = set(handle.extensions.split())
    is_cpu = device.kind == "cpu"
    return {
        "name": device.name,
        "kind": "cpu" if is_cpu else "gpu",
        "vendor": _vendor(handle, is_cpu),
        "compute_units": handle.max_compute_units,
        "vector_bits": 32 * max(handle.native_vector_width_float, 1) if is_cpu else 128,
        "local_memory": handle.local_mem_size,
        "max_work_group_size": handle.max_work_group_size,
        "sub_group_size": 1 if is_cpu else _sub_group_size(handle, extensions),
        "global_memory": handle.global_mem_size,
        "has_fp16": "cl_khr_fp16" in extensions,
        "has_fp64": bool(handle.double_fp_config),
        "matrix_unit": matrix_unit(handle),
        **cache_sizes(handle, is_cpu),
    }


def _vendor(handle: Any, is_cpu: bool) -> str:
    """Whose compiler it is; PoCL calls a processor's maker the vendor."""
    if is_cpu and "portable computing" in handle.platform.name.lower():
        return "pocl"
    vendor = handle.vendor.lower()
    return next((name for name in _VENDORS if name in vendor), "other")


def _sub_group_size(handle: Any, extensions: set[str]) -> int:
    cl = opencl()
    if "cl_nv_device_attribute_query" in extensions:
        return int(handle.warp_size_nv)
    try:
        context = cl.Context([handle])
        program = cl.Program(context, source("gpu", False)).build(cache_dir=False)
        kernel = cl.Kernel(program, "empty")
        info = cl.kernel_work_group_info.PREFERRED_WORK_GROUP_SIZE_MULTIPLE
        return int(kernel.get_work_group_info(info, handle))
    except cl.Error:
        return 32


def _speeds(device: ComputeDevice, figures: dict[str, Any], again: bool) -> Speeds:
    """The speeds on disk, where they are; else, or where they are in doubt, measured ones.

    Processes that measure at the same time all take those that are on disk first: ranks of one run,
    and two compilations of one program, choose kernels by them.
    """
    root = cache_folder()
    name = hashlib.sha256(f"{_VERSION} {device.measured_identity}".encode()).hexdigest()[:32]
    path = None if root is None else root / "devices" / f"{name}.json"
    known = None if again or path is None else _read(path)
    if known is not None and path is not None and not _in_doubt(known, path):
        return known
    speeds = known or Speeds()
    try:
        with task("measure", f"measuring {device.name}, for this and later runs"):
            add_rounds(device.handle, figures, speeds)
    except opencl().Error as error:
        raise DeviceError(f"{device.name} cannot run a kernel: {error}") from None
    if path is None:
        return speeds
    first = None if again or known is not None else _read(path)
    if first is None:
        keep_file(path, json.dumps(asdict(speeds), indent=2).encode())
    return first or speeds


def _in_doubt(speeds: Speeds, path: Path) -> bool:
    """Whether speeds that were not met twice are old enough to be measured again."""
    if speeds.agree or speeds.rounds >= MOST_ROUNDS:
        return False
    try:
        return not 0.0 <= time.time() - path.stat().st_mtime < SETTLING_SECONDS
    except OSError:  # another process took it away
        return True


def _read(path: Path) -> Speeds | None:
    """The speeds of a file that is whole; None for any other content."""
    content = kept_file(path, _MOST_BYTES)
    return None if content is None else speeds_of(content)


def speeds_of(content: bytes) -> Speeds | None:
    """The speeds that a file's content says; None where it is none that mgn wrote."""
    try:
        data: Any = json.loads(content)
        best, second = dict[str, Any](data["best"]), dict[str, Any](data["second"])
        rounds = data["rounds"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
    whole = {"f32", "copy", "launches"} <= best.keys() == second.keys() <= MEASURED
    if not whole or type(rounds) is not int or rounds < 1:
        return None
    if not all(map(_positive, best.values())) or not all(map(_finite, second.values())):
        return None
    return Speeds(best, second, rounds)


def _positive(number: Any) -> bool:
    return isinstance(number, float) and 1e-30 < number < 1e30


def _finite(number: Any) -> bool:
    return isinstance(number, float) and 0.0 <= number < 1e30


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
    known |= {"rates": {}, "matrix_rates": {}, "function_share": 1.0, **figures}
    merged = dict(figures)
    for name, value in overrides().items():
        if name not in known:
            raise DeviceError(
                f"{FIGURES_VARIABLE}: no figure {shown(name)}{nearest(name, [*known])}"
            )
        if name in ("rates", "matrix_rates") and isinstance(value, dict):
            rates = cast(dict[str, Any], value)
            for element in rates.keys() - _RATED[name]:
                hint = nearest(element, _RATED[name])
                raise DeviceError(
                    f"{FIGURES_VARIABLE}: no figure {shown(f'{name}.{element}')}{hint}"
                )
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
        said = one_line(json.dumps(value))
        raise DeviceError(f"{FIGURES_VARIABLE}: {name} must be {wanted}, not {said}")
    choices = _CHOICES.get(name, (value,))
    if value not in choices:
        listed = ", ".join(map(str, choices))
        raise DeviceError(
            f"{FIGURES_VARIABLE}: {name} is one of {listed}, not {one_line(str(value))}"
        )
    return value
