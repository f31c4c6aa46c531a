"""Values that rules and foldings are tried on: special ones, extremes, and random ones of all
magnitudes, ties, duplicates and terms that cancel.

In: element types, shapes, a random generator. Out: arrays.
"""

from functools import cache

import ml_dtypes
import numpy as np

from mgn.dialects.types import ElementType

PLAIN_SPECIALS = (0.0, -0.0, 1.0, -1.0, 0.5, 1.5, -2.5, np.inf, -np.inf, np.nan)


@cache
def special_values(element: ElementType) -> np.ndarray:
    """The values at which an element type's arithmetic differs from that of the reals: zeros of
    both signs, infinities, nan, both ends of the normal and of the subnormal numbers; of integers
    both ends and what lies beside them.
    """
    dtype = element.dtype
    assert dtype is not None
    if element.name == "bool":
        return np.array([False, True])
    if element.is_integer:
        limits = np.iinfo(dtype)
        ends = [limits.min, limits.min + 1, limits.max - 1, limits.max, limits.max // 2 + 1]
        return np.array([*ends, 0, 1, 2, 3, 7, *([] if limits.min == 0 else [-1, -2, -7])], dtype)
    info = ml_dtypes.finfo(dtype)
    ends = [float(info.max), float(info.smallest_normal), float(info.smallest_subnormal)]
    signed = [sign * value for value in (*ends, ends[1] * 0.75, ends[0] / 2) for sign in (1, -1)]
    return np.array([*PLAIN_SPECIALS, *signed], np.float64).astype(dtype)
