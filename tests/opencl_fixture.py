"""A queue on the pip-installed CPU device, and running one kernel on NumPy arrays."""

import os
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mgn.codegen.opencl import BUILD_OPTIONS
from mgn.codegen.signature import KernelSignature

POISON = 0xA5

_CONTEXTS: list[Any] = []
"""Holds the context: a queue alone does not keep it alive."""


@cache
def _queue() -> Any:
    library = Path(sys.prefix) / "lib" / "libintelocl.so"
    if library.exists() and "OCL_ICD_VENDORS" not in os.environ:
        vendors = Path(tempfile.mkdtemp(prefix="opencl-vendors-"))
        (vendors / "intel.icd").write_text(str(library))
        os.environ["OCL_ICD_VENDORS"] = str(vendors)
    import pyopencl

    for platform in pyopencl.get_platforms():
        for device in platform.get_devices():
            if device.type & pyopencl.device_type.CPU:
                _CONTEXTS.append(pyopencl.Context([device]))
                return pyopencl.CommandQueue(_CONTEXTS[-1])
    return None


@pytest.fixture(scope="session")
def cl_queue() -> Any:
    """A command queue on a CPU device; the test is skipped, saying so, where there is none."""
    queue = _queue()
    if queue is None:
        pytest.skip("no OpenCL CPU device: install the extra 'cpu'")
    return queue


def run_kernel(queue: Any, kernel: KernelSignature, arrays: list[np.ndarray]) -> None:
    """Launch a kernel; written arrays start as poison on the device and are read back in place."""
    import pyopencl

    flags = pyopencl.mem_flags
    program = pyopencl.Program(_CONTEXTS[-1], kernel.source).build(options=[BUILD_OPTIONS])
    buffers = []
    for array, argument in zip(arrays, kernel.arguments, strict=True):
        assert array.nbytes == argument.bytes
        if argument.access == "write":
            array.view(np.uint8)[:] = POISON
        buffers.append(
            pyopencl.Buffer(
                _CONTEXTS[-1], flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=array.view(np.uint8)
            )
        )
    launch = pyopencl.Kernel(program, kernel.name)
    launch(queue, kernel.global_size, kernel.local_size, *buffers)
    for array, argument, buffer in zip(arrays, kernel.arguments, buffers, strict=True):
        if argument.access != "read":
            pyopencl.enqueue_copy(queue, array.view(np.uint8), buffer)
    queue.finish()
