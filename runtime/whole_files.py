"""Writes files so that they are there whole or, after a failure or interrupt, as they were before.

In: a path and bytes, or pieces of them that are made one after another. Out: the file, or the
OSError that says why not. A file that may not be written is not replaced either, though its folder
would allow it.
"""

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

from mgn.diagnostics import WrongType

CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
"""A file that nobody else has."""

TEMPORARY = re.compile(r"\.mgn-[0-9a-f]{16}\.tmp")
"""How a file is called until it is whole; a crash can leave one."""

Content = bytes | Iterable[Any]
"""Bytes, or pieces that have a buffer of bytes."""

_WRITABLE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


def as_path(path: object) -> Path:
    """A path as a caller gave it. TypeError for what is none, OSError for a text that cannot be."""
    if not isinstance(path, (str, os.PathLike)):
        raise WrongType(f"a path is expected, not {type(path).__name__}")
    try:
        encoded = os.fsencode(path)  # pyright: ignore[reportUnknownArgumentType]
    except UnicodeEncodeError:
        encoded = b"\0"
    if b"\0" in encoded:
        raise OSError(errno.EINVAL, "not a path that this system has", ascii(path))
    return Path(os.fsdecode(encoded))


def write_file(path: str | Path, data: Content) -> None:
    """Puts a file in place in one step; a device or a pipe is written as it is.

    A link stays, and what it leads to is written.
    """
    target = Path(os.path.realpath(as_path(path)))
    found = _status(target)
    if found is None:
        replace_file(target, data)
    elif stat.S_ISLNK(found.st_mode):  # a ring of links leads nowhere
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    elif not stat.S_ISREG(found.st_mode):
        with target.open("wb") as stream:
            _write(stream, data)
    elif not (found.st_mode & _WRITABLE and os.access(target, os.W_OK)):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    else:
        replace_file(target, data, stat.S_IMODE(found.st_mode) & 0o777)


def replace_file(target: Path, data: Content, mode: int | None = None) -> None:
    """Puts a file where there may be another, or a link, which is then gone.

    Without a mode it gets that of the user's new files.
    """
    temporary = target.parent / f".mgn-{secrets.token_hex(8)}.tmp"
    try:
        opened = os.open(temporary, CREATE, 0o666 if mode is None else 0o600)
        with os.fdopen(opened, "wb") as stream:
            _write(stream, data)
        if mode is not None:
            temporary.chmod(mode)
        temporary.replace(target)
    except BaseException:  # an interrupt, too, from before the file is there on
        temporary.unlink(missing_ok=True)
        raise


def _write(stream: BinaryIO, data: Content) -> None:
    for piece in (data,) if isinstance(data, bytes) else data:
        stream.write(piece)


def _status(path: Path) -> os.stat_result | None:
    """What is at a path itself; None where nothing is."""
    try:
        return path.lstat()
    except FileNotFoundError:
        return None
