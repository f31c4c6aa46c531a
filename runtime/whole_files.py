"""Writes files so that they are there whole or, after a failure, as they were before.

In: a path and bytes. Out: the file, or the OSError that says why not.
"""

import os
import tempfile
from pathlib import Path


def write_file(path: Path, data: bytes) -> None:
    """Puts a file in place in one step; a device or a pipe is written as it is."""
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        target.write_bytes(data)
        return
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:64]}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        Path(temporary).chmod(mode)
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
