"""Many kernels as one program: to start, a CPU driver's compiler takes as long as for ten of them.

In: the texts or the SPIR-V of kernels whose names differ. Out: one text, or one built program.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from mgn.codegen.signature import RESIDENT
from mgn.runtime.devices import opencl
from mgn.runtime.launching.ptx import needs_completion

MOST_TOGETHER = 64
"""Kernels of one program: what is kept on disk of it is read as a whole."""

_KERNEL = "\n\n__kernel "


def joins(source: str | bytes) -> bool:
    """Whether a program can be part of another one: not a resident launch, whose entry has the same
    name everywhere, nor what is completed in its PTX.
    """
    if isinstance(source, bytes):
        return True
    alone = source.startswith(RESIDENT) or needs_completion(source)
    return source.count(_KERNEL) == 1 and not alone


def together(sources: Sequence[str | bytes]) -> Iterator[list[str | bytes]]:
    """Programs of one form that can be one, two or more at a time."""
    for form in (str, bytes):
        found = [source for source in sources if type(source) is form and joins(source)]
        for start in range(0, len(found), MOST_TOGETHER):
            group = found[start : start + MOST_TOGETHER]
            if len(group) > 1:
                yield group


def joined(sources: Sequence[str]) -> str:
    """One text of all kernels, with the functions that they call once at its head."""
    parts = [source.partition(_KERNEL) for source in sources]
    heads = dict.fromkeys(text for head, _, _ in parts for text in head.split("\n\n"))
    return "\n\n".join(heads) + "".join(_KERNEL + body for _, _, body in parts)


def linked(context: Any, words: Sequence[bytes], options: Sequence[str]) -> Any:
    """One program of all SPIR-V modules, built."""
    cl = opencl()
    parts = [cl.Program(context, item) for item in words]
    for part in parts:
        part.compile(list(options))
    return cl.link_program(context, parts)
