"""All launches and copies of a run as one command buffer, where the device has them.

In: the steps of an executable, in order, and its queue. Out: a `CommandBuffer`, which the driver
has looked at once and which one call enqueues; None where the device has no `cl_khr_command_buffer`
of version 1.0: the provisional versions before it differ in their functions' arguments.
"""

import ctypes
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mgn.runtime.devices import opencl
from mgn.runtime.launching.driver import COUNT, POINTER, STATUS, check, extension
from mgn.runtime.launching.launches import Copy, Launch

_EXTENSION = "cl_khr_command_buffer"
_FIRST_VERSION = 1 << 22
_OTHER_QUEUE_WANTED = -1138
"""The status where a device has command buffers only for queues of certain properties."""

_SIZE = ctypes.c_size_t
_POINT = (COUNT, POINTER, POINTER, POINTER)
"""Sync points to wait for, one to be given, and a handle: an ordered queue needs none of them."""


@dataclass(frozen=True)
class _Functions:
    """The extension's functions; each field is `cl…KHR` without its frame."""

    create_command_buffer: Callable[..., Any]
    command_nd_range_kernel: Callable[..., int]
    command_copy_buffer: Callable[..., int]
    finalize_command_buffer: Callable[..., int]
    enqueue_command_buffer: Callable[..., int]
    release_command_buffer: Callable[..., int]


_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "clCreateCommandBufferKHR": (POINTER, COUNT, POINTER, POINTER, POINTER),
    "clCommandNDRangeKernelKHR": (STATUS, *[POINTER] * 4, COUNT, *[POINTER] * 3, *_POINT),
    "clCommandCopyBufferKHR": (STATUS, *[POINTER] * 5, *[_SIZE] * 3, *_POINT),
    "clFinalizeCommandBufferKHR": (STATUS, POINTER),
    "clEnqueueCommandBufferKHR": (STATUS, COUNT, POINTER, POINTER, COUNT, POINTER, POINTER),
    "clReleaseCommandBufferKHR": (STATUS, POINTER),
}
"""Result and arguments, in the order of the fields of `_Functions`."""


class CommandBuffer:
    """Steps recorded for a queue whose commands run in order."""

    def __init__(
        self, functions: _Functions, handle: Any, queue: Any, steps: Sequence[Launch | Copy]
    ) -> None:
        self._functions, self._handle, self._steps = functions, handle, steps
        self._queue = queue
        for step in steps:
            self._record(step)
        check(functions.finalize_command_buffer(handle), "a command buffer was not finished")

    def enqueue(self) -> None:
        """Enqueue all steps on their queue. RuntimeFault where the driver refuses."""
        arguments = (0, None, self._handle, 0, None, None)
        if self._functions.enqueue_command_buffer(*arguments):
            self._queue.finish()
            status = self._functions.enqueue_command_buffer(*arguments)
            check(status, "a command buffer was not launched")

    def _record(self, step: Launch | Copy) -> None:
        none = (None, None)
        alone = (0, None, None, None)
        if isinstance(step, Launch):
            sizes = (*none, step.kernel.int_ptr, 3, None, *step.sizes)
            status = self._functions.command_nd_range_kernel(self._handle, *sizes, *alone)
            check(status, f"'{step.kernel.function_name}' was not recorded")
        elif step.size:
            places = (*none, step.source.int_ptr, step.target.int_ptr, 0, 0, step.size)
            status = self._functions.command_copy_buffer(self._handle, *places, *alone)
            check(status, "a copy was not recorded")


def record(device: Any, queue: Any, steps: Sequence[Launch | Copy]) -> CommandBuffer | None:
    """The steps as a command buffer; None where the device has none that takes the queue."""
    if not steps or not _has_them(device):
        return None
    found = [extension(device.platform, name, *types) for name, types in _SIGNATURES.items()]
    present = [function for function in found if function is not None]
    if len(present) < len(found):
        return None
    functions = _Functions(*present)
    queues, status = POINTER(queue.int_ptr), STATUS()
    places = ctypes.addressof(queues), ctypes.addressof(status)
    handle = functions.create_command_buffer(1, places[0], None, places[1])
    if status.value == _OTHER_QUEUE_WANTED:
        return None
    check(status.value, "no command buffer was made")
    made = CommandBuffer(functions, handle, queue, steps)
    weakref.finalize(made, _release, functions, handle, queue)
    return made


def _has_them(device: Any) -> bool:
    """Whether a device has command buffers of version 1.0."""
    if _EXTENSION not in device.extensions.split():
        return False
    try:
        versions = {item.name: item.version for item in device.extensions_with_version}
    except opencl().Error:
        return False
    return versions.get(_EXTENSION, 0) >= _FIRST_VERSION


def _release(functions: _Functions, handle: Any, queue: Any) -> None:
    """Gives a command buffer back while its queue is still there."""
    del queue
    functions.release_command_buffer(handle)
