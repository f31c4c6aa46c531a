"""Writes files so that they are there whole or, after a failure, as they were before.

In: a path and bytes. Out: the file, or an error that says why not.
"""

import os
import tempfile
from pathlib import Path

from mgn.diagnostics import MgnError


def write_whole(path: str | Path, data: bytes) -> None:
    """Writes a file. MgnError where that cannot be."""
    check_target(path)
    target = Path(path)
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(data)
        else:
            _replace(target, data)
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


def _replace(target: Path, data: bytes) -> None:
    target = target.resolve()
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
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
