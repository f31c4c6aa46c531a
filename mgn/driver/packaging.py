"""From a program to a package: what a file that runs without the compiler holds.

In: an xDSL module of one graph and a device's description. Out: a `Package` with every kernel as
SPIR-V and as OpenCL C, the first values of states, and no parameters yet; no OpenCL was touched.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from mgn.codegen.launch_plan import BufferKind, BufferPlan, LaunchPlan
from mgn.codegen.signature import KernelSignature
from mgn.dialects.kernel import Device, FuncOp
from mgn.driver.compilation import Compiled, compile_graph
from mgn.driver.kernel_targets import kernel_signature
from mgn.driver.residency import residing
from mgn.modules.initialisers import initial_value
from mgn.runtime.host_arrays import as_bytes
from mgn.runtime.packages.format import Package, PackagedKernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mgn.driver.pipelines import Step
    from mgn.passes.saturate import SaturateOptions


def package_graph(
    module: ModuleOp,
    device: Device,
    precision: str = "f32",
    saturation: "SaturateOptions | None" = None,
    pipeline: "Sequence[Step] | None" = None,
    memory: int | None = None,
) -> Package:
    """The package of a graph, which is changed in place. It takes any parameters. Each kernel is a
    launch of its own: whoever loads it may have fewer groups at once.
    """
    from mgn.passes.saturate import SaturateOptions

    saturation = replace(saturation or SaturateOptions(), moderate=False)
    compiled = compile_graph(
        module,
        residing(device, "off"),
        saturation=saturation,
        precision=precision,
        pipeline=pipeline,
        memory=memory,
    )
    functions = {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, FuncOp)}
    kernels = {
        name: PackagedKernel(source, _spirv(functions[name], device))
        for name, source in compiled.kernels.items()
    }
    return Package(_with_first_values(compiled), kernels, {}, device.name)


def _with_first_values(compiled: Compiled) -> LaunchPlan:
    """The plan with what its states begin with; none where that is all zeros."""
    buffers: list[BufferPlan] = []
    for buffer in compiled.plan.buffers:
        first = None
        if buffer.kind is BufferKind.STATE:
            first = initial_value(compiled.states[buffer.name], 0)
        begins = first is not None and any(as_bytes(first))
        buffers.append(replace(buffer, value=first) if begins else buffer)
    return replace(compiled.plan, buffers=tuple(buffers))


def _spirv(func: FuncOp, device: Device) -> KernelSignature | None:
    """A kernel as SPIR-V; None for one that is made for a device which takes none."""
    from mgn.passes.convert_kernel_to_spirv import ConversionError

    try:
        return kernel_signature(func, device, "spirv")
    except ConversionError:
        return None
