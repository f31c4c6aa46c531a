"""Moderate parameters: what some rules take for granted, and executables check.

In: an array. Out: whether no element of it is above `LARGEST` in size, infinite or nan.
"""

import math

import numpy as np

LARGEST = 2.0**20
"""The largest size of a moderate parameter's elements. Scalars and integers may have any value."""


def is_moderate(array: np.ndarray) -> bool:
    """Whether a parameter's value is moderate."""
    if array.ndim == 0 or array.size == 0 or not _is_float(array.dtype):
        return True
    if array.dtype.itemsize > 2:
        return bool(array.min() >= -LARGEST and array.max() <= LARGEST)
    sizes = np.ascontiguousarray(array).view(np.uint16) & np.uint16(0x7FFF)
    largest = float(sizes.max(keepdims=True).view(array.dtype).astype(np.float64).item())
    return math.isfinite(largest) and largest <= LARGEST


def _is_float(dtype: np.dtype) -> bool:
    return np.issubdtype(dtype, np.floating) or dtype.name == "bfloat16"
