"""Host memory for the buffers of a CPU, in pages of 2 MiB where the system has them.

In: a size. Out: an array of bytes that a buffer is made of. A processor looks up few pages at
once: operands of kernels, which are read with strides, take many of 4 KiB, and on a virtual machine
finding one takes twice as long.
"""

import mmap

import numpy as np

PAGE = 1 << 21
"""Bytes of a large page on x86-64 and AArch64."""


def has_large_pages() -> bool:
    """Whether the system takes hints about the size of pages."""
    return hasattr(mmap, "MADV_HUGEPAGE")


def large_pages(size: int) -> np.ndarray:
    """Zeros that begin with a large page; what does not fill one at the end lies in small ones."""
    memory = mmap.mmap(-1, size + PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    whole = np.frombuffer(memory, np.uint8)
    start = -whole.ctypes.data % PAGE
    return whole[start : start + size]
