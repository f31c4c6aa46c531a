"""The error of the SPIR-V reader and writer."""

from mgn.codegen.opencl.writer import CodegenError


class SpirvError(CodegenError):
    """A binary, or a module on its way to one, is wrong at a place: `offset` counts bytes."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(f"SPIR-V at byte {offset}: {message}")
        self.offset = offset
