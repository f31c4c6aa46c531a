"""The PTX of a product by 128 work-items whose operands lie in local memory.

In: what is multiplied, the sizes of the tiles, and how either is laid out. Out: the instructions
(PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate"). Their operands are `%0`, `%1`,
… as in inline assembly: the sums, then the places of both tiles in local memory.
"""

DEPTHS = {"bf16": 16, "f16": 16, "tf32": 8}
"""What is multiplied → the steps of one instruction: 32 bytes of a line."""

_SWIZZLE_128 = 1 << 62
_GROUP_BYTES = 1024
_STEP_BYTES = 32
_LINE_BYTES = 128


def product(element: str, columns: int, steps: int, parts: tuple[int, int]) -> list[str]:
    """The instructions that start a product; `parts` are the bytes of the parts of either tile."""
    count, depth = columns // 2, DEPTHS[element]
    sums = ", ".join(f"%{number}" for number in range(count))
    operands = f"{{{sums}}}, da, db, p, 1, 1"
    if element != "tf32":
        operands += f", {int(parts[0] > 0)}, {int(parts[1] > 0)}"
    shape = f"m64n{columns}k{depth}.f32.{element}.{element}"
    lines = ["{", ".reg .pred p;", ".reg .b32 t;", ".reg .b64 da, db;", "setp.eq.u32 p, 0, 0;"]
    for number, (name, part) in enumerate(zip(("da", "db"), parts, strict=True)):
        lines += [
            f"and.b32 t, %{count + number}, 0x3ffff;",
            "shr.u32 t, t, 4;",
            f"cvt.u64.u32 {name}, t;",
            f"or.b64 {name}, {name}, {_layout(part):#x};",
        ]
    lines.append("wgmma.fence.sync.aligned;")
    for step in range(steps):
        if step:
            for name, part in zip(("da", "db"), parts, strict=True):
                moved = depth * _LINE_BYTES if part else _STEP_BYTES
                lines.append(f"add.s64 {name}, {name}, {moved >> 4};")
        lines.append(f"wgmma.mma_async.sync.aligned.{shape} {operands};")
    return [*lines, "wgmma.commit_group.sync.aligned;", "}"]


def wait(pending: int) -> list[str]:
    """The instruction that waits until at most the last so many products are under way."""
    return [f"wgmma.wait_group.sync.aligned {pending};"]


def _layout(part: int) -> int:
    """The upper bits of a descriptor: the distances of parts and of groups of 8 lines."""
    leading = (part or 16) >> 4
    return _SWIZZLE_128 | leading << 16 | (_GROUP_BYTES >> 4) << 32
