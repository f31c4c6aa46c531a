"""What the runtime must know of a kernel: its program, its launch and its arguments.

In: what `mgn.codegen.opencl.opencl.signature` or `mgn.codegen.spirv.spirv.signature` found in a
`kernel.func`.
Out: a value that needs no IR.
"""

import hashlib
import re
from array import array
from dataclasses import dataclass
from functools import cached_property

ELEMENT_BYTES = {
    "f64": 8,
    "f32": 4,
    "f16": 2,
    "bf16": 2,
    "i64": 8,
    "i32": 4,
    "i16": 2,
    "i8": 1,
    "bool": 1,
}
"""Element names of a kernel's buffers, and their size in memory. Unsigned tensors use `i…`."""

RESIDENT_ENTRY = "resident"
RESIDENT = "// resident"
"""The first line of a program whose work-groups wait for one another: no more may be launched than
run at once, and its last argument is the counter that they meet at.
"""

_MAGIC, _HEADER, _NAME, _ENTRY_POINT = 0x07230203, 5, 5, 15
"""How SPIR-V begins, words before its first instruction, and the numbers of two instructions."""


@dataclass(frozen=True)
class KernelArgument:
    """A buffer argument: its access (`read`, `write`, `read_write`), element name and length."""

    access: str
    element: str
    count: int

    @property
    def bytes(self) -> int:
        return ELEMENT_BYTES[self.element] * self.count


@dataclass(frozen=True)
class KernelSignature:
    """A kernel, ready to build and launch. `local_memory` is static: no argument stands for it.

    The program is OpenCL C in `source`, or SPIR-V in `il`, which is used where it is given.
    """

    name: str
    source: str
    global_size: tuple[int, int, int]
    local_size: tuple[int, int, int]
    arguments: tuple[KernelArgument, ...]
    local_memory: int = 0
    il: bytes | None = None

    @property
    def is_resident(self) -> bool:
        """Whether the work-groups wait for one another."""
        return self.source.startswith(RESIDENT)

    @property
    def entry(self) -> str:
        """The kernel's name in its program. Resident launches that differ in their buffers alone
        have equal programs.
        """
        return RESIDENT_ENTRY if self.is_resident else self.name

    @property
    def accesses(self) -> tuple[str, ...]:
        """What the kernel does with each argument."""
        return tuple(item.access for item in self.arguments)

    @property
    def program(self) -> str | bytes:
        """What is built: source text, or the words of SPIR-V."""
        return self.source if self.il is None else self.il

    @property
    def nameless(self) -> bytes:
        """What is built, with nothing in the place of the kernel's name: kernels that differ in
        their names alone have it equal.
        """
        if self.il is None:
            return re.sub(rf"\b{re.escape(self.name)}\b", "\0", self.source).encode()
        return _without_names(self.il)

    @cached_property
    def digest(self) -> str:
        """A key for caches: equal signatures have equal digests, in every process."""
        parts = (
            self.name,
            self.source,
            str(self.global_size),
            str(self.local_size),
            *(() if self.il is None else (self.il.hex(),)),
            *(f"{item.access} {item.element} {item.count}" for item in self.arguments),
        )
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _without_names(il: bytes) -> bytes:
    """SPIR-V without the names of its values and of its entry point; as it is where its words are
    not in this machine's order.
    """
    words = array("I", il if len(il) % 4 == 0 else b"")
    if words[:1] != array("I", [_MAGIC]):
        return il
    kept, at = words[:_HEADER], _HEADER
    while at < len(words):
        size = max(words[at] >> 16, 1)
        instruction, code = words[at : at + size], words[at] & 0xFFFF
        if code == _ENTRY_POINT:
            end = next(
                (n for n in range(3, size) if 0 in instruction[n : n + 1].tobytes()), size - 1
            )
            kept += array("I", [code]) + instruction[1:3] + instruction[end + 1 :]
        elif code != _NAME:
            kept += instruction
        at += size
    return kept.tobytes()
