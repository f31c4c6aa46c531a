"""The `spirv` dialect: one operation is one instruction of SPIR-V 1.0 to 1.4 for OpenCL.

    spirv.module version 1.0 {
      OpCapability Addresses
      %opencl = OpExtInstImport "OpenCL.std"
      OpMemoryModel Physical64, OpenCL
      OpEntryPoint Kernel, %double, "double"
      OpExecutionMode %double, LocalSize, 16, 1, 1
      %float = OpTypeFloat 32
      …
      %sum = OpFAdd %float, %a, %b
    }

Ids are values of type `!spirv.id`, types and labels among them. `table.py` lists the instructions,
`enums.py` the enumerations, `opencl_std.py` the functions of `OpExtInst`; classes, text, words and
checks are made from these.
"""

from xdsl.ir import Dialect

from mgn.dialects.spirv.enums import ENUMS
from mgn.dialects.spirv.instruction import (
    ID,
    IdType,
    InstructionOp,
    LiteralsAttr,
    defining,
    type_of,
)
from mgn.dialects.spirv.module import ModuleOp
from mgn.dialects.spirv.opencl_std import OPENCL_STD
from mgn.dialects.spirv.operations import OPERATIONS, instruction
from mgn.dialects.spirv.table import BY_OPCODE, INSTRUCTIONS

Spirv = Dialect("spirv", [ModuleOp, *OPERATIONS.values()], [IdType, LiteralsAttr])

__all__ = [
    "BY_OPCODE",
    "ENUMS",
    "ID",
    "INSTRUCTIONS",
    "OPENCL_STD",
    "OPERATIONS",
    "IdType",
    "InstructionOp",
    "LiteralsAttr",
    "ModuleOp",
    "Spirv",
    "defining",
    "instruction",
    "type_of",
]
