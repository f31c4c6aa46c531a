"""The PTX of a product by 128 work-items whose operands lie in local memory.

In: what is multiplied, the sizes of the tiles, and how either is laid out. Out: the instructions
(PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate"). Their operands are `%0`, `%1`,
… as in inline assembly: the sums, then what is held, then the tiles' places in local memory.
"""

DEPTHS = {"bf16": 16, "f16": 16, "tf32": 8}
"""What is multiplied → the steps of one instruction: 32 bytes of a line."""

_SWIZZLE_128 = 1 << 62
_GROUP_BYTES = 1024
_STEP_BYTES = 32
_LINE_BYTES = 128
_ADDS = "setp.eq.u32 p, 0, 0;"
_COMMIT = "wgmma.commit_group.sync.aligned;"


def product(
    element: str, columns: int, steps: int, parts: tuple[int, int], fresh: bool = False
) -> list[str]:
    """The instructions that start a product; `parts` are the bytes of the parts of either tile.

    A `fresh` one gives sums that it does not add to what was there.
    """
    count = columns // 2
    operands = f"{_sums(columns)}, da, db, p, 1, 1"
    if element != "tf32":
        operands += f", {int(parts[0] > 0)}, {int(parts[1] > 0)}"
    lines = _begin(("da", "db"), fresh)
    for number, (name, part) in enumerate(zip(("da", "db"), parts, strict=True)):
        lines += _descriptor(name, count + number, part)
    lines.append("wgmma.fence.sync.aligned;")
    for step in range(steps):
        if step:
            moves = zip(("da", "db"), parts, strict=True)
            lines += [_next_step(name, element, part) for name, part in moves]
        lines.append(f"{_instruction(element, columns)} {operands};")
        if fresh and not step:
            lines.append(_ADDS)
    return [*lines, _COMMIT, "}"]


def held_product(element: str, columns: int, steps: int, part: int) -> list[str]:
    """The same where work-items hold the left operand: four registers a step before the place."""
    count = columns // 2
    lines = [*_begin(("db",), False), *_descriptor("db", count + 4 * steps, part)]
    lines.append("wgmma.fence.sync.aligned;")
    for step in range(steps):
        if step:
            lines.append(_next_step("db", element, part))
        held = _list(range(count + 4 * step, count + 4 * step + 4))
        operands = f"{_sums(columns)}, {held}, db, p, 1, 1, {int(part > 0)}"
        lines.append(f"{_instruction(element, columns)} {operands};")
    return [*lines, _COMMIT, "}"]


def _begin(names: tuple[str, ...], fresh: bool) -> list[str]:
    """Registers of descriptors, and of whether sums are added to."""
    registers = f".reg .b64 {', '.join(names)};"
    first = "setp.ne.u32 p, 0, 0;" if fresh else _ADDS
    return ["{", ".reg .pred p;", ".reg .b32 t;", registers, first]


def _descriptor(name: str, place: int, part: int) -> list[str]:
    return [
        f"and.b32 t, %{place}, 0x3ffff;",
        "shr.u32 t, t, 4;",
        f"cvt.u64.u32 {name}, t;",
        f"or.b64 {name}, {name}, {_layout(part):#x};",
    ]


def _next_step(name: str, element: str, part: int) -> str:
    moved = DEPTHS[element] * _LINE_BYTES if part else _STEP_BYTES
    return f"add.s64 {name}, {name}, {moved >> 4};"


def _instruction(element: str, columns: int) -> str:
    shape = f"m64n{columns}k{DEPTHS[element]}.f32.{element}.{element}"
    return f"wgmma.mma_async.sync.aligned.{shape}"


def _sums(columns: int) -> str:
    return _list(range(columns // 2))


def _list(numbers: range) -> str:
    return f"{{{', '.join(f'%{number}' for number in numbers)}}}"


def wait(pending: int) -> list[str]:
    """The instruction that waits until at most the last so many products are under way."""
    return [f"wgmma.wait_group.sync.aligned {pending};"]


def _layout(part: int) -> int:
    """The upper bits of a descriptor: the distances of parts and of groups of 8 lines."""
    leading = (part or 16) >> 4
    return _SWIZZLE_128 | leading << 16 | (_GROUP_BYTES >> 4) << 32
