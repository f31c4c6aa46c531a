"""Files of arrays: safetensors and npz, read with care and written in one step.

In: a path, and what the parameters should be. Out: arrays by name; or one `WeightsError` that lists
everything that does not fit. A damaged file is a `WeightsError` too, whatever is wrong with it.
"""

import io
import json
import stat
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, cast

import ml_dtypes
import numpy as np

from mgn.diagnostics import one_line
from mgn.dialects.block_formats import BLOCK_FORMATS
from mgn.runtime.block_parameters import block_mismatch
from mgn.runtime.errors import WeightsError
from mgn.runtime.host_arrays import DTYPES, mismatch, nearest, shown, spelling
from mgn.runtime.whole_files import as_path, write_file

_SHOWN = 12
_MOST_SAID = 200
_MOST_PACKED = 1100
"""Bytes that one of a compressed member can stand for; deflate comes to 1032."""

_ARCHIVE, _EMPTY_ARCHIVE, _ARRAY = b"PK\x03\x04", b"PK\x05\x06", b"\x93NUMPY"
"""How files of NumPy begin: archives of arrays, and single ones."""

_HEADERS: dict[tuple[int, int], Any] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_LONGEST_HEADER = 1 << 16

_UNNAMED = np.dtype("V2")
"""How NumPy reads back a bf16 array."""
_SAFETENSORS: dict[str, np.dtype[Any]] = {
    **{name.upper(): dtype for name, dtype in DTYPES.items()},
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
}
"""Dtypes by the names in a safetensors header; an array of any other is kept as plain bytes."""
_LENGTH_OF_HEADER = 8


@dataclass(frozen=True)
class LoadedParams:
    """The arrays of the expected parameters, and how many others the file holds."""

    arrays: dict[str, np.ndarray]
    extra: int


def load_params(
    path: str | Path, expected: Mapping[str, tuple[str, tuple[int, ...]]]
) -> LoadedParams:
    """The expected parameters (name to element and shape) from a .safetensors or .npz file.

    WeightsError names every parameter that is missing or has another shape or dtype.
    """
    arrays = load_arrays(path)
    faults: list[str] = []
    for name, (element, shape) in expected.items():
        if name not in arrays:
            hint = nearest(name, [other for other in arrays if other not in expected])
            faults.append(f"{shown(name)} ({spelling(element, shape)}) is missing{hint}")
            continue
        check = block_mismatch if element in BLOCK_FORMATS else mismatch
        fault = check(arrays[name], element, shape)
        if fault is not None:
            faults.append(f"{shown(name)} {fault}")
    if faults:
        listed = "\n".join(f"  {fault}" for fault in faults[:_SHOWN])
        more = f"\n  and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        raise WeightsError(f"{path} does not fit the {len(expected)} parameters:\n{listed}{more}")
    extra = sum(name not in expected for name in arrays)
    return LoadedParams({name: arrays[name] for name in expected}, extra)


def load_arrays(path: str | Path) -> dict[str, np.ndarray]:
    """Every array of a .safetensors or .npz file, by name."""
    path = _path(path)
    readers = {".safetensors": _read_safetensors, ".npz": _read_npz}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise WeightsError(f"{path}: arrays are read from .safetensors and .npz files")
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
            raise WeightsError(f"{path} is no file: arrays are read from whole ones")
        if status.st_size == 0:
            raise WeightsError(f"{path} is empty")
        return reader(path)
    except WeightsError:
        raise
    except OSError as error:
        raise WeightsError(f"cannot read {path}: {error.strerror or error}") from None
    except MemoryError:
        raise WeightsError(f"{path} is damaged, or larger than the memory") from None


def save_params(path: str | Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays to a .safetensors file, in one step. WeightsError where that fails."""
    from safetensors.numpy import save

    path = _path(path)
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    shaped = {name: array.reshape(arrays[name].shape) for name, array in contiguous.items()}
    try:
        data = save(shaped)
    except Exception as error:
        raise WeightsError(f"{path}: {error}") from None
    try:
        write_file(path, data)
    except OSError as error:
        raise WeightsError(f"cannot write {path}: {error.strerror or error}") from None


def _read_safetensors(path: Path) -> dict[str, np.ndarray]:
    return safetensors_arrays(path.read_bytes(), path)


def safetensors_arrays(data: bytes, path: Path) -> dict[str, np.ndarray]:
    """The arrays in the content of a safetensors file."""
    import safetensors
    from safetensors import SafetensorError

    deserialize = cast(Any, safetensors).deserialize
    try:
        entries = deserialize(data)
    except (SafetensorError, ValueError, TypeError) as error:
        raise WeightsError(f"{path} is no whole safetensors file: {_clipped(error)}") from None
    _check_names(data, path)
    arrays: dict[str, np.ndarray] = {}
    for name, entry in entries:
        dtype = _SAFETENSORS.get(entry["dtype"])
        held = _unread(entry["dtype"]) if dtype is None else dtype
        flat = np.frombuffer(entry["data"], held)
        try:
            shaped = flat if dtype is None else flat.reshape(entry["shape"])
        except (ValueError, OverflowError):
            shape = _clipped(entry["shape"])
            message = f"{path}: {shown(name)} has the shape {shape}, which no array can have"
            raise WeightsError(message) from None
        arrays[name] = _plain(shaped)
    return arrays


def _unread(name: str) -> np.dtype[Any]:
    """What bytes have that stand for a dtype that is not read."""
    return np.dtype("V1", metadata={"name": name})


def _check_names(data: bytes, path: Path) -> None:
    """WeightsError where the header of a safetensors file, which is JSON, has a name twice: the
    format's reader keeps the last one.
    """
    end = _LENGTH_OF_HEADER + int.from_bytes(data[:_LENGTH_OF_HEADER], "little")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name in found:
                raise WeightsError(f"{path}: the header names {shown(name)} twice")
            found[name] = value
        return found

    json.loads(data[_LENGTH_OF_HEADER:end], object_pairs_hook=once)


def _plain(array: np.ndarray) -> np.ndarray:
    """An array whose bools are all 0 or 1, as kernels take them to be."""
    return np.asarray(array.view(np.uint8) != 0) if array.dtype == np.bool_ else array


def _clipped(value: object) -> str:
    return one_line(str(value), _MOST_SAID)


def _path(path: str | Path) -> Path:
    try:
        return as_path(path)
    except OSError as error:
        raise WeightsError(f"{error.filename} is {error.strerror}") from None


def _read_npz(path: Path) -> dict[str, np.ndarray]:
    with path.open("rb") as file:
        return npz_arrays(file, path)


def npz_arrays(file: BinaryIO, path: Path) -> dict[str, np.ndarray]:
    """The arrays in the content of an npz file."""
    start = file.read(len(_ARRAY))
    file.seek(0)
    if not start.startswith((_ARCHIVE, _EMPTY_ARCHIVE, _ARRAY)):
        raise WeightsError(f"{path} is no npz file, which is an archive that np.savez writes")
    try:
        archive = np.load(file, allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise WeightsError(f"{path} holds one array without a name; write it with np.savez")
        with archive:
            return _members(archive, path)
    except WeightsError:
        raise
    except OSError as error:
        if error.errno is not None:
            raise
        raise WeightsError(f"{path} is no whole npz file: {_clipped(error)}") from None
    except MemoryError:
        raise
    except Exception as error:  # NumPy and zipfile raise what they come upon
        raise WeightsError(f"{path} is no whole npz file: {_clipped(error)}") from None


def _members(archive: Any, path: Path) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    for name in archive.files:
        if name in arrays:
            raise WeightsError(f"{path} holds {shown(name)} twice")
        array = _member(archive, name, path)
        if not isinstance(array, np.ndarray):
            raise WeightsError(f"{path} holds {shown(name)}, which is no array")
        arrays[name] = _plain(array.view(DTYPES["bf16"]) if array.dtype == _UNNAMED else array)
    return arrays


def _member(archive: Any, name: str, path: Path) -> Any:
    try:
        _check_size(archive, name, path)
        return archive[name]
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
    raise WeightsError(f"{path}: {shown(name)} holds Python objects, which are not read")


def _check_size(archive: Any, name: str, path: Path) -> None:
    """WeightsError for a member whose header asks for more memory than it can have content."""
    packed: zipfile.ZipFile = archive.zip
    names = packed.namelist()
    member = packed.getinfo(name if name in names else f"{name}.npy")
    if member.file_size > _MOST_PACKED * (member.compress_size + 1):
        raise WeightsError(f"{path}: {shown(name)} cannot have {member.file_size} bytes")
    with packed.open(member) as file:
        if file.read(len(_ARRAY)) != _ARRAY:
            return
        file = io.BytesIO(_ARRAY + file.read(_LONGEST_HEADER))
    read = _HEADERS.get(np.lib.format.read_magic(file))
    if read is None:
        return
    try:
        shape, _, dtype = read(file)
    except Exception:  # NumPy evaluates the header, and says where in it that fails
        message = f"{path} is no whole npz file: {shown(name)} has a damaged header"
        raise WeightsError(message) from None
    needed = prod(shape) * dtype.itemsize
    if needed > member.file_size:
        raise WeightsError(
            f"{path}: {shown(name)} is to have {needed} bytes, and has {member.file_size} at most"
        )
