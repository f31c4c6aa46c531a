"""The layout of a `.mgnpkg` file: a compiled graph that needs no compiler to run.

In: nothing. Out: the rows of the file's tables, and `Package`, which is what a file says. All of
the format is below; `writer.py` and `reader.py` follow it, and so does the reader in C of
`examples/embed_c`.

Numbers are little-endian: `u32`, `u64`. Places count bytes from the start of the file. A file is a
header, blocks of data (each at the next multiple of 64) and eight tables in the order of `TABLES`
(each at the next multiple of 8). Between them are zeros up to the next multiple. Nothing comes
after them. So it can be mapped into memory and read in place.

    header, 192 bytes
      0  magic "\\x89MGNPKG\\n"    8  u32 version, 3    12  u32 CRC-32 of all from byte 16 on
     16  u64 bytes of the file
     24  name of the graph        32  name of the device that it was compiled for
     40  u64 bytes of the arena   48  u64 bytes of all tensors   56  u64 least possible arena
     64  eight times: u64 place, u64 rows of a table

    strings      bytes: UTF-8 names, each followed by a zero byte
    dimensions   u64
    kernels      120 bytes: name, name of its entry point in SPIR-V, the same in OpenCL C,
                 u64 global size × 3, u64 local size × 3, u64 place and u64 bytes of the SPIR-V,
                 u64 place and u64 bytes of the OpenCL C, u64 bytes of local memory,
                 u32 first argument, u32 arguments
    arguments    16 bytes: u32 access, u32 element, u64 count
    buffers      40 bytes: u32 kind, u32 element, name, u32 first dimension, u32 dimensions,
                 u64 place, u64 bytes of its content
    operands     u32: a buffer's number
    steps        16 bytes: u32 kind, u32 kernel, u32 first operand, u32 operands
    outputs      24 bytes: name, u32 buffer, u32 element, u32 first dimension, u32 dimensions

A *name* is two `u32`: where it starts in the strings, and its bytes without the zero. Rows use
strings, dimensions, arguments, operands and blocks in order, one after the other. The names are
those of the graph, the device, the kernels, the buffers, the outputs. The dimensions are those of
the buffers, then the outputs. The blocks are each kernel's SPIR-V and OpenCL C, then the data of
the buffers.

- Codes: `ELEMENTS`, `ACCESSES`, `KINDS` and `STEPS` by their position. Elements of arguments are
  signless, those of buffers and outputs as the language has them; a bool is a byte, 0 or 1.
- A kernel has SPIR-V, OpenCL C, or both; 0 bytes at place 0 stands for none. An argument is a
  pointer to global memory that holds `count` elements.
- A buffer's *place* is that of its data. For a parameter it is 0 where the data is not embedded or
  has no bytes. For a state it is that of its first value, or 0 where that is all zeros. For a view
  it is the offset in the arena, for an input 0. Inputs, parameters and states are named as callers
  name them.
  Only views and states are written. A state keeps what a run leaves in it for the next run.
- A tensor has at most 32 dimensions and 2^48 elements, counting a dimension of 0 as 1; an arena at
  most 2^48 bytes.
- A step launches a kernel on its operands, or (kind 1, kernel 0) copies the first operand to the
  second. Steps run in order. The first ones may *prepare* (kind 2): they launch a kernel that reads
  parameters, constants and what was prepared before, and that writes derived buffers, each by one
  step. They run before the first run, and those that depend on a parameter again once it changes.
- An output is the content of a buffer after the last step.

The checksum finds damage, not malice: a package is a program, and its kernels do what they say.
"""

import struct
from dataclasses import dataclass

import numpy as np

from mgn.codegen.launch_plan import BufferKind, LaunchPlan
from mgn.codegen.signature import KernelSignature
from mgn.runtime.block_parameters import whole_types

MAGIC = b"\x89MGNPKG\n"
VERSION = 3
TABLE_ALIGNMENT = 8
BLOCK_ALIGNMENT = 64
MOST_DIMENSIONS = 32
MOST_BYTES = 1 << 48
"""The most that an arena may have, and the most elements of a tensor (counting 0 as 1)."""

CHECKED_FROM = 16
"""The place from which on the checksum counts."""

ELEMENTS = (
    *("f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8"),
    *("u32", "u16", "u8", "bool"),
)
ACCESSES = ("read", "write", "read_write")
KINDS = tuple(BufferKind)
STEPS = ("launch", "copy", "prepare")

START = struct.Struct("<8sII")
HEADER = struct.Struct("<Q4I3Q16Q")
TABLES = {
    "strings": struct.Struct("<B"),
    "dimensions": struct.Struct("<Q"),
    "kernels": struct.Struct("<6I11Q2I"),
    "arguments": struct.Struct("<IIQ"),
    "buffers": struct.Struct("<6I2Q"),
    "operands": struct.Struct("<I"),
    "steps": struct.Struct("<4I"),
    "outputs": struct.Struct("<6I"),
}
"""The tables in the order of the file, and their rows."""

TABLES_AT = 64
HEADER_BYTES = START.size + HEADER.size


@dataclass(frozen=True)
class PackagedKernel:
    """One kernel in each of the forms that there are; at least one is."""

    source: KernelSignature | None
    spirv: KernelSignature | None

    @property
    def launch(self) -> KernelSignature:
        """What is the same in both forms: sizes, arguments, local memory."""
        signature = self.source or self.spirv
        assert signature is not None
        return signature

    def form(self, spirv: bool) -> KernelSignature | None:
        """The form to build: SPIR-V where the device takes it and it is there, else the source."""
        return self.spirv if spirv and self.spirv is not None else self.source


@dataclass(frozen=True)
class Package:
    """What a file holds: the plan, its kernels, and the parameters that are embedded.

    `device` names what it was compiled for.
    """

    plan: LaunchPlan
    kernels: dict[str, PackagedKernel]
    parameters: dict[str, np.ndarray]
    device: str

    @property
    def expected(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Name to element and shape of every parameter, embedded or not."""
        planned = self.plan.of_kind(BufferKind.PARAM)
        return whole_types({buffer.name: (buffer.element, buffer.shape) for _, buffer in planned})


def aligned(place: int, alignment: int) -> int:
    """The next multiple of an alignment."""
    return -(-place // alignment) * alignment
