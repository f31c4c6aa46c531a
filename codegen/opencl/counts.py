"""OpenCL C for counting in local memory, and for combining numbers in memory. On NVIDIA, lanes that
name one cell find each other by votes.
"""

from collections.abc import Iterator

from xdsl.ir import Operation

from mgn.codegen.opencl.expression import call, cast, offset
from mgn.codegen.opencl.writer import Row, Writer
from mgn.dialects import kernel


def _count(writer: Writer, operation: kernel.CountOp) -> None:
    place = offset(writer.pointer(operation.memref), writer.value(operation.index))
    writer.line(f"atomic_inc({place});")


def _combine_at(writer: Writer, operation: kernel.CombineAtOp) -> None:
    place = offset(writer.pointer(operation.memref), writer.value(operation.index))
    writer.line(f"{call(f'atomic_{operation.kind.data}', place, writer.value(operation.value))};")


def _count_in_order(writer: Writer, operation: kernel.CountInOrderOp) -> None:
    bits = operation.bits.value.data
    body = _by_votes(bits) if writer.vendor == "nvidia" else _IN_TURN
    parameters = "__local int* cells, uint cell"
    name = writer.library.add(f"count_in_order_{bits}", "int", parameters, *body)
    arguments = writer.pointer(operation.memref), cast("uint", writer.value(operation.index))
    writer.declare(operation.result, call(name, *arguments))


_IN_TURN = (
    "int count = 0;",
    "for (uint turn = 0; turn < 32; ++turn) {",
    "    if (get_local_id(0) % 32 == turn)",
    "        count = cells[cell]++;",
    "    barrier(CLK_LOCAL_MEM_FENCE);",
    "}",
    "return count;",
)


def _by_votes(bits: int) -> Iterator[str]:
    """The first lane that names a cell counts for all that do."""
    yield "uint all = 0xffffffffu, before;"
    for bit in range(bits):
        yield 'asm volatile("{ .reg .pred p; .reg .b32 own, votes;\\n"'
        yield f'             "and.b32 own, %1, {1 << bit}; setp.ne.u32 p, own, 0;\\n"'
        yield '             "vote.sync.ballot.b32 votes, p, 0xffffffff;\\n"'
        yield '             "@!p not.b32 votes, votes; and.b32 %0, %0, votes; }"'
        yield '             : "+r"(all) : "r"(cell));'
    yield 'asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(before));'
    yield "before = popcount(all & before);"
    yield "int count = cells[cell];"
    yield 'asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");'
    yield "if (before == 0)"
    yield "    cells[cell] = count + popcount(all);"
    yield 'asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");'
    yield "return count + before;"


COUNT_ROWS: dict[type[Operation], Row] = {
    kernel.CountOp: _count,
    kernel.CombineAtOp: _combine_at,
    kernel.CountInOrderOp: _count_in_order,
}
