"""The functions of OpenCL itself, for what pyopencl does slowly or does not offer.

In: nothing. Out: the library that pyopencl is linked to, the functions of its extensions, and the
errors of what they return.
"""

import ctypes
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from mgn.runtime.devices import opencl
from mgn.runtime.errors import RuntimeFault

POINTER, COUNT, STATUS = ctypes.c_void_p, ctypes.c_uint, ctypes.c_int


@cache
def _library() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(import_module("pyopencl._cl").__file__)
    except (ImportError, OSError):
        return None


@cache
def driver_enqueue() -> Callable[..., int] | None:
    """`clEnqueueNDRangeKernel`; None where the loader does not find it by pyopencl's module."""
    function = getattr(_library(), "clEnqueueNDRangeKernel", None)
    if function is not None:
        function.argtypes = [POINTER, POINTER, COUNT, *[POINTER] * 3, COUNT, POINTER, POINTER]
        function.restype = STATUS
    return function


def extension(platform: Any, name: str, result: Any, *arguments: Any) -> Callable[..., Any] | None:
    """A function of a platform's extensions; None where there is none of that name."""
    find = getattr(_library(), "clGetExtensionFunctionAddressForPlatform", None)
    if find is None:
        return None
    find.argtypes, find.restype = [POINTER, ctypes.c_char_p], POINTER
    address = find(platform.int_ptr, name.encode())
    return ctypes.CFUNCTYPE(result, *arguments)(address) if address else None


def check(status: int, what: str) -> None:
    """RuntimeFault where a function's status is an error; `what` says what did not happen."""
    if status:
        name = opencl().status_code.to_string(status, f"error {status}")
        raise RuntimeFault(f"{what}: {name}")
