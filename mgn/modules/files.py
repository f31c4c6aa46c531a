"""Files that a user asked for: written whole or not at all, with a message that says why not.

In: a path and bytes, or arrays. Out: the file, or an MgnError.
"""

import io
import os
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from mgn.diagnostics import MgnError
from mgn.runtime.location import FIGURES_VARIABLE
from mgn.runtime.whole_files import write_file


def write_whole(path: str | Path, data: bytes) -> None:
    """Writes a file. MgnError where that cannot be."""
    check_target(path)
    try:
        write_file(path, data)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise MgnError(f"cannot write '{path}': {reason}") from None


def check_target(path: str | Path) -> None:
    """Says early what is wrong with a path to write to: MgnError."""
    try:
        place = Path(os.path.realpath(path))
        if place.is_dir():
            raise MgnError(f"cannot write '{path}': it is a directory")
        if not place.parent.is_dir():
            raise MgnError(f"cannot write '{path}': no such file or directory")
        if place.is_symlink():  # a ring of links leads nowhere
            raise MgnError(f"cannot write '{path}': too many levels of symbolic links")
    except (OSError, ValueError) as error:
        raise MgnError(f"cannot write {str(path)!r}: {error}") from None


def check_apart(path: str | Path, others: Iterable[str | Path]) -> None:
    """MgnError where a path to write to leads to one of the files that a run reads or writes.

    `others` are those files; the device figures that `MGN_DEVICE_FIGURES` names are one more.
    """
    place = Path(path)
    figures = os.environ.get(FIGURES_VARIABLE)
    for other in map(Path, [*others, *([figures] if figures else [])]):
        if is_same_file(place, other) and (place.is_file() or not place.exists()):
            raise MgnError(f"'{path}' would be written over a file that this run reads or writes")


def is_same_file(one: Path, other: Path) -> bool:
    """Whether two paths lead to one file, which need not be there; links of any kind count."""
    try:
        return one.samefile(other)
    except (OSError, ValueError):
        return os.path.realpath(one) == os.path.realpath(other)


def npz_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """An .npz archive of arrays, whatever their names (`numpy.savez` takes `file` for its own)."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
    return stream.getvalue()
