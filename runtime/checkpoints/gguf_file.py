"""Files of llama.cpp: a header of keys and values, the tensors' descriptions, and their blocks.

In: the content of a GGUF file of version 2 or 3, mapped into memory. Out: its arrays by name, none
of which is read; or a WeightsError. Nothing is made for a count that the file is too short for.

Shapes are those of NumPy: the last axis is the one whose elements are neighbours, which the file
names first. `q8_0` and `q4_1` are blocks of mgn's own formats; `q4_0` becomes `q4_1`, whose
minimums are -8 scales, without an error.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from mgn.dialects.block_formats import BLOCK
from mgn.runtime.errors import WeightsError
from mgn.runtime.host_arrays import DTYPES, shown
from mgn.runtime.safetensors_file import Content
from mgn.runtime.stored_arrays import StoredArray, check_shape, clipped, packed_shape, unread

MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_MOST_AXES = 4
_MOST_NESTED = 4
_ALIGNMENT, _DEFAULT_ALIGNMENT, _MOST_ALIGNMENT = "general.alignment", 32, 1 << 20
_TEXT, _LIST, _U32 = 8, 9, 4

_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of a value in the header, by its type; texts and lists say their own."""

PLAIN: dict[int, str] = {
    0: "f32",
    1: "f16",
    24: "i8",
    25: "i16",
    26: "i32",
    27: "i64",
    28: "f64",
    30: "bf16",
}
"""Types of tensors whose elements lie one behind another."""

Q4_0 = 2
_Q4_0_BYTES = 2 + BLOCK // 2
BLOCKED: dict[int, str] = {Q4_0: "q4_1", 3: "q4_1", 8: "q8_0"}
"""Types of tensors in blocks, and the format of mgn that holds them."""

UNREAD = {
    **{6: "q5_0", 7: "q5_1", 9: "q8_1", 10: "q2_k", 11: "q3_k", 12: "q4_k", 13: "q5_k"},
    **{14: "q6_k", 15: "q8_k", 16: "iq2_xxs", 17: "iq2_xs", 18: "iq3_xxs", 19: "iq1_s"},
    **{20: "iq4_nl", 21: "iq3_s", 22: "iq2_s", 23: "iq4_xs", 29: "iq1_m", 34: "tq1_0"},
    **{35: "tq2_0", 39: "mxfp4"},
}
"""Names of types that are not read."""


def gguf_entries(data: Content, path: Path) -> dict[str, StoredArray]:
    """The arrays in the content of a GGUF file."""
    header = _Header(data, path)
    if header.take(len(MAGIC)) != MAGIC:
        raise WeightsError(f"{path} is no GGUF file")
    version = header.number("I")
    if version not in _VERSIONS:
        raise WeightsError(f"{path}: version {version} of GGUF is not read; 2 and 3 are")
    tensors, pairs = header.number("Q"), header.number("Q")
    alignment = _alignment(header, pairs)
    described: list[tuple[str, tuple[int, ...], int, int]] = []
    for _ in range(header.checked(tensors, _LEAST_TENSOR)):
        described.append(_description(header))
    start = -(-header.place // alignment) * alignment
    found: dict[str, StoredArray] = {}
    places: list[tuple[int, int, str]] = []
    for name, shape, type, offset in described:
        if name in found:
            raise WeightsError(f"{path}: the header names {shown(name)} twice")
        if offset % alignment:
            raise header.damaged(f"{shown(name)} begins at {offset}, not at {alignment} * n")
        found[name] = _stored(_Place(data, path, name, start + offset), shape, type)
        places.append((offset, offset + _bytes(shape, type), name))
    reached, before = 0, ""
    for begin, end, name in sorted(places, key=lambda place: (place[0], -place[1])):
        if begin < min(end, reached):
            said = f"{shown(name)} begins at {begin}, within {shown(before)}"
            raise header.damaged(f"{said}, which ends at {reached}")
        if begin > len(data) - start:
            raise header.damaged(f"{shown(name)} begins at {begin} of {len(data) - start} bytes")
        if end > reached:
            reached, before = end, name
    return found


_LEAST_TENSOR, _LEAST_PAIR = 8 + 4 + 4 + 8, 8 + 4 + 1
"""The fewest bytes of a tensor's description, and of a key with its value."""


class _Header:
    """A reader that goes through a header and never past its end."""

    def __init__(self, data: Content, path: Path) -> None:
        self.data, self.path, self.place = data, path, 0

    def damaged(self, why: str) -> WeightsError:
        return WeightsError(f"{self.path} is no whole GGUF file: {why}")

    def take(self, count: int) -> bytes:
        if count > len(self.data) - self.place:
            raise self.damaged(f"it ends at {len(self.data)}, within its header")
        taken = self.data[self.place : self.place + count]
        self.place += count
        return taken

    def number(self, form: str) -> int:
        (value,) = struct.unpack(f"<{form}", self.take(struct.calcsize(f"<{form}")))
        return value

    def checked(self, count: int, least: int) -> int:
        """A count of things of at least so many bytes. WeightsError where there is no room."""
        if count * least > len(self.data) - self.place:
            raise self.damaged(f"{count} entries do not fit in {len(self.data)} bytes")
        return count

    def text(self) -> str:
        count = self.checked(self.number("Q"), 1)
        try:
            return self.take(count).decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.damaged(f"a name is no UTF-8: {clipped(error)}") from None

    def skip(self, type: int, depth: int = 0) -> None:
        """Goes past a value of a type."""
        if type in _SIZES:
            self.take(_SIZES[type])
        elif type == _TEXT:
            self.take_past(self.number("Q"))
        elif type == _LIST and depth < _MOST_NESTED:
            inner, count = self.number("I"), self.number("Q")
            if inner in _SIZES:
                self.take_past(count * _SIZES[inner])
                return
            for _ in range(self.checked(count, 8)):
                self.skip(inner, depth + 1)
        else:
            raise self.damaged(f"a value is of type {type}")

    def take_past(self, count: int) -> None:
        """Goes past bytes without looking at them."""
        self.place += self.checked(count, 1)


def _alignment(header: _Header, pairs: int) -> int:
    """Goes past the keys and values; what the tensors' places are multiples of."""
    alignment, is_given = _DEFAULT_ALIGNMENT, False
    for _ in range(header.checked(pairs, _LEAST_PAIR)):
        key, type = header.text(), header.number("I")
        if key != _ALIGNMENT:
            header.skip(type)
            continue
        if is_given:
            raise header.damaged(f"it gives {_ALIGNMENT} twice")
        is_given = True
        alignment = header.number("I") if type == _U32 else 0
        if not 0 < alignment <= _MOST_ALIGNMENT or alignment % 8:
            raise header.damaged(f"its tensors are to lie at multiples of {alignment}")
    return alignment


def _description(header: _Header) -> tuple[str, tuple[int, ...], int, int]:
    """A tensor's name, shape, type and offset."""
    name, axes = header.text(), header.number("I")
    if axes > _MOST_AXES:
        raise header.damaged(f"{shown(name)} has {axes} axes")
    sizes = [header.number("Q") for _ in range(axes)]
    return name, tuple(reversed(sizes)), header.number("I"), header.number("Q")


@dataclass(frozen=True)
class _Place:
    """Where a tensor lies."""

    data: Content
    path: Path
    name: str
    offset: int

    def reader(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Callable[[], np.ndarray]:
        """What reads an array from here. WeightsError where the file ends before it does."""
        count = prod(shape)
        end = self.offset + count * dtype.itemsize
        if end > len(self.data):
            said = f"{shown(self.name)} ends at {clipped(end)} of {len(self.data)} bytes"
            raise WeightsError(f"{self.path} is no whole GGUF file: {said}")
        check_shape(self.path, self.name, dtype, shape)

        def read() -> np.ndarray:
            flat = np.frombuffer(self.data, dtype, count, self.offset) if count else []
            return np.asarray(flat, dtype).reshape(shape)

        return read


def _stored(place: _Place, shape: tuple[int, ...], type: int) -> StoredArray:
    if type in PLAIN:
        dtype = DTYPES[PLAIN[type]]
        return StoredArray(dtype, shape, place.reader(dtype, shape))
    if type not in BLOCKED:
        return StoredArray(unread(UNREAD.get(type, f"type {type}")), (0,), lambda: np.empty(0))
    format = BLOCKED[type]
    if not shape or shape[-1] % BLOCK:
        said = f"{shown(place.name)} is in blocks of {BLOCK} and has the shape {list(shape)}"
        raise WeightsError(f"{place.path} is no whole GGUF file: {said}")
    packed = np.dtype(np.uint8)
    if type != Q4_0:
        return StoredArray(packed, shape, place.reader(packed, packed_shape(format, shape)), format)
    read = place.reader(packed, (*shape[:-1], shape[-1] // BLOCK * _Q4_0_BYTES))
    return StoredArray(packed, shape, lambda: _with_minimums(read(), place), format)


def _bytes(shape: tuple[int, ...], type: int) -> int:
    """How many bytes a tensor has; of a type that is not read, one where there are elements."""
    if type in PLAIN:
        return prod(shape) * DTYPES[PLAIN[type]].itemsize
    if type not in BLOCKED:
        return min(prod(shape), 1)
    if type == Q4_0:
        return prod(shape) // BLOCK * _Q4_0_BYTES
    return prod(packed_shape(BLOCKED[type], shape))


def _with_minimums(packed: np.ndarray, place: _Place) -> np.ndarray:
    """Blocks of `q4_0`, whose codes count from -8, as blocks of `q4_1`."""
    blocks = packed.reshape(-1, _Q4_0_BYTES)
    scales = np.ascontiguousarray(blocks[:, :2]).view("<f2")
    with np.errstate(over="ignore"):
        minimums = (scales * np.float16(-8)).astype("<f2")
    if not np.isfinite(minimums[np.isfinite(scales)]).all():
        said = f"{shown(place.name)} has blocks of q4_0 whose scales are too large for q4_1"
        raise WeightsError(f"{place.path}: {said}")
    minimums = minimums.view(np.uint8)
    joined = np.concatenate([blocks[:, :2], minimums, blocks[:, 2:]], axis=1)
    return joined.reshape(*packed.shape[:-1], -1 if joined.size else 0)
