"""What OpenCL C cannot say of NVIDIA's newest units, filled in where its PTX is.

In: an OpenCL C program whose first lines are directives, and the PTX that the driver made of it.
Out: the PTX completed, which the driver takes as a binary.

    // ptx target sm_90a                    the target's name
    // ptx shared buffer 32768 147456       local memory of another size than was declared

Lines `// @ptx INSTRUCTION` of the PTX become the instruction: the driver's compiler for OpenCL C
knows only those of its own target, but leaves comments of inline assembly, and registers in them.
"""

import re

from mgn.runtime.errors import BuildError

GUARD = "MGN_PTX"
"""Defined where a program is compiled to be completed; without it such a program is an error."""

_DIRECTIVE = re.compile(r"^// ptx (\w+) (.*)$", re.MULTILINE)
_INSTRUCTION = re.compile(r"^\s*// @ptx ", re.MULTILINE)


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
    return _INSTRUCTION.sub("", ptx)
