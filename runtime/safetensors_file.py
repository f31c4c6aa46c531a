"""Files of safetensors: a header of JSON that says where each array lies, and their bytes.

In: the content of a file, as bytes or mapped into memory. Out: its arrays by name, none of which is
read; or a WeightsError. A header is believed only where all that it says fits the file. And the
other way: arrays in, the pieces of a file out, one array after another.
"""

import json
import mmap
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any, cast

import numpy as np

from mgn.runtime.errors import WeightsError
from mgn.runtime.host_arrays import DTYPES, shown
from mgn.runtime.stored_arrays import (
    FLOATS_OF_8_BITS,
    StoredArray,
    check_shape,
    clipped,
    named_once,
    plain_bools,
    unread,
)

MOST_HEADER = 100_000_000
"""Bytes of a header, by the format's specification."""

METADATA = "__metadata__"
"""The key of a header that is no array's: it holds notes, as texts by name."""

_LENGTH_OF_HEADER = 8
_KEYS = {"dtype", "shape", "data_offsets"}
_MOST = 1 << 64

_DTYPES: dict[str, np.dtype[Any]] = {
    name.upper(): dtype for name, dtype in (DTYPES | FLOATS_OF_8_BITS).items()
}
"""Dtypes by the names in a header; an array of any other is kept as plain bytes."""

_WRITTEN: dict[np.dtype[Any], str] = {
    **{np.dtype(f"uint{bits}"): f"U{bits}" for bits in (8, 16, 32, 64)},
    **{np.dtype(f"int{bits}"): f"I{bits}" for bits in (8, 16, 32, 64)},
    **{dtype: name for name, dtype in _DTYPES.items()},
    np.dtype(np.complex64): "C64",
}
"""The names of dtypes in a header; some that mgn does not read are written, too."""

Content = bytes | mmap.mmap


def mapped(path: Path) -> Content:
    """The content of a file, which is read where it is looked at."""
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def is_mapped(array: np.ndarray) -> bool:
    """Whether an array is a part of a file that is mapped to be read alone."""
    held: Any = array
    while held is not None and not array.flags.writeable:
        if isinstance(held, mmap.mmap):
            return memoryview(held).readonly
        held = held.obj if isinstance(held, memoryview) else getattr(held, "base", None)
    return False


def safetensors_pieces(arrays: Mapping[str, np.ndarray]) -> Iterator[Any]:
    """The content of a file of these arrays, piece by piece: each array is looked at twice, for the
    header and for its bytes. WeightsError where one is of a type that such files do not have.
    """
    sizes: dict[str, int] = {}
    header: dict[str, Any] = {}
    for name, array in arrays.items():
        dtype = array.dtype.newbyteorder("<")
        if dtype not in _WRITTEN:
            raise WeightsError(f"{shown(name)} is of {dtype}, which is not written")
        sizes[name] = array.nbytes
        header[name] = {"dtype": _WRITTEN[dtype], "shape": list(array.shape), "at": dtype.itemsize}
    order = sorted(header, key=lambda name: (-header[name].pop("at"), name))
    reached = 0
    for name in order:
        header[name]["data_offsets"] = [reached, reached + sizes[name]]
        reached += sizes[name]
    try:
        text = json.dumps({name: header[name] for name in order}, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise WeightsError("a name of an array is no text of Unicode") from None
    text += b" " * (-len(text) % _LENGTH_OF_HEADER)
    if len(text) > MOST_HEADER:
        raise WeightsError(f"a header of {len(text)} bytes, of {MOST_HEADER} that the format has")
    yield len(text).to_bytes(_LENGTH_OF_HEADER, "little") + text
    for name in order:
        array = np.ascontiguousarray(arrays[name])
        if array.dtype.newbyteorder("<") != array.dtype:
            array = array.astype(array.dtype.newbyteorder("<"))
        yield array.reshape(-1).view(np.uint8).data


def safetensors_entries(data: Content, path: Path) -> dict[str, StoredArray]:
    """The arrays in the content of a safetensors file."""
    header, start = _header(data, path)
    size = len(data) - start
    found: dict[str, StoredArray] = {}
    places: list[tuple[int, int, str]] = []
    for name, entry in header.items():
        if name == METADATA:
            continue
        dtype, shape, (begin, end) = _entry(entry, name, path)
        places.append((begin, end, name))
        if end > size:
            raise _not_whole(path, f"{shown(name)} ends at {end} of {size} bytes")
        held = unread(dtype) if dtype not in _DTYPES else _DTYPES[dtype]
        if dtype in _DTYPES:
            check_shape(path, name, held, shape)
            needed = prod(shape) * held.itemsize
            if needed != end - begin:
                said = f"{shown(name)} has {end - begin} bytes, not {clipped(needed)}"
                raise _not_whole(path, said)
        else:
            shape = (end - begin,)
        found[name] = _stored(data, start + begin, held, shape)
    _check_places(places, size, path)
    return found


def _stored(
    data: Content, offset: int, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> StoredArray:
    def read() -> np.ndarray:
        count = prod(shape)
        flat = np.frombuffer(data, dtype, count, offset) if count else np.empty(0, dtype)
        return plain_bools(flat.reshape(shape))

    return StoredArray(dtype, shape, read)


def _header(data: Content, path: Path) -> tuple[Mapping[str, Any], int]:
    """The header, and where the arrays begin."""
    if len(data) < _LENGTH_OF_HEADER:
        raise _not_whole(path, f"it has {len(data)} bytes")
    length = int.from_bytes(data[:_LENGTH_OF_HEADER], "little")
    end = _LENGTH_OF_HEADER + length
    if end > len(data) or length > MOST_HEADER:
        raise _not_whole(path, f"its header is to have {length} bytes of {len(data)}")
    try:
        text = data[_LENGTH_OF_HEADER:end].decode("utf-8")
        header = json.loads(text, object_pairs_hook=named_once(path, "the header"))
    except (ValueError, RecursionError) as error:
        raise _not_whole(path, f"its header is no JSON: {clipped(error)}") from None
    if not isinstance(header, dict):
        raise _not_whole(path, "its header is no JSON object")
    return cast(Mapping[str, Any], header), end


def _entry(entry: Any, name: str, path: Path) -> tuple[str, tuple[int, ...], tuple[int, int]]:
    """The dtype, shape and place of an array, by its entry in the header."""
    if isinstance(entry, dict) and entry.keys() == _KEYS:
        dtype, shape, place = entry["dtype"], entry["shape"], entry["data_offsets"]
        if isinstance(dtype, str) and _are_sizes(shape) and _are_sizes(place) and len(place) == 2:
            begin, end = place
            if begin <= end:
                return dtype, tuple(shape), (begin, end)
    raise _not_whole(path, f"the header says {clipped(entry)} of {shown(name)}")


def _are_sizes(value: Any) -> bool:
    return isinstance(value, list) and all(
        type(item) is int and 0 <= item < _MOST for item in cast(list[Any], value)
    )


def _check_places(places: list[tuple[int, int, str]], size: int, path: Path) -> None:
    """WeightsError where arrays overlap, or leave bytes between them that are no array's."""
    reached = 0
    for begin, end, name in sorted(places):
        if begin != reached:
            raise _not_whole(path, f"{shown(name)} begins at {begin}, not {reached}")
        reached = end
    if reached != size:
        raise _not_whole(path, f"its arrays take {reached} of {size} bytes")


def _not_whole(path: Path, why: str) -> WeightsError:
    return WeightsError(f"{path} is no whole safetensors file: {why}")
