"""The ways out of the `kernel` dialect to a device: OpenCL C and SPIR-V.

In: a `kernel.func`, a device's description and a target's name. Out: the kernel's signature, with
its program in the target's form.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from mgn.codegen.signature import KernelSignature
from mgn.diagnostics import MgnError
from mgn.dialects.kernel import Device, FuncOp, PrefetchOp
from mgn.dialects.plan.resident import ResidentOp
from mgn.dialects.plan.steps import KernelCallOp

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from mgn.dialects.plan import ProgramOp
    from mgn.runtime.devices import ComputeDevice


def _opencl(func: FuncOp, device: Device) -> KernelSignature:
    from mgn.codegen.opencl.opencl import signature

    return signature(func, device)


def _spirv(func: FuncOp, device: Device) -> KernelSignature:
    from mgn.codegen.spirv.spirv import signature
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


def stage_signatures(module: "ModuleOp", device: Device) -> dict[str, KernelSignature]:
    """The kernels of a module's resident launches, each as if it was launched alone."""
    stages = {
        stage.kernel_name
        for op in module.walk()
        if isinstance(op, ResidentOp)
        for stage in op.stages
    }
    return {
        op.sym_name.data: _opencl(op, device)
        for op in module.body.block.ops
        if isinstance(op, FuncOp) and op.sym_name.data in stages
    }


def plan_signatures(
    module: "ModuleOp", program: "ProgramOp", device: Device, target: str
) -> dict[str, KernelSignature]:
    """What a plan launches, by name. A resident launch is OpenCL C on every target: SPIR-V has no
    barrier of the whole device.
    """
    from mgn.codegen.opencl.resident import resident_signature

    functions = {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, FuncOp)}
    stages = {stage.kernel_name for op in program.residents for stage in op.stages}
    alone = {op.kernel_name for op in program.body.block.ops if isinstance(op, KernelCallOp)}
    kernels = {
        name: kernel_signature(function, device, target)
        for name, function in functions.items()
        if name in alone or name not in stages
    }
    for op in program.residents:
        kernels[op.sym_name.data] = resident_signature(op, functions, device)
    return kernels


def choose_target(wanted: str, device: "ComputeDevice") -> str:
    """The target for a device. MgnError where it is unknown, or the device does not take it."""
    if wanted not in CHOICES:
        raise MgnError(f"unknown target '{wanted}'; there are {', '.join(CHOICES)}")
    if wanted == "auto":
        return "mixed" if device.kind == "cpu" and device.accepts_spirv else "opencl"
    if wanted == "spirv" and not device.accepts_spirv:
        raise MgnError(f"{device.name} takes no SPIR-V; the target opencl works everywhere")
    return wanted
