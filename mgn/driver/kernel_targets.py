"""The ways out of the `kernel` dialect to a device: OpenCL C and SPIR-V.

In: a `kernel.func`, a device's description and a target's name. Out: the kernel's signature, with
its program in the target's form.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from mgn.codegen.signature import KernelSignature
from mgn.diagnostics import MgnError
from mgn.dialects.kernel import Device, FuncOp, PrefetchOp

if TYPE_CHECKING:
    from mgn.runtime.devices import ComputeDevice


def _opencl(func: FuncOp, device: Device) -> KernelSignature:
    from mgn.codegen.opencl import signature

    return signature(func, device)


def _spirv(func: FuncOp, device: Device) -> KernelSignature:
    from mgn.codegen.spirv import signature
    from mgn.passes.convert_kernel_to_spirv import convert

    return signature(func, convert([func], device))


def _mixed(func: FuncOp, device: Device) -> KernelSignature:
    """SPIR-V, which is built in half the time; OpenCL C where the kernel has hints, which SPIR-V
    cannot give to Intel's CPU compiler.
    """
    has_hints = any(isinstance(op, PrefetchOp) for op in func.walk())
    return _opencl(func, device) if has_hints else _spirv(func, device)


KERNEL_TARGETS: dict[str, Callable[[FuncOp, Device], KernelSignature]] = {
    "opencl": _opencl,
    "spirv": _spirv,
    "mixed": _mixed,
}
"""Targets by name."""

CHOICES = ("opencl", "spirv", "auto")
"""What a user may ask for."""


def kernel_signature(func: FuncOp, device: Device, target: str) -> KernelSignature:
    """A kernel for a device in the form of a target."""
    return KERNEL_TARGETS[target](func, device)


def choose_target(wanted: str, device: "ComputeDevice") -> str:
    """The target for a device. MgnError where it is unknown, or the device does not take it."""
    if wanted not in CHOICES:
        raise MgnError(f"unknown target '{wanted}'; there are {', '.join(CHOICES)}")
    if wanted == "auto":
        return "mixed" if device.kind == "cpu" and device.accepts_spirv else "opencl"
    if wanted == "spirv" and not device.accepts_spirv:
        raise MgnError(f"{device.name} takes no SPIR-V; the target opencl works everywhere")
    return wanted
