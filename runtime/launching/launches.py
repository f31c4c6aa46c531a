"""What a run enqueues, bound once: launches of kernels, and copies.

In: a kernel object with its arguments set, or two buffers, and the queue of all runs. Out: steps
that `enqueue` themselves there, and `timed` on another queue, with an event. What the driver
refuses is tried once more when all before it is done (`mgn.runtime.refusals`).

A launch calls the driver's own function. pyopencl's wrapper asks for an event each time, which
costs NVIDIA's driver more than the call itself.
"""

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

from mgn.runtime.devices import opencl
from mgn.runtime.launching.driver import check, driver_enqueue
from mgn.runtime.refusals import insisted

Sizes = tuple[int, int, int]


class Launch:
    """One launch of a kernel with its arguments and sizes; `sizes` are their places in memory."""

    def __init__(self, queue: Any, kernel: Any, global_size: Sizes, local_size: Sizes) -> None:
        self.kernel, self.global_size, self.local_size = kernel, global_size, local_size
        self._queue = queue
        self._held = (ctypes.c_size_t * 6)(*global_size, *local_size)
        here = ctypes.addressof(self._held)
        self.sizes = (here, here + 3 * ctypes.sizeof(ctypes.c_size_t))
        driver = driver_enqueue()
        self._call: Callable[[], int] | None = driver and partial(
            driver, queue.int_ptr, kernel.int_ptr, 3, None, *self.sizes, 0, None, None
        )

    def enqueue(self) -> None:
        """Enqueue on the queue it is bound to. RuntimeFault where the driver refuses."""
        if self._call is None:
            self.timed(self._queue)
        elif self._call():
            self._queue.finish()
            check(self._call(), f"'{self.kernel.function_name}' was not launched")

    def timed(self, queue: Any) -> Any:
        """Enqueue on a queue; the event of it."""
        call = (queue, self.kernel, self.global_size, self.local_size)
        return insisted(queue, lambda: opencl().enqueue_nd_range_kernel(*call))


class Copy:
    """A copy of `size` bytes from one buffer to another."""

    def __init__(self, queue: Any, source: Any, target: Any, size: int) -> None:
        self.source, self.target, self.size = source, target, size
        self._queue = queue

    def enqueue(self) -> None:
        """Enqueue on the queue it is bound to."""
        if self.size:
            self.timed(self._queue)

    def timed(self, queue: Any) -> Any:
        """Enqueue on a queue; the event of it."""
        call = (queue, self.target, self.source)
        return insisted(queue, lambda: opencl().enqueue_copy(*call, byte_count=self.size))
