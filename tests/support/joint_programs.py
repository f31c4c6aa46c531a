"""Many kernels as one program: to start, a driver's compiler takes as long as for ten kernels.

In: kernels that each have a name of their own. Out: their signatures, each with the program of all.
"""

from collections.abc import Sequence
from dataclasses import replace

from mgn.codegen.opencl import opencl
from mgn.codegen.signature import KernelSignature
from mgn.codegen.spirv.spirv import module_bytes
from mgn.dialects.kernel import Device, FuncOp
from mgn.modules.verification import verify_whole
from mgn.passes.convert_kernel_to_spirv import convert, entry_point_name
from mgn.runtime.launching.joint_programs import joined
from mgn.runtime.launching.ptx import needs_completion


def opencl_signatures(funcs: Sequence[FuncOp], devices: Sequence[Device]) -> list[KernelSignature]:
    """Kernels in OpenCL C, a program for each vendor, whose functions have other texts.

    Those that are completed in their PTX keep programs of their own.
    """
    signatures = list(map(opencl.signature, funcs, devices))
    whole = [not needs_completion(item.source) for item in signatures]
    texts: dict[str, list[str]] = {}
    for item, device, joins in zip(signatures, devices, whole, strict=True):
        if joins:
            texts.setdefault(device.vendor, []).append(item.source)
    programs = {vendor: joined(sources) for vendor, sources in texts.items()}
    return [
        replace(item, source=programs[device.vendor]) if joins else item
        for item, device, joins in zip(signatures, devices, whole, strict=True)
    ]


def spirv_signatures(funcs: Sequence[FuncOp], devices: Sequence[Device]) -> list[KernelSignature]:
    """Kernels as entry points of a SPIR-V module, which has been verified."""
    module = convert(funcs, devices[0])
    verify_whole(module)
    words = module_bytes(module)
    return [
        KernelSignature(
            name=entry_point_name(func),
            source="",
            global_size=func.global_sizes,
            local_size=func.local_sizes,
            arguments=opencl.kernel_arguments(func),
            il=words,
        )
        for func in funcs
    ]
