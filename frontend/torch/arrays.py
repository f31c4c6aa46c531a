"""Tensors of PyTorch as arrays of NumPy and back, without a copy.

In: a tensor on the CPU, or an array. Out: the other, in the same memory; only what is not
contiguous is copied.
"""

from typing import Any

import ml_dtypes
import numpy as np

from mgn.dialects.types import BY_DTYPE_NAME, ElementType
from mgn.frontend.torch.library import library
from mgn.frontend.torch.table import Unsupported

BF16 = np.dtype(ml_dtypes.bfloat16)
"""What NumPy has no name of."""


def element_of_torch(dtype: Any) -> ElementType:
    """The element type of a PyTorch dtype. Unsupported where mgn has none."""
    name = str(dtype).removeprefix("torch.")
    if name not in BY_DTYPE_NAME:
        raise Unsupported(f"values of type {name}")
    return BY_DTYPE_NAME[name]


def array_of_tensor(tensor: Any) -> np.ndarray:
    """The elements of a tensor as an array in its memory."""
    torch = library()
    plain = tensor.contiguous()
    if plain.dtype is torch.bfloat16:
        return plain.view(torch.int16).numpy(force=True).view(BF16)
    return plain.numpy(force=True)


def tensor_of_array(array: np.ndarray) -> Any:
    """An array, which may be written, as a tensor in its memory."""
    torch = library()
    if array.dtype == BF16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
