"""`convert-kernel-to-spirv`: kernels become one SPIR-V module.

In:

    kernel.func @double(%x : memref<16xf32>, %y : memref<16xf32>) access [read, write]
        global [16, 1, 1] local [16, 1, 1] {
      %i = kernel.global_id 0
      %v = memref.load %x[%i] : memref<16xf32>
      %w = arith.addf %v, %v : f32
      memref.store %w, %y[%i] : memref<16xf32>
      kernel.return
    }

Out:

    spirv.module version 1.0 {
      OpCapability Addresses
      …
      OpEntryPoint Kernel, %double, "double"
      OpExecutionMode %double, LocalSize, 16, 1, 1
      OpExecutionMode %double, ContractionOff
      …
      %double = OpFunction %void, None, %type
      %x = OpFunctionParameter %pointer
      …
      %w = OpFAdd %float, %v, %v
      OpStore %address, %w, Aligned, 4
      OpReturn
      OpFunctionEnd
    }
"""

import re
from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from mgn.dialects import spirv
from mgn.dialects.kernel import Access, Device, FuncOp, needs_wide_index
from mgn.passes.convert_kernel_to_spirv.arithmetic import ARITHMETIC_ROWS
from mgn.passes.convert_kernel_to_spirv.comparisons import COMPARISON_ROWS
from mgn.passes.convert_kernel_to_spirv.control import CONTROL_ROWS
from mgn.passes.convert_kernel_to_spirv.conversions import CONVERSION_ROWS
from mgn.passes.convert_kernel_to_spirv.converter import Converter, Row
from mgn.passes.convert_kernel_to_spirv.library import Library
from mgn.passes.convert_kernel_to_spirv.memory import MEMORY_ROWS, pointer_type
from mgn.passes.convert_kernel_to_spirv.module_builder import VOID, ModuleBuilder, member

ROWS: dict[type[Operation], Row] = {
    **ARITHMETIC_ROWS,
    **COMPARISON_ROWS,
    **CONVERSION_ROWS,
    **MEMORY_ROWS,
    **CONTROL_ROWS,
}
"""The whole conversion: a class of operation → its instructions."""


class ConvertKernelToSpirvPass(ModulePass):
    """All kernels of a module become one `spirv.module` with an entry point for each.

    The kernels themselves stay where something else, such as a plan's launches, may name them.
    """

    name = "convert-kernel-to-spirv"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernels = [item for item in op.body.block.ops if isinstance(item, FuncOp)]
        if not kernels:
            return
        module = convert(kernels, Device.of(op))
        op.body.block.insert_op_before(module, kernels[0])
        if len(op.body.block.ops) > len(kernels) + 1:
            return
        for kernel in kernels:
            kernel.detach()
            kernel.erase()


def convert(kernels: Sequence[FuncOp], device: Device | None = None) -> spirv.ModuleOp:
    """The SPIR-V module of kernels. ConversionError where an operation has no form there."""
    builder = ModuleBuilder()
    library = Library(builder)
    for kernel in kernels:
        _convert_kernel(kernel, builder, library, device or _device_of(kernel))
    return builder.finish()


def entry_point_name(kernel: FuncOp) -> str:
    """The name by which a kernel is found in its module: a word that no function of OpenCL has."""
    name = re.sub(r"\W", "_", kernel.sym_name.data)
    name = name if re.match(r"[A-Za-z]", name) else f"v{name}"
    return f"{name}_" if name in spirv.OPENCL_STD or name == "main" else name


def _convert_kernel(
    kernel: FuncOp, builder: ModuleBuilder, library: Library, device: Device
) -> None:
    converter = Converter(ROWS, builder, library, device, 64 if needs_wide_index(kernel) else 32)
    parameters = [
        pointer_type(converter, argument.type)
        for argument in kernel.arguments
        if isinstance(argument.type, MemRefType)
    ]
    name = entry_point_name(kernel)
    with builder.function(name, builder.type(VOID), parameters, inline=False) as (function, values):
        for argument, access, value in zip(kernel.arguments, kernel.accesses, values, strict=True):
            converter.set(argument, value)
            if argument.name_hint is not None:
                builder.name(value, argument.name_hint)
            if kernel.noalias is not None:
                builder.decorate(value, "FuncParamAttr", _attribute("NoAlias"))
            if access is Access.READ:
                builder.decorate(value, "FuncParamAttr", _attribute("NoWrite"))
        converter.block(kernel.body.block)
        builder.emit_operation("OpReturn")
    builder.entry_point(function, name, kernel.local_sizes)


def _attribute(name: str) -> int:
    return member("FunctionParameterAttribute", name)


def _device_of(kernel: FuncOp) -> Device:
    module = kernel.parent_op()
    return Device.of(module if isinstance(module, ModuleOp) else ModuleOp([]))
