"""An array of a checkpoint as the value of a parameter, which may have another type.

In: a `StoredArray` and a parameter's element and shape. Out: what does not fit about them; or the
value. Floats of any type become those of any other, the nearest; blocks are unpacked, and packed
where the parameter has a block format. No other type is converted.
"""

from typing import Any

import numpy as np

from mgn.dialects.block_formats import BLOCK_FORMATS, unpack_blocks
from mgn.runtime.block_parameters import block_mismatch
from mgn.runtime.errors import WeightsError
from mgn.runtime.host_arrays import DTYPES, mismatch, spelling
from mgn.runtime.stored_arrays import StoredArray, is_float

FLOATS = {name: dtype for name, dtype in DTYPES.items() if is_float(dtype)}
"""The float types of parameters, and of what values are rounded to on their way."""


def check_dtype(dtype: str | None) -> None:
    """WeightsError where values are to be rounded to no type of floats."""
    if dtype is not None and dtype not in FLOATS:
        raise WeightsError(f"dtype is one of {', '.join(FLOATS)}, not {dtype!r:.80}")


def misfit(stored: StoredArray, element: str, shape: tuple[int, ...]) -> str | None:
    """What is wrong with an array for a parameter; None where nothing is."""
    if stored.is_float and (element in FLOATS or element in BLOCK_FORMATS):
        if stored.shape != tuple(shape):
            said = f"{list(shape)} ({spelling(element, shape)})"
            return f"has shape {list(stored.shape)}, not {said}"
        return None
    if element in BLOCK_FORMATS and stored.dtype.type is not np.void:
        return block_mismatch(stored.outline, element, shape)
    wanted = "u8" if element in BLOCK_FORMATS else element
    return mismatch(stored.outline, wanted, shape)


def converts(stored: StoredArray, element: str, dtype: str | None) -> bool:
    """Whether the value has another type than the array, or is rounded on the way."""
    return stored.is_float and (stored.element != element or dtype not in (None, element))


def value_of(stored: StoredArray, element: str, dtype: str | None) -> np.ndarray:
    """The value of a parameter: floats for a block format, which are packed later, or packed bytes.

    OverflowError where a finite number is too large for a type.
    """
    array = stored.read()
    if not converts(stored, element, dtype):
        return array
    if stored.format is not None:
        array = unpack_blocks(array, stored.format)
    if dtype is not None:
        array = rounded(array, DTYPES[dtype])
    return rounded(array, FLOATS.get(element, DTYPES["f32"]))


def rounded(array: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """An array as floats of a type. OverflowError where a finite number becomes an infinite one."""
    if array.dtype == dtype:
        return array
    with np.errstate(over="ignore", invalid="ignore"):
        found = array.astype(dtype)
    if found.dtype.itemsize < array.dtype.itemsize or DTYPES["f16"] == dtype:
        beyond = np.isinf(found) & ~np.isinf(array)
        if beyond.any():
            most = np.abs(array[beyond].astype(np.float64)).max()
            raise OverflowError(f"holds {most:.3g}, which is too large for {dtype.name}")
    return found
