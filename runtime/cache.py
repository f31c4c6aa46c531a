"""Built kernels on disk, so that a second process need not build them again.

In: a key made of everything that fixes a binary. Out: the binary, or None. A file that is damaged,
a folder that cannot be written, another process at work: each costs a build and never an error.
"""

import contextlib
import hashlib
import os
import time
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from pathlib import Path

from mgn.runtime.location import cache_folder, write_atomically

_MAGIC = b"MGNKERN1"
_DIGEST_BYTES = hashlib.sha256().digest_size
_SUFFIX = ".kernel"
_LEFTOVER_SECONDS = 3600.0


@cache
def mgn_version() -> str:
    """The installed version, which is a part of every key."""
    try:
        return metadata.version("mgn")
    except metadata.PackageNotFoundError:
        return "unknown"


def kernel_key(program: str | bytes, options: Sequence[str], device: str) -> str:
    """The key of a binary of a source text or SPIR-V: `device` must name hardware and driver."""
    text = program if isinstance(program, str) else f"SPIR-V {program.hex()}"
    parts = (mgn_version(), device, *options, text)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


class KernelCache:
    """A folder of binaries of at most `limit` bytes; the least recently used go first.

    Without a folder (`MGN_CACHE_DIR=off`) nothing is kept and nothing is found.
    """

    def __init__(self, folder: Path | None = None, limit: int = 512 << 20) -> None:
        self.folder = folder
        self.limit = limit
        self._written_since_trim = limit

    @staticmethod
    def default() -> "KernelCache":
        """The user's cache, where `MGN_CACHE_DIR` puts it."""
        root = cache_folder()
        return KernelCache(None if root is None else root / "kernels")

    @staticmethod
    def disabled() -> "KernelCache":
        """A cache that keeps nothing."""
        return KernelCache(None)

    def load(self, key: str) -> bytes | None:
        """The binary that was stored under a key; None where there is none that is whole."""
        path = self._path(key)
        if path is None:
            return None
        try:
            data = path.read_bytes()
        except OSError:
            return None
        binary = _unwrap(data)
        if binary is None:
            self.discard(key)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return binary

    def store(self, key: str, binary: bytes) -> bool:
        """Keep a binary. False where the disk refuses."""
        path = self._path(key)
        if path is None or not write_atomically(path, _wrap(binary)):
            return False
        self._written_since_trim += len(binary)
        if self._written_since_trim > self.limit // 8:
            self.trim()
        return True

    def discard(self, key: str) -> None:
        """Forget a binary, such as one that the driver refuses."""
        path = self._path(key)
        if path is not None:
            with contextlib.suppress(OSError):
                path.unlink()

    def trim(self) -> None:
        """Delete the least recently used files until the rest fits, and leftovers of crashes."""
        self._written_since_trim = 0
        if self.folder is None:
            return
        entries: list[tuple[float, int, Path]] = []
        for path in self.folder.glob("*/*"):
            with contextlib.suppress(OSError):
                status = path.stat()
                entries.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in entries)
        stale = time.time() - _LEFTOVER_SECONDS
        for used, size, path in sorted(entries, key=lambda entry: entry[0]):
            leftover = path.suffix != _SUFFIX and used < stale
            if total <= self.limit and not leftover:
                continue
            with contextlib.suppress(OSError):
                path.unlink()
                total -= size

    def _path(self, key: str) -> Path | None:
        return None if self.folder is None else self.folder / key[:2] / f"{key}{_SUFFIX}"


def _wrap(binary: bytes) -> bytes:
    return _MAGIC + hashlib.sha256(binary).digest() + binary


def _unwrap(data: bytes) -> bytes | None:
    start = len(_MAGIC) + _DIGEST_BYTES
    binary = data[start:]
    return binary if data == _wrap(binary) else None
