"""Rows of products by groups of 128 work-items: what the runtime turns into `wgmma`, and plain C.

OpenCL C compiles to PTX for a target that lacks these instructions. So they are comments in its
inline assembly, with their registers; the program's first lines say what its PTX needs. Whoever
builds it makes instructions of them (mgn/runtime/launching/ptx.py).
"""

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    MemRefType,
)
from xdsl.ir import Operation, SSAValue

from mgn.codegen.opencl import wgmma
from mgn.codegen.opencl.expression import Expression, call, offset
from mgn.codegen.opencl.matrix import halves, need_sub_groups
from mgn.codegen.opencl.writer import Row, Writer
from mgn.dialects import kernel

ARCHITECTURE = "sm_90a"
"""The target of PTX that has the instructions."""

_NUMBERS = {
    "bf16": (2, "as_float((uint)*(const __local ushort*)p << 16)"),
    "f16": (2, "vload_half(0, (const __local half*)p)"),
    "tf32": (4, "as_float(*(const __local uint*)p & 0xffffe000u)"),
}
"""What is multiplied → its bytes in local memory, and how plain C reads it."""


def _element(memory: SSAValue) -> str:
    assert isinstance(memory.type, MemRefType)
    type = memory.type.element_type
    if isinstance(type, Float32Type):
        return "tf32"
    return "f16" if isinstance(type, Float16Type) else "bf16"


def _begins(sums: Sequence[SSAValue]) -> bool:
    """Whether a product adds to nothing but zeros."""
    return all(
        isinstance(value.owner, arith.ConstantOp)
        and isinstance(value.owner.value, DenseIntOrFPElementsAttr)
        and not any(value.owner.value.get_values())
        for value in sums
    )


def _array(writer: Writer, values: Sequence[SSAValue]) -> str:
    name = writer.fresh("sums")
    content = ", ".join(str(writer.value(value)) for value in values)
    writer.line(f"float4 {name}[{len(values)}] = {{{content}}};")
    return name


def _group_mma(writer: Writer, operation: kernel.GroupMmaOp) -> None:
    name = _array(writer, operation.sums)
    pointer = writer.pointer(operation.memory)
    tiles = [offset(pointer, writer.value(index)) for index in (operation.left, operation.right)]
    function = _instruction if writer.vendor == "nvidia" else _loops
    function(writer, operation, name, tiles)
    for number, result in enumerate(operation.results_):
        writer.declare(result, Expression(f"{name}[{number}]"))


def _instruction(
    writer: Writer, operation: kernel.GroupMmaOp, name: str, tiles: list[Expression]
) -> None:
    fresh = _begins(operation.sums)
    element = _element(operation.memory)
    sizes = (operation.columns, operation.steps.value.data, operation.part_bytes)
    lines = wgmma.product(element, *sizes, fresh)
    _started(writer, lines, name, len(operation.sums), [_place(tile) for tile in tiles], fresh)


def _started(
    writer: Writer, lines: list[str], name: str, count: int, inputs: list[str], fresh: bool
) -> None:
    """A product's instructions as comments, with the registers that they are about."""
    writer.architecture = ARCHITECTURE
    writer.line("asm volatile(")
    _commented(writer, lines)
    _in_and_out(writer, name, count, "=" if fresh else "+")
    writer.line(f'    : {", ".join(inputs)} : "memory");')


def _place(tile: Expression) -> str:
    return f'"r"((uint)(size_t)({tile}))'


def _group_mma_held(writer: Writer, operation: kernel.GroupMmaHeldOp) -> None:
    name = _array(writer, operation.sums)
    tile = offset(writer.pointer(operation.memory), writer.value(operation.right))
    function = _held_instruction if writer.vendor == "nvidia" else _held_loops
    function(writer, operation, name, tile)
    for number, result in enumerate(operation.results_):
        writer.declare(result, Expression(f"{name}[{number}]"))


def _held_instruction(
    writer: Writer, operation: kernel.GroupMmaHeldOp, name: str, tile: Expression
) -> None:
    count, steps = len(operation.sums), len(operation.held)
    element, part = _element(operation.memory), operation.part.value.data
    lines = wgmma.held_product(element, 8 * count, steps, part)
    fragments = [writer.name_of(value) for value in operation.held]
    inputs = [f'"r"({fragment}.s{lane})' for fragment in fragments for lane in range(4)]
    _started(writer, lines, name, count, [*inputs, _place(tile)], False)


def _commented(writer: Writer, lines: list[str]) -> None:
    """Instructions as comments."""
    for line in lines:
        writer.line(f'    "// @ptx {line}\\n"')


def _in_and_out(writer: Writer, name: str, count: int, how: str = "+") -> None:
    """The lines of an instruction that say that it reads and writes an array of sums."""
    for number in range(count):
        end = "," if number + 1 < count else ""
        lanes = ", ".join(f'"{how}f"({name}[{number}].s{lane})' for lane in range(4))
        writer.line(f"    {':' if number == 0 else ' '} {lanes}{end}")


def _wait_products(writer: Writer, operation: kernel.WaitProductsOp) -> None:
    """Other devices have multiplied at once."""
    if writer.vendor != "nvidia":
        for value, result in zip(operation.sums, operation.results_, strict=True):
            writer.set(result, writer.value(value))
        return
    writer.line("asm volatile(")
    _commented(writer, wgmma.wait(operation.pending.value.data))
    writer.line('    ::: "memory");')
    if not operation.sums:
        return
    name = _array(writer, operation.sums)
    writer.line('asm volatile(""')  # no sum is read before the instruction above
    _in_and_out(writer, name, len(operation.sums))
    writer.line('    :: "memory");')
    for number, result in enumerate(operation.results_):
        writer.declare(result, Expression(f"{name}[{number}]"))


def _loops(
    writer: Writer, operation: kernel.GroupMmaOp, name: str, tiles: list[Expression]
) -> None:
    """The same, a number at a time, by each work-item for its own sums."""
    element = _element(operation.memory)
    bytes = _need_tile_number(writer, element)
    left, right = operation.part_bytes
    function = writer.library.add(
        f"group_mma_{element}",
        "void",
        "float4* sums, int count, int depth, const __local void* a, int part_a, "
        "const __local void* b, int part_b",
        "int lane = get_local_id(0) % 32, row = get_local_id(0) % 128 / 32 * 16 + lane / 4;",
        "for (int n = 0; n < count; ++n)",
        "    for (int k = 0; k < depth; ++k) {",
        "        int column = 8 * n + lane % 4 * 2;",
        f"        float x = tile_number_{element}(a, part_a, row, k);",
        f"        float z = tile_number_{element}(a, part_a, row + 8, k);",
        f"        float y = tile_number_{element}(b, part_b, column, k);",
        f"        float w = tile_number_{element}(b, part_b, column + 1, k);",
        "        sums[n] += (float4)(x * y, x * w, z * y, z * w);",
        "    }",
    )
    depth = kernel.GROUP_BYTES // bytes * operation.steps.value.data
    sizes = (str(len(operation.sums)), str(depth))
    arguments = (name, *sizes, tiles[0], str(left), tiles[1], str(right))
    writer.line(f"{call(function, *arguments)};")


def _need_tile_number(writer: Writer, element: str) -> int:
    """Reads a number of a tile; the bytes of one."""
    bytes, number = _NUMBERS[element]
    writer.library.add(
        f"tile_number_{element}",
        "float",
        "const __local uchar* tile, int part, int own, int k",
        "int line = part ? k : own, along = part ? own % 64 : k;",
        "const __local uchar* p = tile + (part ? own / 64 * part : 0) + line * 128",
        f"    + ((along / {16 // bytes} ^ line & 7) * 16) + along % {16 // bytes} * {bytes};",
        f"return {number};",
    )
    return bytes


def _held_loops(
    writer: Writer, operation: kernel.GroupMmaHeldOp, name: str, tile: Expression
) -> None:
    """The same; work-items of a sub-group ask their neighbours for what these hold."""
    element = _element(operation.memory)
    _need_tile_number(writer, element)
    need_sub_groups(writer)
    lower, upper = halves(writer, element)
    function = writer.library.add(
        f"group_mma_held_{element}",
        "void",
        "float4* sums, int count, int4 a, int first, const __local void* b, int part",
        "uint lane = get_sub_group_local_id();",
        "for (int k = 0; k < 8; ++k) {",
        "    uint from = (lane & ~3u) + k % 4;",
        "    int held = sub_group_shuffle(k < 4 ? a.s0 : a.s2, from);",
        "    int below = sub_group_shuffle(k < 4 ? a.s1 : a.s3, from);",
        f"    float x = {lower.format('held')}, y = {upper.format('held')};",
        f"    float z = {lower.format('below')}, w = {upper.format('below')};",
        "    for (int n = 0; n < count; ++n)",
        "        for (int c = 0; c < 2; ++c) {",
        "            int column = 8 * n + lane % 4 * 2 + c, step = first + 2 * k;",
        f"            float p = tile_number_{element}(b, part, column, step);",
        f"            float q = tile_number_{element}(b, part, column, step + 1);",
        "            float upper = x * p + y * q, lower = z * p + w * q;",
        "            sums[n] += c ? (float4)(0, upper, 0, lower) : (float4)(upper, 0, lower, 0);",
        "        }",
        "}",
    )
    count, part = len(operation.sums), operation.part.value.data
    for step, held in enumerate(operation.held):
        fragment, first = writer.name_of(held), str(16 * step)
        writer.line(f"{call(function, name, str(count), fragment, first, tile, str(part))};")


def _publish_copies(writer: Writer, operation: kernel.PublishCopiesOp) -> None:
    if writer.vendor == "nvidia":
        writer.line('asm volatile("fence.proxy.async.shared::cta;" ::: "memory");')


GROUP_ROWS: dict[type[Operation], Row] = {
    kernel.GroupMmaOp: _group_mma,
    kernel.GroupMmaHeldOp: _group_mma_held,
    kernel.WaitProductsOp: _wait_products,
    kernel.PublishCopiesOp: _publish_copies,
}
