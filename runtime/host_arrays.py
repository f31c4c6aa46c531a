"""Host arrays in and out: element types as NumPy has them, and the checks of a call's inputs.

In: the arrays of a call. Out: contiguous arrays of exactly the planned types, or one `InputError`
that lists everything that is wrong and what to do.
"""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import ml_dtypes
import numpy as np

from mgn.codegen.launch_plan import BufferPlan
from mgn.runtime.errors import InputError

DTYPES: dict[str, np.dtype[Any]] = {
    "f64": np.dtype(np.float64),
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "i64": np.dtype(np.int64),
    "i32": np.dtype(np.int32),
    "i16": np.dtype(np.int16),
    "i8": np.dtype(np.int8),
    "u32": np.dtype(np.uint32),
    "u16": np.dtype(np.uint16),
    "u8": np.dtype(np.uint8),
    "bool": np.dtype(np.bool_),
}
"""Element names of the language and their NumPy types."""


def spelling(element: str, shape: Sequence[int]) -> str:
    """A tensor type as the language writes it: `f32[2, 3]`."""
    return f"{element}[{', '.join(map(str, shape))}]"


def nearest(name: str, names: Sequence[str]) -> str:
    """A hint that names the most similar of `names`, or nothing."""
    matches = get_close_matches(name, names, n=1)
    return f"; did you mean '{matches[0]}'?" if matches else ""


def mismatch(array: np.ndarray, element: str, shape: Sequence[int]) -> str | None:
    """What is wrong with an array that should hold a type; None where nothing is."""
    wanted = DTYPES[element]
    if array.dtype != wanted:
        return (
            f"has dtype {array.dtype}, not {wanted} ({spelling(element, shape)}); "
            f"convert it with .astype({dtype_expression(wanted)})"
        )
    if array.shape != tuple(shape):
        return f"has shape {list(array.shape)}, not {list(shape)} ({spelling(element, shape)})"
    return None


def dtype_expression(dtype: np.dtype[Any]) -> str:
    """How Python code names a dtype."""
    return f"{'ml_dtypes' if dtype == DTYPES['bf16'] else 'np'}.{dtype.name}"


def check_inputs(inputs: Sequence[BufferPlan], arrays: Mapping[str, Any]) -> list[np.ndarray]:
    """The arrays in the order of the planned inputs. InputError with every fault at once."""
    if not hasattr(arrays, "keys"):
        raise InputError(f"inputs are arrays by name, not {type(arrays).__name__}")
    names = [buffer.name for buffer in inputs]
    faults = [
        f"there is no input '{name}'{nearest(name, names)}" for name in arrays if name not in names
    ]
    checked: list[np.ndarray] = []
    for buffer in inputs:
        if buffer.name not in arrays:
            faults.append(
                f"input '{buffer.name}' is missing; it is {spelling(buffer.element, buffer.shape)}"
            )
            continue
        array = np.asarray(arrays[buffer.name])
        fault = mismatch(array, buffer.element, buffer.shape)
        if fault is not None:
            faults.append(f"input '{buffer.name}' {fault}")
        checked.append(array)
    if faults:
        raise InputError("\n".join(faults))
    return checked


def as_bytes(array: np.ndarray) -> np.ndarray:
    """The bytes of an array in C order: its own memory where it is contiguous, else a copy."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
