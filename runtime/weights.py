"""Files of arrays: safetensors and npz, read with care and written in one step.

In: a path. Out: its arrays by name, all at once or each when it is asked for; or one
`WeightsError`. A damaged file is a `WeightsError` too, whatever is wrong with it.
"""

import io
import stat
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from mgn.runtime.errors import WeightsError
from mgn.runtime.host_arrays import DTYPES, shown
from mgn.runtime.safetensors_file import (
    METADATA,
    mapped,
    safetensors_entries,
    safetensors_pieces,
)
from mgn.runtime.stored_arrays import StoredArray, check_shape, clipped, plain_bools
from mgn.runtime.whole_files import as_path, write_file

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

Opened = Callable[[], BinaryIO]
"""What opens a file's content."""


def load_arrays(path: str | Path) -> dict[str, np.ndarray]:
    """Every array of a .safetensors or .npz file, by name."""
    path = file_path(path)
    readers = {".safetensors": read_safetensors, ".npz": read_npz}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise WeightsError(f"{path}: arrays are read from .safetensors and .npz files")
    with reading(path):
        check_file(path)
        return {name: np.array(entry.read()) for name, entry in reader(path).items()}


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Around what reads a file: what the system says of it becomes a WeightsError."""
    try:
        yield
    except OSError as error:
        raise WeightsError(f"cannot read {path}: {error.strerror or error}") from None
    except MemoryError:
        raise WeightsError(f"{path} is damaged, or larger than the memory") from None


def check_file(path: Path) -> None:
    """WeightsError where a path leads to no file with content; OSError where it leads nowhere."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        raise WeightsError(f"{path} is no file: arrays are read from whole ones")
    if status.st_size == 0:
        raise WeightsError(f"{path} is empty")


def is_special(path: Path) -> bool:
    """Whether there is something of a path that is no file, such as a device."""
    try:
        return path.exists() and not path.is_file()
    except OSError:  # a name that is too long is one of nothing
        return False


def file_path(path: str | Path) -> Path:
    """A path as a caller gave it. WeightsError for a text that cannot be one."""
    try:
        return as_path(path)
    except OSError as error:
        raise WeightsError(f"{error.filename} is {error.strerror}") from None


def save_params(path: str | Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays to a .safetensors file, in one step. WeightsError where that fails, where the
    name is one that is not read as such a file, or where an array has the name of the file's notes.
    One array is looked at at a time, each twice.
    What is there and is no file takes any name.
    """
    path = file_path(path)
    if path.suffix.lower() != ".safetensors" and not is_special(path):
        raise WeightsError(f"{path}: parameters are written to a name that ends in .safetensors")
    if METADATA in arrays:
        raise WeightsError(f"{path}: an array is named '{METADATA}', where the format holds notes")
    try:
        write_file(path, safetensors_pieces(arrays))
    except WeightsError as error:
        raise WeightsError(f"{path}: {error}") from None
    except OSError as error:
        raise WeightsError(f"cannot write {path}: {error.strerror or error}") from None


def read_safetensors(path: Path) -> dict[str, StoredArray]:
    """The arrays of a safetensors file, which stays mapped into memory while they are held."""
    return safetensors_entries(mapped(path), path)


def read_npz(path: Path) -> dict[str, StoredArray]:
    """The arrays of an npz file, which is opened again for each that is read."""
    return npz_entries(lambda: path.open("rb"), path)


def npz_entries(opened: Opened, path: Path) -> dict[str, StoredArray]:
    """The arrays in the content of an npz file."""
    found: dict[str, StoredArray] = {}
    with _archive(opened, path) as archive:
        for name in archive.files:
            if name in found:
                raise WeightsError(f"{path} holds {shown(name)} twice")
            found[name] = _entry(opened, archive, name, path)
    return found


@contextmanager
def _archive(opened: Opened, path: Path) -> Iterator[Any]:
    """The archive in a file. WeightsError where it is none, and for all that goes wrong in it."""
    with opened() as file:
        start = file.read(len(_ARRAY))
        file.seek(0)
        if not start.startswith((_ARCHIVE, _EMPTY_ARCHIVE, _ARRAY)):
            raise WeightsError(f"{path} is no npz file, which is an archive that np.savez writes")
        try:
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise WeightsError(f"{path} holds one array without a name; write it with np.savez")
            with archive:
                yield archive
        except WeightsError:
            raise
        except OSError as error:
            if error.errno is not None:
                raise
            raise WeightsError(f"{path} is no whole npz file: {clipped(error)}") from None
        except MemoryError:
            raise
        except Exception as error:  # NumPy and zipfile raise what they come upon
            raise WeightsError(f"{path} is no whole npz file: {clipped(error)}") from None


def _entry(opened: Opened, archive: Any, name: str, path: Path) -> StoredArray:
    """A member of an archive, by its header. WeightsError where that asks for more memory than the
    member can have content, or for objects.
    """
    packed: zipfile.ZipFile = archive.zip
    names = packed.namelist()
    member = packed.getinfo(name if name in names else f"{name}.npy")
    if member.file_size > _MOST_PACKED * (member.compress_size + 1):
        raise WeightsError(f"{path}: {shown(name)} cannot have {member.file_size} bytes")
    with packed.open(member) as file:
        start = file.read(len(_ARRAY))
        file = io.BytesIO(start + file.read(_LONGEST_HEADER))
    if start != _ARRAY:
        raise WeightsError(f"{path} holds {shown(name)}, which is no array")
    read_header = _HEADERS.get(np.lib.format.read_magic(file))
    if read_header is None:
        raise WeightsError(f"{path}: {shown(name)} is of a version of the format that is not read")
    try:
        shape, _, dtype = read_header(file)
    except Exception:  # NumPy evaluates the header, and says where in it that fails
        message = f"{path} is no whole npz file: {shown(name)} has a damaged header"
        raise WeightsError(message) from None
    if dtype.hasobject:
        raise WeightsError(f"{path}: {shown(name)} holds Python objects, which are not read")
    needed, held = prod(shape) * dtype.itemsize, member.file_size - file.tell()
    if needed >= 0 and needed != held:
        raise WeightsError(
            f"{path}: {shown(name)} is to have {clipped(needed)} bytes, and has {held}"
        )
    check_shape(path, name, dtype, shape)

    def read() -> np.ndarray:
        with _archive(opened, path) as archive:
            array = archive[name]
        return plain_bools(array.view(DTYPES["bf16"]) if array.dtype == _UNNAMED else array)

    return StoredArray(DTYPES["bf16"] if dtype == _UNNAMED else dtype, shape, read)
