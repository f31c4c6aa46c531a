"""Arrays that stay on the device: results of one run that are inputs of another.

In: a buffer of a session. Out: `DeviceArray`, which crosses to the host only where that is asked
for: by `numpy()`, by `np.asarray`, or by DLPack.
"""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np

from mgn.codegen.launch_plan import BufferPlan
from mgn.diagnostics import WrongType
from mgn.runtime.devices import ComputeDevice, opencl
from mgn.runtime.errors import InputError
from mgn.runtime.host_arrays import DTYPES, as_bytes, spelling
from mgn.runtime.refusals import as_faults, insisted


class Home(Protocol):
    """Where arrays lie: `mgn.runtime.launching.session.Session`."""

    device: ComputeDevice
    queue: Any
    lock: threading.Lock


class DeviceArray:
    """A tensor on the device of a session, which nobody changes any more."""

    def __init__(self, session: Home, buffer: Any, element: str, shape: tuple[int, ...]) -> None:
        self.session = session
        self.buffer = buffer
        self.element = element
        self.shape = shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's name of the element type."""
        return DTYPES[self.element]

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of the content."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def numpy(self) -> np.ndarray:
        """The content, copied to the host."""
        array = np.empty(self.shape, self.dtype)
        self._begin_copy(array, is_blocking=True)
        return array

    def begin_numpy(self) -> Callable[[], np.ndarray]:
        """Begins to copy the content to the host. What is given waits for that, and not for what
        the device is told to do after it.
        """
        array = np.empty(self.shape, self.dtype)
        if not array.size:
            return lambda: array
        event = self._begin_copy(array, is_blocking=False)

        def finish() -> np.ndarray:
            with as_faults(self._copying):
                event.wait()
            return array

        return finish

    @property
    def _copying(self) -> str:
        return f"copying a result from '{self.session.device.name}'"

    def _begin_copy(self, array: np.ndarray, is_blocking: bool) -> Any:
        """Begins to copy the content to an array of the host."""
        call = (self.session.queue, as_bytes(array), self.buffer)
        with self.session.lock, as_faults(self._copying):
            if not array.size:
                return None
            copy = partial(opencl().enqueue_copy, *call, is_blocking=is_blocking)
            event = insisted(self.session.queue, copy)
            self.session.queue.flush()
        return event

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def __dlpack__(self, **options: Any) -> Any:
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __len__(self) -> int:
        if not self.shape:
            raise WrongType("a scalar has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"DeviceArray({spelling(self.element, self.shape)} on {self.session.device.name})"

    def check(self, planned: BufferPlan, session: Home) -> None:
        """InputError where it is of another type than planned, or on another device."""
        if (self.element, self.shape) != (planned.element, planned.shape):
            wanted = spelling(planned.element, planned.shape)
            raise InputError(f"is {spelling(self.element, self.shape)}, not {wanted}")
        if self.session is not session:
            raise InputError(
                "lies in the memory of other executables; graphs that are compiled together share "
                "arrays, and .numpy() copies one to the host"
            )
