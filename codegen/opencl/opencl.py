"""OpenCL C from the `kernel` dialect: one self-contained program for each `kernel.func`.

In: a `kernel.func` that verifies. Out: the program's text (`emit`), or the text with all that a
launch needs (`signature`). ROWS is the whole translation: a class of operation → its text.

```
__kernel __attribute__((reqd_work_group_size(16, 1, 1)))
void double_(const __global float* x, __global float* y)
{
    int i = get_global_id(0);
    float v = x[i];
    y[i] = v + v;
}
```
Build it without relaxed mathematics; where the device offers them, `BUILD_OPTIONS` make division
and square root exact.
"""

from collections.abc import Iterator, Mapping

from xdsl.dialects.builtin import Float64Type, MemRefType, ModuleOp, VectorType
from xdsl.ir import Attribute, Operation

from mgn.codegen.opencl.arithmetic import ARITHMETIC_ROWS
from mgn.codegen.opencl.c_types import CTypes
from mgn.codegen.opencl.control import CONTROL_ROWS
from mgn.codegen.opencl.conversions import CONVERSION_ROWS
from mgn.codegen.opencl.counts import COUNT_ROWS
from mgn.codegen.opencl.expression import Expression
from mgn.codegen.opencl.group import GROUP_ROWS
from mgn.codegen.opencl.matrix import MATRIX_ROWS
from mgn.codegen.opencl.memory import MEMORY_ROWS, declared_at_most
from mgn.codegen.opencl.writer import CodegenError, Row, Writer
from mgn.codegen.signature import KernelArgument, KernelSignature
from mgn.dialects.kernel import Access, Device, FuncOp, needs_wide_index
from mgn.dialects.kernel.lanes import element

__all__ = ["BUILD_OPTIONS", "ROWS", "CodegenError", "emit", "kernel_arguments", "signature"]

BUILD_OPTIONS = "-cl-fp32-correctly-rounded-divide-sqrt"
"""For devices whose single-precision capabilities include CORRECTLY_ROUNDED_DIVIDE_SQRT."""

ROWS: dict[type[Operation], Row] = {
    **ARITHMETIC_ROWS,
    **CONVERSION_ROWS,
    **MEMORY_ROWS,
    **CONTROL_ROWS,
    **COUNT_ROWS,
    **MATRIX_ROWS,
    **GROUP_ROWS,
}


def emit(func: FuncOp, device: Device | None = None) -> str:
    """The OpenCL C program of a kernel, for a device or else the one its module is compiled for."""
    return signature(func, device).source


def signature(func: FuncOp, device: Device | None = None) -> KernelSignature:
    """A kernel's program and launch. CodegenError where an operation has no text."""
    writer = Writer(ROWS, CTypes(needs_wide_index(func)), device or _device_of(func))
    writer.declared_at_most = declared_at_most(func)
    kernel_name = writer.fresh(func.sym_name.data)
    parameters = list(_parameters(func, writer))
    writer.block(func.body.block)
    if any(isinstance(element(type), Float64Type) for type in types_of(func)):
        writer.extensions.add("cl_khr_fp64")
    pragmas = "".join(
        f"#pragma OPENCL EXTENSION {extension} : enable\n"
        for extension in sorted(writer.extensions)
    )
    size = ", ".join(str(items) for items in func.local_sizes)
    lanes = f" __attribute__((intel_reqd_sub_group_size({writer.sub_group})))"
    attributes = f"__attribute__((reqd_work_group_size({size})))" + (
        lanes if writer.sub_group else ""
    )
    head = f"__kernel {attributes}\nvoid {kernel_name}("
    source = (
        f"{directives(writer.architecture, writer.enlarged)}{pragmas}"
        f"#pragma OPENCL FP_CONTRACT OFF\n\n{writer.library.text}"
        f"{head}{_broken(parameters)})\n{{\n{writer.text}}}\n"
    )
    return KernelSignature(
        name=kernel_name,
        source=source,
        global_size=func.global_sizes,
        local_size=func.local_sizes,
        arguments=kernel_arguments(func),
        local_memory=writer.local_memory,
    )


def directives(architecture: str, enlarged: Mapping[str, tuple[int, int]]) -> str:
    """What the runtime must know to complete the program in its PTX; empty for most programs."""
    if not architecture and not enlarged:
        return ""
    lines = ["#ifndef MGN_PTX", "#error this program is completed in its PTX", "#endif"]
    if architecture:
        lines.append(f"// ptx target {architecture}")
    for name, (declared, size) in enlarged.items():
        lines.append(f"// ptx shared {name} {declared} {size}")
    return "".join(f"{line}\n" for line in lines)


def _parameters(func: FuncOp, writer: Writer) -> Iterator[str]:
    restrict = "restrict " if func.noalias is not None else ""
    for argument, access in zip(func.arguments, func.accesses, strict=True):
        assert isinstance(argument.type, MemRefType)
        name = writer.fresh(argument.name_hint or "buffer")
        writer.set(argument, Expression(name))
        constant = "const " if access is Access.READ else ""
        memory = writer.types.memory(argument.type.element_type)
        yield f"{constant}__global {memory}* {restrict}{name}"


def _broken(parameters: list[str]) -> str:
    line = ", ".join(parameters)
    return line if len(line) < 88 else "\n    " + ",\n    ".join(parameters)


def kernel_arguments(func: FuncOp) -> tuple[KernelArgument, ...]:
    """What the runtime must know of a kernel's buffers."""
    return tuple(_arguments(func))


def _arguments(func: FuncOp) -> Iterator[KernelArgument]:
    for argument, access in zip(func.arguments, func.accesses, strict=True):
        assert isinstance(argument.type, MemRefType)
        name = str(argument.type.element_type)
        element_name = "bool" if name == "i1" else name
        yield KernelArgument(access.value, element_name, argument.type.get_shape()[0])


def _device_of(func: FuncOp) -> Device:
    module = func.parent_op()
    return Device.of(module if isinstance(module, ModuleOp) else ModuleOp([]))


def types_of(func: FuncOp) -> Iterator[Attribute]:
    """The type of every value in the kernel; a buffer counts as its elements."""
    for block in (
        block
        for operation in func.walk()
        for region in operation.regions
        for block in region.blocks
    ):
        for value in (*block.args, *(result for item in block.ops for result in item.results)):
            type = value.type
            yield type.element_type if isinstance(type, MemRefType | VectorType) else type
