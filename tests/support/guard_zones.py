"""Launches a kernel whose buffers lie between guard zones, and says where it left them.

In: a queue, a kernel, its arrays. Out: the written arrays; an AssertionError that names the
argument where a zone was written, or where the results depend on what the zones, or the outputs
before the launch, held: it is run with two patterns, of which one is a NaN in each float type.
"""

from typing import Any

import numpy as np

from mgn.codegen.signature import KernelSignature
from mgn.runtime.devices import opencl

GUARD = 1 << 14
PATTERNS = (np.uint16(0xFFC5), np.uint16(0x4B3D))


def launch_guarded(
    queue: Any, context: Any, program: Any, kernel: KernelSignature, arrays: list[np.ndarray]
) -> None:
    """Runs a kernel on arrays; those that it writes are changed in place."""
    first = launch_once(queue, context, program, kernel, arrays, PATTERNS[0])
    second = launch_once(queue, context, program, kernel, arrays, PATTERNS[1])
    for number, (one, other) in enumerate(zip(first, second, strict=True)):
        differing = np.flatnonzero(one != other)
        assert not len(differing), (
            f"{kernel.name}: byte {differing[0]} of argument {number}, and {len(differing) - 1} "
            "more, depend on what lies outside the buffers or was never written"
        )
        arrays[number].view(np.uint8)[:] = one


def launch_once(
    queue: Any,
    context: Any,
    program: Any,
    kernel: KernelSignature,
    arrays: list[np.ndarray],
    pattern: np.uint16,
) -> list[np.ndarray]:
    """The bytes of all buffers after a launch between zones of a pattern; outputs held it too."""
    cl = opencl()
    holders, buffers = [], []
    for array, argument in zip(arrays, kernel.arguments, strict=True):
        assert array.nbytes == argument.bytes
        content = _pattern(pattern, array.nbytes)
        if argument.access != "write":
            content[GUARD : GUARD + array.nbytes] = array.view(np.uint8)
        holders.append(cl.Buffer(context, cl.mem_flags.READ_WRITE, content.nbytes))
        cl.enqueue_copy(
            queue, holders[-1], content
        )  # a host pointer may be copied in parts, lazily
        buffers.append(holders[-1].get_sub_region(GUARD, array.nbytes))
    function = cl.Kernel(program, kernel.name)
    for number, buffer in enumerate(buffers):
        function.set_arg(number, buffer)
    cl.enqueue_nd_range_kernel(queue, function, kernel.global_size, kernel.local_size)
    results = []
    for number, (array, holder) in enumerate(zip(arrays, holders, strict=True)):
        content = np.empty(holder.size, np.uint8)
        cl.enqueue_copy(queue, content, holder)
        _check(f"{kernel.name}: argument {number}", content, pattern, array.nbytes)
        results.append(content[GUARD : GUARD + array.nbytes])
    return results


def _pattern(pattern: np.uint16, size: int) -> np.ndarray:
    whole = 2 * GUARD + size
    return np.full(-(-whole // 2), pattern).view(np.uint8)[:whole].copy()


def _check(what: str, content: np.ndarray, pattern: np.uint16, size: int) -> None:
    whole, end = _pattern(pattern, size), GUARD + size
    if content[:GUARD].tobytes() + content[end:].tobytes() == (
        whole[:GUARD].tobytes() + whole[end:].tobytes()
    ):
        return
    touched = np.flatnonzero(content != whole)
    before, after = touched[touched < GUARD], touched[touched >= end]
    assert not len(before), f"{what} is written {GUARD - before[0]} bytes before its start"
    assert not len(after), f"{what} is written {after[-1] - GUARD - size + 1} bytes past its end"
