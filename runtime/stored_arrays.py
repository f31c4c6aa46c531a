"""Arrays that lie in a file: what they are is known, what they hold is read when it is asked for.

In: what a reader of a format found in a header. Out: `StoredArray`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from mgn.diagnostics import one_line
from mgn.dialects.block_formats import BLOCK_FORMATS
from mgn.runtime.errors import WeightsError
from mgn.runtime.host_arrays import DTYPES, shown

FLOATS_OF_8_BITS: dict[str, np.dtype[Any]] = {
    "f8_e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
}
"""Floats that files hold and no parameter does."""

_NAMES = {dtype: name for name, dtype in (DTYPES | FLOATS_OF_8_BITS).items()}
_MOST_SAID = 200


@dataclass(frozen=True)
class StoredArray:
    """An array in a file. Of a block format, `shape` counts elements, and `read` gives the packed
    bytes; where `dtype` is that of `unread`, it gives bytes that nobody understands.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    read: Callable[[], np.ndarray]
    format: str | None = None

    @property
    def element(self) -> str:
        """The element type as the language spells it, where it does."""
        said = (self.dtype.metadata or {}).get("name", self.dtype)
        return self.format or _NAMES.get(self.dtype, str(said))

    @property
    def is_float(self) -> bool:
        """Whether it can become a parameter of any float type."""
        return self.format is not None or is_float(self.dtype)

    @property
    def outline(self) -> np.ndarray:
        """An array of its type and shape, or of its packed bytes, which takes no memory."""
        shape = self.shape if self.format is None else packed_shape(self.format, self.shape)
        return outline(self.dtype, shape)


def packed_shape(format: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the packed bytes of a tensor of a block format."""
    return BLOCK_FORMATS[format].packed_shape(shape)


def outline(dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
    """An array of a type that has one element in memory. ValueError where none can have it."""
    return np.broadcast_to(np.empty((), dtype), shape)


def check_shape(path: Path, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """WeightsError where no array can have a shape that a header gives."""
    try:
        outline(dtype, shape)
    except (ValueError, OverflowError):
        said = f"has the shape {clipped(list(shape[:_MOST_SAID]))}, which no array can have"
        raise WeightsError(f"{path}: {shown(name)} {said}") from None


def named_once(path: Path, what: str) -> Callable[[list[tuple[str, Any]]], dict[str, Any]]:
    """What makes dictionaries of the objects in JSON. WeightsError where one has a name twice."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name in found:
                raise WeightsError(f"{path}: {what} names {shown(name)} twice")
            found[name] = value
        return found

    return once


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is one of floats, NumPy's or not."""
    return dtype.kind == "f" or dtype in (DTYPES["bf16"], *FLOATS_OF_8_BITS.values())


def unread(name: str) -> np.dtype[Any]:
    """What bytes have that stand for a dtype that is not read."""
    return np.dtype("V1", metadata={"name": clipped(name)})


def plain_bools(array: np.ndarray) -> np.ndarray:
    """An array whose bools are all 0 or 1, as kernels take them to be."""
    return np.asarray(array.view(np.uint8) != 0) if array.dtype == np.bool_ else array


def clipped(value: object) -> str:
    """A part of a file as messages have it."""
    return one_line(str(value), _MOST_SAID)
