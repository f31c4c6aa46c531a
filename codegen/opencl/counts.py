"""OpenCL C for counting and adding in local memory, and for combining numbers in memory. On NVIDIA,
lanes that name one cell find each other by votes, or by marks.
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


def _add_in_order(writer: Writer, operation: kernel.AddInOrderOp) -> None:
    body, suffix = _ADDED_IN_TURN, ""
    if writer.vendor == "nvidia":
        votes = writer.library.add("lanes_with", "uint", "bool has", *_LANES_WITH)
        suffix = "_by_exchange" if writer.matrix_unit == "none" else ""
        matches = _ALIKE_BY_EXCHANGE if suffix else _ALIKE
        alike = writer.library.add(f"lanes_alike{suffix}", "uint", "int own", *matches)
        body = _BY_MARKS.format(votes=votes, alike=alike).splitlines()
    parameters = "float value, __local float* cells, int cell, __local int* marks, int turn"
    name = writer.library.add(f"add_in_order{suffix}", "int", parameters, *body)
    arguments = (
        writer.value(operation.value),
        writer.pointer(operation.memref),
        cast("int", writer.value(operation.index)),
        writer.pointer(operation.marks),
        writer.value(operation.turn),
    )
    writer.declare(operation.result, call(name, *arguments))


_ADDED_IN_TURN = (
    "for (int own = 0; own < 32; ++own) {",
    "    barrier(CLK_LOCAL_MEM_FENCE);",
    "    if (get_local_id(0) % 32 == own && cell >= 0)",
    "        cells[cell] += value;",
    "}",
    "barrier(CLK_LOCAL_MEM_FENCE);",
    "return turn + 1;",
)

_LANES_WITH = (
    "uint votes;",
    'asm volatile("{ .reg .pred p; setp.ne.s32 p, %1, 0;\\n"',
    '             "vote.sync.ballot.b32 %0, p, 0xffffffff; }" : "=r"(votes) : "r"((int)has));',
    "return votes;",
)

_ALIKE = (
    "uint same;",
    'asm volatile("match.any.sync.b32 %0, %1, 0xffffffff;" : "=r"(same) : "r"(own));',
    "return same;",
)
"""The lanes that have the same number, by an instruction of PTX from sm_70 on."""

_ALIKE_BY_EXCHANGE = (
    "uint same = 0;",
    "for (uint from = 0; from < 32; ++from) {",
    "    int other;",
    '    asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;"',
    '                 : "=r"(other) : "r"(own), "r"(from));',
    "    same |= (uint)(other == own) << from;",
    "}",
    "return same;",
)
"""The same for older GPUs, and for all whose matrix unit is not reached: mgn reaches those from
sm_80 on.
"""

_BY_MARKS = r"""uint lane, same, other;
asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
bool waits = cell >= 0;
for (int end = turn + 3; turn < end; ++turn) {{
    uint waiting = {votes}(waits);
    if (waiting == 0)
        return turn;
    if (waiting == 0xfffffffe)
        break;
    int mark = turn * 32 + 31 - (int)lane;
    if (waits)
        atomic_max(marks + cell, mark);
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
    if (waits && marks[cell] == mark) {{
        cells[cell] += value;
        waits = false;
    }}
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
}}
if ({votes}(waits) == 0)
    return turn;
same = {alike}(waits ? cell : -1);
bool adds = waits && (same & ((1u << lane) - 1)) == 0;
float total = adds ? cells[cell] + value : 0.0f;
same = adds ? same & (same - 1) : 0;
while ({votes}(same != 0) != 0) {{
    uint next = same == 0 ? lane : popcount((same & (0 - same)) - 1);
    asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;"
                 : "=r"(other) : "r"(as_uint(value)), "r"(next));
    if (same != 0)
        total += as_float(other);
    same &= same - 1;
}}
if (adds)
    cells[cell] = total;
asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
return turn;"""
"""Lanes whose turn it is add, the first of each cell. From the fourth turn on the first of those
that still wait adds for them, and reads their registers: so many that name one cell take no turn
each. Where all but the first lane wait after a turn, they do so at once.
"""


COUNT_ROWS: dict[type[Operation], Row] = {
    kernel.CountOp: _count,
    kernel.CombineAtOp: _combine_at,
    kernel.CountInOrderOp: _count_in_order,
    kernel.AddInOrderOp: _add_in_order,
}
