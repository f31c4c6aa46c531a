"""Element types of ONNX that mgn does not have, and those that hold their values here.

In: a NumPy dtype. Out: the dtype of what holds it, which has all of its values, exactly; the
narrow type itself is what an importer keeps beside a value.

Integers of 2 and 4 bits lie in 8, floats of 4 to 8 bits in f16, and powers of two in f32.
"""

from typing import Any

import ml_dtypes
import numpy as np

DType = np.dtype[Any]

_HOLDERS = {
    "int2": np.int8,
    "int4": np.int8,
    "uint2": np.uint8,
    "uint4": np.uint8,
    "float4_e2m1fn": np.float16,
    "float6_e2m3fn": np.float16,
    "float6_e3m2fn": np.float16,
    "float8_e4m3fn": np.float16,
    "float8_e4m3fnuz": np.float16,
    "float8_e5m2": np.float16,
    "float8_e5m2fnuz": np.float16,
    "float8_e8m0fnu": np.float32,
}

HOLDERS: dict[DType, DType] = {
    np.dtype(getattr(ml_dtypes, name)): np.dtype(holder)
    for name, holder in _HOLDERS.items()
    if hasattr(ml_dtypes, name)
}
"""The dtype that holds each narrow one."""

POWERS_OF_TWO = "float8_e8m0fnu"
"""The narrow type without a sign, a zero and a fraction."""


def holder(dtype: Any) -> Any:
    """The dtype that holds a narrow one; others as they are."""
    return HOLDERS.get(dtype, dtype) if isinstance(dtype, np.dtype) else dtype


def held(array: np.ndarray) -> np.ndarray:
    """An array in the dtype that holds it."""
    return array.astype(HOLDERS[array.dtype]) if array.dtype in HOLDERS else array


def is_integer(dtype: DType) -> bool:
    """Whether a narrow type is one of integers."""
    return HOLDERS[dtype].kind in "iu"
