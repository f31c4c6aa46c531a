"""Host arrays in and out: element types as NumPy has them, and the checks of a call's inputs.

In: the arrays of a call. Out: contiguous arrays of exactly the planned types, or one `InputError`
that lists everything that is wrong and what to do.
"""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from math import isfinite
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from mgn.codegen.launch_plan import BufferPlan
from mgn.diagnostics import MOST_SHOWN, one_line
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


class ArrayType(NamedTuple):
    """The type of an input, a result or a parameter: `str()` is as the language writes it."""

    element: str
    shape: tuple[int, ...]

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's type of the elements."""
        return DTYPES[self.element]

    def __str__(self) -> str:
        return spelling(self.element, self.shape)


MOST_BITS = 128
"""The most bits of a whole number that a message writes in digits."""

_MOST = 12
"""Foreign names that one error lists."""


def shown(name: object, most: int = MOST_SHOWN) -> str:
    """A name as messages have it: in quotes, on one line, not long; what is no text as Python has
    it.
    """
    plain = one_line(name if isinstance(name, str) else repr(name), most)
    return f"'{plain}'" if isinstance(name, str) else plain


def nearest(name: object, names: Sequence[str]) -> str:
    """A hint that names the most similar of `names`, or nothing."""
    if not isinstance(name, str):
        return "; names are texts"
    matches = get_close_matches(name[:MOST_SHOWN], names, n=1)
    return f"; did you mean {shown(matches[0])}?" if matches else ""


def as_array(value: Any) -> np.ndarray:
    """What a caller gave as a plain array. InputError where it is none, with what it is instead."""
    if isinstance(value, np.ma.MaskedArray):
        raise InputError("is a masked array, whose mask would be lost; .filled(…) makes it plain")
    try:
        if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
            return np.from_dlpack(value)
        if str(getattr(value, "dtype", None)) == "torch.bfloat16":  # NumPy has none; f32 holds it
            return np.asarray(value.float()).astype(DTYPES["bf16"])
        made = np.asarray(value)
    except MemoryError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"is no array but {type(value).__name__}: {reason}") from None
    if made.dtype.kind in "OSU" and not (isinstance(value, int) or hasattr(value, "astype")):
        raise InputError(f"is no array of numbers but {type(value).__name__}")
    return made


def mismatch(
    array: np.ndarray, element: str, shape: Sequence[int], given: Any = None
) -> str | None:
    """What is wrong with an array that should hold a type; None where nothing is. It was made of
    what was `given`, if that was none.
    """
    wanted = DTYPES[element]
    if isinstance(given, bool | int | float) and not hasattr(given, "astype"):
        fits = array.dtype == wanted and array.shape == tuple(shape)
        return None if fits else _unfit_number(given, element, shape)
    if array.dtype.type is np.void:
        name = (array.dtype.metadata or {}).get("name", array.dtype)
        return f"has dtype {name}, which is not read"
    if array.dtype != wanted:
        type = dtype_expression(wanted)
        way = f"np.asarray(…, {type}) converts it"
        if given is None or hasattr(given, "astype"):
            way = f"convert it with .astype({type})"
        return f"has dtype {array.dtype}, not {wanted} ({spelling(element, shape)}); {way}"
    if array.shape != tuple(shape):
        return f"has shape {list(array.shape)}, not {list(shape)} ({spelling(element, shape)})"
    return None


def _unfit_number(given: bool | int | float, element: str, shape: Sequence[int]) -> str:
    """What is wrong with a number of Python that is not of a type."""
    number = _number(given)
    if not shape:
        return f"is {number}, which {element} does not hold"
    wanted, type = list(shape), dtype_expression(DTYPES[element])
    made = f"np.full({wanted}, …, {type}) is an array of one number"
    return f"is {number}, not an array of shape {wanted} ({spelling(element, shape)}); {made}"


def _number(value: bool | int | float) -> str:
    """A number as messages have it. Python refuses to write thousands of digits."""
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        return f"a number of {value.bit_length()} bits"
    return repr(value)


def dtype_expression(dtype: np.dtype[Any]) -> str:
    """How Python code names a dtype."""
    return f"{'ml_dtypes' if dtype == DTYPES['bf16'] else 'np'}.{dtype.name}"


def check_inputs(
    inputs: Sequence[BufferPlan], arrays: Mapping[str, Any], given: Callable[[Any, BufferPlan], Any]
) -> list[Any]:
    """The arrays in the order of the planned inputs, as `given` takes each. InputError with every
    fault at once.
    """
    if not isinstance(arrays, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"inputs are arrays by name, not {type(arrays).__name__}")
    names = {buffer.name for buffer in inputs}
    foreign = [name for name in arrays if name not in names]
    faults = [
        f"there is no input {shown(name)}{nearest(name, [buffer.name for buffer in inputs])}"
        for name in foreign[:_MOST]
    ]
    if len(foreign) > _MOST:
        faults.append(f"and {len(foreign) - _MOST} more that there are not")
    checked: list[Any] = []
    for buffer in inputs:
        if buffer.name not in arrays:
            wanted = spelling(buffer.element, buffer.shape)
            faults.append(f"input {shown(buffer.name)} is missing; it is {wanted}")
            continue
        try:
            checked.append(given(arrays[buffer.name], buffer))
        except InputError as error:
            faults.append(f"input {shown(buffer.name)} {error}")
    if faults:
        raise InputError("\n".join(faults))
    return checked


def fitting(value: Any, element: str, shape: Sequence[int]) -> np.ndarray:
    """What a caller gave as an array of a type. InputError with what is wrong with it."""
    if type(value) is np.ndarray and value.dtype == DTYPES[element] and value.shape == shape:
        return value
    array = as_array(value)
    if not shape and isinstance(value, bool | int | float):
        array = _scalar(value, element, array)
    fault = mismatch(array, element, shape, value)
    if fault is not None:
        raise InputError(fault)
    return array


def _scalar(value: bool | int | float, element: str, array: np.ndarray) -> np.ndarray:
    """A number of Python as a scalar of a type; as it came where that cannot hold it."""
    wanted = DTYPES[element]
    if isinstance(value, bool) != (wanted.kind == "b"):
        return array
    if wanted.kind in "iu":
        limits = np.iinfo(wanted)
        if not isinstance(value, int) or not limits.min <= value <= limits.max:
            return array
        return np.asarray(value, wanted)
    try:
        number = float(value)
    except OverflowError:
        return array
    with np.errstate(over="ignore"):
        held = np.asarray(number, wanted)
    return held if np.isfinite(held) or not isfinite(number) else array


def as_bytes(array: np.ndarray) -> np.ndarray:
    """The bytes of an array in C order: its own memory where it is contiguous, else a copy."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
