"""What the commands share: reading `NAME=N` arguments and writing whole files.

In: text of the command line. Out: values, and files that are there whole or not at all.
"""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from mgn.commands.errors import UsageError


def parse_dimensions(items: Sequence[str]) -> dict[str, int]:
    """`["B=32", "S=128"]` as a mapping. UsageError where one is no `NAME=N`."""
    dimensions: dict[str, int] = {}
    for item in items:
        name, _, value = item.partition("=")
        try:
            size = int(value, 0)
        except ValueError:
            size = None
        if size is None or not name.strip().isidentifier():
            raise UsageError(f"--dim takes NAME=N, such as B=32, not '{item}'")
        dimensions[name.strip()] = size
    return dimensions


def write_whole(path: str, data: bytes) -> None:
    """Writes a file so that it is there whole or, after a failure, as it was before."""
    target = Path(path)
    if target.is_dir():
        raise UsageError(f"cannot write '{path}': it is a directory")
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(data)
        else:
            _replace(target, data)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"cannot write '{path}': {reason}") from None


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
