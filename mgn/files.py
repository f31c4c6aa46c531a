"""Files that a user asked for: written whole or not at all, with a message that says why not.

In: a path and bytes, or arrays. Out: the file, or an MgnError.
"""

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from mgn.diagnostics import MgnError
from mgn.runtime.whole_files import write_file


def write_whole(path: str | Path, data: bytes) -> None:
    """Writes a file. MgnError where that cannot be."""
    check_target(path)
    try:
        write_file(Path(path), data)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise MgnError(f"cannot write '{path}': {reason}") from None


def check_target(path: str | Path) -> None:
    """Says early what is wrong with a path to write to: MgnError."""
    try:
        if Path(path).is_dir():
            raise MgnError(f"cannot write '{path}': it is a directory")
        if not Path(path).parent.is_dir():
            raise MgnError(f"cannot write '{path}': no such file or directory")
    except (OSError, ValueError) as error:
        raise MgnError(f"cannot write {str(path)!r}: {error}") from None


def npz_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """An .npz archive of arrays, whatever their names (`numpy.savez` takes `file` for its own)."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
    return stream.getvalue()
