"""What OpenCL C cannot say of NVIDIA's newest units, filled in where its PTX is.

In: an OpenCL C program whose first lines are directives, and the PTX that the driver made of it.
Out: the PTX completed, which the driver takes as a binary.

    // ptx target sm_90a                    the target's name
    // ptx shared buffer 32768 147456       local memory of another size than was declared

Comments of the form `// @wgmma TYPE COLUMNS STEPS PART PART REGISTERS…` become the instructions
(PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate").
"""

import re

from mgn.runtime.errors import BuildError

GUARD = "MGN_PTX"
"""Defined where a program is compiled to be completed; without it such a program is an error."""

_DIRECTIVE = re.compile(r"^// ptx (\w+) (.*)$", re.MULTILINE)
_SWIZZLE_128 = 1 << 62
_GROUP_BYTES = 1024
_STEP_BYTES = 32
_LINE_BYTES = 128
_DEPTH = 16


def needs_completion(source: str) -> bool:
    """Whether a program's PTX is to be completed."""
    return f"#ifndef {GUARD}" in source


def completed(source: str, ptx: str) -> str:
    """The PTX of a program with its directives followed and its comments made instructions."""
    for kind, rest in _DIRECTIVE.findall(source):
        if kind == "target":
            ptx = re.sub(r"^\.target \w+", f".target {rest}", ptx, count=1, flags=re.MULTILINE)
        else:
            name, declared, size = rest.split()
            pattern = rf"(\.shared \.align \d+ \.b8 \S*{name}\[){declared}\]"
            ptx, found = re.subn(pattern, rf"\g<1>{size}]", ptx)
            if not found:
                raise BuildError(f"the driver's PTX declares no {name} of {declared} bytes")
    lines: list[str] = []
    for line in ptx.split("\n"):
        words = line.split()
        if words[:2] == ["//", "@wgmma"]:
            lines += _product(words[2:])
        else:
            lines.append(line)
    return "\n".join(lines)


def _product(words: list[str]) -> list[str]:
    """The instructions of one product of tiles in local memory."""
    element, columns, steps = words[0], int(words[1]), int(words[2])
    parts = [int(words[3]), int(words[4])]
    *sums, left, right = words[5:]
    operands = (
        f"{{{', '.join(sums)}}}, da, db, p, 1, 1, {', '.join(str(int(n > 0)) for n in parts)}"
    )
    lines = ["{", ".reg .pred p;", ".reg .b32 t;", ".reg .b64 da, db;", "setp.eq.u32 p, 0, 0;"]
    for name, place, part in (("da", left, parts[0]), ("db", right, parts[1])):
        lines += [
            f"and.b32 t, {place}, 0x3ffff;",
            "shr.u32 t, t, 4;",
            f"cvt.u64.u32 {name}, t;",
            f"or.b64 {name}, {name}, {_layout(part):#x};",
        ]
    lines.append("wgmma.fence.sync.aligned;")
    for step in range(steps):
        if step:
            for name, part in (("da", parts[0]), ("db", parts[1])):
                moved = _DEPTH * _LINE_BYTES if part else _STEP_BYTES
                lines.append(f"add.s64 {name}, {name}, {moved >> 4};")
        shape = f"m64n{columns}k{_DEPTH}.f32.{element}.{element}"
        lines.append(f"wgmma.mma_async.sync.aligned.{shape} {operands};")
    return [*lines, "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;", "}"]


def _layout(part: int) -> int:
    """The upper bits of a descriptor: the distances of parts and of groups of 8 lines."""
    leading = (part or 16) >> 4
    return _SWIZZLE_128 | leading << 16 | (_GROUP_BYTES >> 4) << 32
