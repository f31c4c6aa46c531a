"""Memory of the host that a CPU's kernels work in: one buffer, whose slices are others.

In: a context and a size. Out: `HostBlock`, with a buffer, and with the same bytes as an array,
which the host may use while they are `mapped`. Where the system has large pages, a block of several
lies in them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from mgn.runtime.devices import opencl
from mgn.runtime.large_pages import PAGE, has_large_pages, large_pages
from mgn.runtime.refusals import insisted

ALIGNMENT = 1 << 12
"""Where a block begins: drivers work in memory of the host as it is where a page begins."""


class HostBlock:
    """Zeros of the host, as a buffer and as bytes."""

    def __init__(self, context: Any, size: int) -> None:
        cl = opencl()
        self.bytes = _new_bytes(max(size, 1))
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
        self.buffer = cl.Buffer(context, flags, hostbuf=self.bytes)

    @contextmanager
    def mapped(self, queue: Any) -> Iterator[None]:
        """Waits for all that a queue was told; inside, the host may read and write the bytes.

        It waits before it maps: a thread that waits for a queue's end computes with the others.
        """
        cl = opencl()
        queue.finish()
        flags = cl.map_flags.READ | cl.map_flags.WRITE
        call = (queue, self.buffer, flags, 0, self.bytes.shape, np.uint8)
        here, _ = insisted(queue, lambda: cl.enqueue_map_buffer(*call))
        try:
            yield
        finally:
            here.base.release(queue)


def _new_bytes(size: int) -> np.ndarray:
    if size >= PAGE and has_large_pages():
        return large_pages(size)
    whole = np.zeros(size + ALIGNMENT, np.uint8)
    start = -whole.ctypes.data % ALIGNMENT
    return whole[start : start + size]
