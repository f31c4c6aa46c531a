"""Kernels to SPIR-V: `convert.py` is the pass, the other files its rows and what they build on."""

from mgn.passes.convert_kernel_to_spirv.convert import (
    ROWS,
    ConvertKernelToSpirvPass,
    convert,
    entry_point_name,
)
from mgn.passes.convert_kernel_to_spirv.converter import ConversionError

__all__ = ["ROWS", "ConversionError", "ConvertKernelToSpirvPass", "convert", "entry_point_name"]
