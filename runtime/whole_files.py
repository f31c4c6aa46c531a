"""Writes files so that they are there whole or, after a failure or interrupt, as they were before.

In: a path and bytes. Out: the file, or the OSError that says why not.
"""

import os
import secrets
from pathlib import Path

CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
"""A file that nobody else has."""


def write_file(path: Path, data: bytes) -> None:
    """Puts a file in place in one step; a device or a pipe is written as it is."""
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        target.write_bytes(data)
        return
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
    temporary = target.parent / f".{target.name[:64]}.{secrets.token_hex(8)}"
    try:
        with os.fdopen(os.open(temporary, CREATE, 0o600), "wb") as stream:
            stream.write(data)
        temporary.chmod(mode)
        temporary.replace(target)
    except BaseException:  # an interrupt, too, from before the file is there on
        temporary.unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
