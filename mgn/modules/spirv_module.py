"""The SPIR-V of a whole program: as one module, as words, as assembly, and read back.

In: a module that holds a `spirv.module`, or kernels; or a binary. Out: text or bytes.
"""

from xdsl.dialects.builtin import ModuleOp

from mgn.diagnostics import Diagnostic, DiagnosticsError, MgnError
from mgn.dialects import spirv


def spirv_words(module: ModuleOp) -> bytes:
    """The program's SPIR-V binary."""
    from mgn.codegen.spirv.spirv import module_bytes

    return module_bytes(_spirv_module(module))


def spirv_assembly(module: ModuleOp) -> str:
    """The program's SPIR-V as `spirv-as` reads it."""
    from mgn.codegen.spirv.assembly import assembly

    return assembly(_spirv_module(module))


def read_spirv(data: bytes, name: str) -> str:
    """A SPIR-V binary as MLIR text. DiagnosticsError where it is damaged or not understood."""
    from mgn.modules.mlir_text import print_mlir

    return print_mlir(read_spirv_module(data, name))


def read_spirv_module(data: bytes, name: str) -> ModuleOp:
    """A SPIR-V binary as a module, not verified. DiagnosticsError as of `read_spirv`."""
    from mgn.codegen.spirv.spirv import SpirvError, deserialise

    try:
        return ModuleOp([deserialise(data)])
    except SpirvError as error:
        raise DiagnosticsError([Diagnostic(str(error), name)]) from None


def _spirv_module(module: ModuleOp) -> spirv.ModuleOp:
    """The only `spirv.module` of a program, or one made of its kernels."""
    from mgn.dialects.kernel import Device, FuncOp
    from mgn.modules.verification import verify_whole
    from mgn.passes.convert_kernel_to_spirv import convert

    operations = list(module.body.block.ops)
    modules = [op for op in operations if isinstance(op, spirv.ModuleOp)]
    if len(modules) > 1:
        raise MgnError("the program holds several spirv.module; a binary holds one")
    if modules:
        return modules[0]
    kernels = [op for op in operations if isinstance(op, FuncOp)]
    if not kernels:
        raise MgnError("the program has no kernels yet; -p default brings it there")
    converted = convert(kernels, Device.of(module))
    verify_whole(converted)
    return converted
