"""What a run enqueues, bound once: launches of kernels, and copies.

In: a kernel object with its arguments set, or two buffers, and the queue of all runs. Out: steps
that `enqueue` themselves there, and `timed` on another queue, with an event.

A launch calls the driver's own function. pyopencl's wrapper asks for an event each time, which
costs NVIDIA's driver more than the call itself.
"""

import ctypes
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from typing import Any

from mgn.runtime.devices import opencl
from mgn.runtime.errors import RuntimeFault

Sizes = tuple[int, int, int]


class Launch:
    """One launch of a kernel with its arguments and sizes."""

    def __init__(self, queue: Any, kernel: Any, global_size: Sizes, local_size: Sizes) -> None:
        self.kernel, self.global_size, self.local_size = kernel, global_size, local_size
        self._queue = queue
        driver = driver_enqueue()
        self._call: Callable[[], Any]
        if driver is None:
            self._call = partial(self.timed, queue)
            return
        self._sizes = (ctypes.c_size_t * 6)(*global_size, *local_size)
        here = ctypes.addressof(self._sizes)
        local = here + 3 * ctypes.sizeof(ctypes.c_size_t)
        self._call = partial(
            driver, queue.int_ptr, kernel.int_ptr, 3, None, here, local, 0, None, None
        )

    def enqueue(self) -> None:
        """Enqueue on the queue it is bound to. RuntimeFault where the driver refuses."""
        status = self._call()
        if isinstance(status, int) and status:
            name = opencl().status_code.to_string(status, f"error {status}")
            raise RuntimeFault(f"'{self.kernel.function_name}' was not launched: {name}")

    def timed(self, queue: Any) -> Any:
        """Enqueue on a queue; the event of it."""
        return opencl().enqueue_nd_range_kernel(
            queue, self.kernel, self.global_size, self.local_size
        )


class Copy:
    """A copy of `size` bytes from one buffer to another."""

    def __init__(self, queue: Any, source: Any, target: Any, size: int) -> None:
        self._queue, self._source, self._target, self.size = queue, source, target, size

    def enqueue(self) -> None:
        """Enqueue on the queue it is bound to."""
        if self.size:
            self.timed(self._queue)

    def timed(self, queue: Any) -> Any:
        """Enqueue on a queue; the event of it."""
        return opencl().enqueue_copy(queue, self._target, self._source, byte_count=self.size)


@cache
def driver_enqueue() -> Callable[..., int] | None:
    """`clEnqueueNDRangeKernel` of the library that pyopencl itself is linked to.

    None where the loader does not find it through pyopencl's module.
    """
    try:
        module = import_module("pyopencl._cl")
        function = ctypes.CDLL(module.__file__).clEnqueueNDRangeKernel
    except (AttributeError, ImportError, OSError):
        return None
    pointer, count = ctypes.c_void_p, ctypes.c_uint
    function.argtypes = [pointer, pointer, count, *[pointer] * 3, count, pointer, pointer]
    function.restype = ctypes.c_int
    return function
