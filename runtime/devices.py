"""Find the OpenCL devices of this machine and choose one.

In: a selector (`auto`, `cpu`, `gpu`, `platform:device`, or part of a device's name). Out: a
`ComputeDevice`, or a `DeviceError` that says what can be done.
"""

import re
import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any

from mgn.runtime.errors import DeviceError
from mgn.runtime.icd import (
    INTEL_PACKAGE,
    expose_drivers,
    find_intel_library,
    settle_variables,
)
from mgn.runtime.invokers import share_invokers
from mgn.version import DISTRIBUTION

_KIND_ORDER = ("gpu", "accelerator", "cpu")
_INDEX = re.compile(r"\d+:\d+")


@dataclass(frozen=True)
class ComputeDevice:
    """One OpenCL device: `index` is its selector, `handle` pyopencl's object."""

    index: str
    name: str
    kind: str
    platform: str
    driver: str
    handle: Any

    @property
    def identity(self) -> str:
        """What must be equal for a cached binary to be used again."""
        return f"{self.platform}/{self.name}/{self.driver}/{self.handle.version}"

    @property
    def measured_identity(self) -> str:
        """What must be equal for a measured figure to be used again. A process that may use fewer
        cores has a slower device.
        """
        return f"{self.identity}/{self.handle.max_compute_units}"

    @property
    def accepts_spirv(self) -> bool:
        """Whether the device builds programs from SPIR-V 1.0, the version that is written."""
        try:
            versions: str = self.handle.il_version
        except opencl().Error:  # a driver older than OpenCL 2.1 does not know the question
            return False
        return "SPIR-V_1." in versions

    @property
    def rounds_divisions(self) -> bool:
        """Whether programs in OpenCL C may ask for correctly rounded quotients and roots in f32."""
        flag = opencl().device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
        return bool(self.handle.single_fp_config & flag)

    def __str__(self) -> str:
        return f"{self.index}  {self.kind:<4} {self.name} ({self.platform}, driver {self.driver})"


@cache
def opencl() -> Any:
    """The pyopencl module, imported with every installed driver made visible to it."""
    expose_drivers()
    settle_variables()
    import pyopencl

    warnings.filterwarnings("ignore", category=pyopencl.CompilerWarning)
    share_invokers()
    return pyopencl


def list_devices() -> list[ComputeDevice]:
    """Every usable device, in the order of the platforms; empty where there is none."""
    cl = opencl()
    kinds = {
        cl.device_type.CPU: "cpu",
        cl.device_type.GPU: "gpu",
        cl.device_type.ACCELERATOR: "accelerator",
    }
    found: list[ComputeDevice] = []
    for i, platform in enumerate(_platforms(cl)):
        for j, handle in enumerate(_devices_of(cl, platform)):
            kind = next((text for bit, text in kinds.items() if handle.type & bit), "other")
            found.append(
                ComputeDevice(
                    index=f"{i}:{j}",
                    name=handle.name.strip(),
                    kind=kind,
                    platform=platform.name.strip(),
                    driver=handle.driver_version.strip(),
                    handle=handle,
                )
            )
    return found


def choose(selector: str = "auto", place: int = 0) -> ComputeDevice:
    """The device that a selector names; `auto` prefers a GPU. DeviceError where there is none.

    Of several of a kind and a platform, the one at a `place`, in turn: processes that share a
    machine take one each.
    """
    devices = list_devices()
    if not devices:
        raise DeviceError(_nothing_found())
    wanted = selector.strip()
    matching = _matching(devices, wanted)
    if matching:
        best = min(matching, key=_preference)
        same = [
            item for item in matching if (item.kind, item.platform) == (best.kind, best.platform)
        ]
        return same[place % len(same)]
    listing = "\n".join(f"  {device}" for device in devices)
    raise DeviceError(
        f"no OpenCL device matches '{wanted}'; a selector is auto, cpu, gpu, an index such as "
        f"{devices[0].index}, or part of a name. The devices here are:\n{listing}"
    )


def _matching(devices: list[ComputeDevice], wanted: str) -> list[ComputeDevice]:
    lowered = wanted.lower()
    if lowered in ("", "auto"):
        return devices
    if lowered in ("cpu", "gpu"):
        return [device for device in devices if device.kind == lowered]
    if _INDEX.fullmatch(wanted):
        return [device for device in devices if device.index == wanted]
    named = [device for device in devices if device.name.lower() == lowered]
    return named or [
        device
        for device in devices
        if lowered in device.name.lower() or lowered in device.platform.lower()
    ]


def _preference(device: ComputeDevice) -> int:
    return _KIND_ORDER.index(device.kind) if device.kind in _KIND_ORDER else len(_KIND_ORDER)


def _platforms(cl: Any) -> list[Any]:
    try:
        return list(cl.get_platforms())
    except cl.Error:
        return []


def _devices_of(cl: Any, platform: Any) -> list[Any]:
    try:
        return [device for device in platform.get_devices() if device.available]
    except cl.Error:
        return []


def _nothing_found() -> str:
    if find_intel_library() is None:
        return (
            f"there is no OpenCL device on this machine; `pip install '{DISTRIBUTION}[cpu]'` "
            "installs one that runs on the processor, without root"
        )
    return (
        f"there is no OpenCL device on this machine although {INTEL_PACKAGE} is installed; it "
        f"needs its sibling with the vector maths: `pip install '{DISTRIBUTION}[cpu]'` installs "
        "both. Where OCL_ICD_VENDORS is set, unset it to let mgn find the drivers by itself"
    )
