"""SPIR-V of kernels: the binary, and all that a launch needs.

In: a `spirv.module` that `convert-kernel-to-spirv` made of a `kernel.func`. Out: its words
(`module_bytes`), or the words with the launch (`signature`).
"""

from mgn.codegen.opencl.opencl import kernel_arguments
from mgn.codegen.signature import KernelSignature
from mgn.codegen.spirv.error import SpirvError
from mgn.codegen.spirv.reader import deserialise
from mgn.codegen.spirv.writer import serialise
from mgn.dialects.kernel import FuncOp, LocalAllocOp, element_bytes
from mgn.dialects.spirv import ModuleOp

__all__ = ["SpirvError", "deserialise", "entry_points", "module_bytes", "signature"]


def module_bytes(module: ModuleOp) -> bytes:
    """The module as a SPIR-V binary."""
    return serialise(module)


def entry_points(module: ModuleOp) -> list[str]:
    """The names of the kernels in a module."""
    return [
        str(operation.literals[1])
        for operation in module.instructions
        if operation.row.name == "OpEntryPoint"
    ]


def signature(func: FuncOp, module: ModuleOp) -> KernelSignature:
    """The launch of a kernel, whose only entry point the module is."""
    (name,) = entry_points(module)
    allocations = [item.memref.type for item in func.walk() if isinstance(item, LocalAllocOp)]
    return KernelSignature(
        name=name,
        source="",
        global_size=func.global_sizes,
        local_size=func.local_sizes,
        arguments=kernel_arguments(func),
        local_memory=sum(
            type.get_shape()[0] * element_bytes(type.element_type) for type in allocations
        ),
        il=module_bytes(module),
    )
