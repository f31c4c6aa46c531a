"""Rows of products by groups of 128 work-items: what the runtime turns into `wgmma`, and plain C.

OpenCL C compiles to PTX for a target that lacks these instructions. So they are written as comments
that carry their registers; the program's first lines say what its PTX needs (mgn/runtime/ptx.py).
"""

from xdsl.dialects.builtin import Float16Type, MemRefType
from xdsl.ir import Operation

from mgn.codegen.expression import Expression, call, offset
from mgn.codegen.writer import Row, Writer
from mgn.dialects import kernel

ARCHITECTURE = "sm_90a"
"""The target of PTX that has the instructions."""


def _element(operation: kernel.GroupMmaOp) -> str:
    assert isinstance(operation.memory.type, MemRefType)
    return "f16" if isinstance(operation.memory.type.element_type, Float16Type) else "bf16"


def _group_mma(writer: Writer, operation: kernel.GroupMmaOp) -> None:
    count = len(operation.sums)
    name = writer.fresh("sums")
    sums = ", ".join(str(writer.value(value)) for value in operation.sums)
    writer.line(f"float4 {name}[{count}] = {{{sums}}};")
    pointer = writer.pointer(operation.memory)
    tiles = [offset(pointer, writer.value(index)) for index in (operation.left, operation.right)]
    function = _instruction if writer.vendor == "nvidia" else _loops
    function(writer, operation, name, tiles)
    for number, result in enumerate(operation.results_):
        writer.declare(result, Expression(f"{name}[{number}]"))


def _instruction(
    writer: Writer, operation: kernel.GroupMmaOp, name: str, tiles: list[Expression]
) -> None:
    writer.architecture = ARCHITECTURE
    count = operation.columns // 2
    left, right = operation.part_bytes
    head = f"@wgmma {_element(operation)} {operation.columns} {operation.steps.value.data}"
    registers = " ".join(f"%{n}" for n in range(count + 2))
    writer.line(f'asm volatile("// {head} {left} {right} {registers}"')
    for number in range(count // 4):
        end = "," if number + 1 < count // 4 else ""
        lanes = ", ".join(f'"+f"({name}[{number}].s{lane})' for lane in range(4))
        writer.line(f"    {':' if number == 0 else ' '} {lanes}{end}")
    places = ", ".join(f'"r"((uint)(size_t)({tile}))' for tile in tiles)
    writer.line(f'    : {places} : "memory");')


def _loops(
    writer: Writer, operation: kernel.GroupMmaOp, name: str, tiles: list[Expression]
) -> None:
    """The same, a number at a time, by each work-item for its own sums."""
    element = _element(operation)
    number = "vload_half(0, (const __local half*)p)"
    if element == "bf16":
        number = "as_float((uint)*(const __local ushort*)p << 16)"
    writer.library.add(
        f"tile_number_{element}",
        "float",
        "const __local uchar* tile, int part, int own, int k",
        "int line = part ? k : own, along = part ? own % 64 : k;",
        "const __local uchar* p = tile + (part ? own / 64 * part : 0) + line * 128",
        "    + ((along / 8 ^ line & 7) * 16) + along % 8 * 2;",
        f"return {number};",
    )
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
    depth = kernel.GROUP_DEPTH * operation.steps.value.data
    sizes = (str(len(operation.sums)), str(depth))
    arguments = (name, *sizes, tiles[0], str(left), tiles[1], str(right))
    writer.line(f"{call(function, *arguments)};")


def _publish_copies(writer: Writer, operation: kernel.PublishCopiesOp) -> None:
    if writer.vendor == "nvidia":
        writer.line('asm volatile("fence.proxy.async.shared::cta;" ::: "memory");')


GROUP_ROWS: dict[type[Operation], Row] = {
    kernel.GroupMmaOp: _group_mma,
    kernel.PublishCopiesOp: _publish_copies,
}
