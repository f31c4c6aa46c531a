"""Built kernels on disk, so that a second process need not build them again.

In: a key made of everything that fixes a binary. Out: the binary, or None. A file that is damaged,
a folder that cannot be written, another process at work: each costs a build and never an error.
Only files that are called as the cache calls them are deleted, and none that a link leads to.
"""

import contextlib
import hashlib
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from mgn.runtime.location import cache_folder, is_real_folder, keep_file, kept_file
from mgn.runtime.whole_files import TEMPORARY
from mgn.version import VERSION

_MAGIC = b"MGNKERN2"
_DIGEST_BYTES = hashlib.sha256().digest_size
_SUFFIX = ".kernel"
_SHARD = re.compile(r"[0-9a-f]{2}")
_NAME = re.compile(r"[0-9a-f]{64}\.kernel")
_OWN = re.compile(f"{_NAME.pattern}|{TEMPORARY.pattern}")
_LEFTOVER_SECONDS = 3600.0

_written: dict[Path, int] = {}
"""Bytes that this process has put into each folder since it looked through it: every program has a
cache of its own, and to look through a large folder takes longer than to build a kernel.
"""


def kernel_key(program: str | bytes, options: Sequence[str], device: str) -> str:
    """The key of a binary of a source text or SPIR-V: `device` must name hardware and driver."""
    text = program if isinstance(program, str) else f"SPIR-V {program.hex()}"
    parts = (VERSION, device, *options, text)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


class KernelCache:
    """A folder of binaries of at most `limit` bytes; the least recently used go first.

    Without a folder (`MGN_CACHE_DIR=off`) nothing is kept and nothing is found.
    """

    def __init__(self, folder: Path | None = None, limit: int = 512 << 20) -> None:
        self.folder = folder
        self.limit = limit

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
        data = kept_file(path, self.limit)
        if data is None:
            return None
        binary = opened(key, data)
        if binary is None:
            self.discard(key)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return binary

    def store(self, key: str, binary: bytes) -> bool:
        """Keep a binary. False where the disk refuses."""
        path = self._path(key)
        if self.folder is None or path is None or not keep_file(path, sealed(key, binary)):
            return False
        written = _written.get(self.folder, self.limit) + len(binary)
        _written[self.folder] = written
        if written > self.limit // 8:
            self.trim()
        return True

    def discard(self, key: str) -> None:
        """Forget a binary, such as one that the driver refuses."""
        path = self._path(key)
        if path is not None and is_real_folder(path.parent) and is_real_folder(path.parent.parent):
            _delete(path)

    def trim(self) -> None:
        """Delete the least recently used files until the rest fits, and leftovers of crashes."""
        if self.folder is not None:
            _written[self.folder] = 0
        entries: list[tuple[float, int, Path]] = []
        stale = time.time() - _LEFTOVER_SECONDS
        for path, status in self._files():
            if _NAME.fullmatch(path.name):
                entries.append((status.st_mtime, status.st_size, path))
            elif status.st_mtime < stale:
                _delete(path)
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries, key=lambda entry: entry[0]):
            if total <= self.limit:
                return
            _delete(path)
            total -= size

    def entries(self) -> list[Path]:
        """The files of all binaries, in the order of their names."""
        return sorted(path for path, _ in self._files() if _NAME.fullmatch(path.name))

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        """The cache's own files, whole ones and leftovers: no other names, and no links."""
        if self.folder is None or not is_real_folder(self.folder):
            return
        for shard, status in _called(self.folder, _SHARD):
            if not stat.S_ISDIR(status.st_mode):
                continue
            for path, inner in _called(shard, _OWN):
                if stat.S_ISREG(inner.st_mode):
                    yield path, inner

    def _path(self, key: str) -> Path | None:
        return None if self.folder is None else self.folder / key[:2] / f"{key}{_SUFFIX}"


def _called(folder: Path, names: re.Pattern[str]) -> list[tuple[Path, os.stat_result]]:
    """What is in a folder under such names, and what each is itself; nothing for no folder."""
    found: list[tuple[Path, os.stat_result]] = []
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if names.fullmatch(path.name):
                with contextlib.suppress(OSError):
                    found.append((path, path.lstat()))
    return found


def _delete(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def sealed(key: str, binary: bytes) -> bytes:
    """A binary that tells whether it is whole, and the one that was stored under its key."""
    return _MAGIC + hashlib.sha256(key.encode() + b"\0" + binary).digest() + binary


def opened(key: str, data: bytes) -> bytes | None:
    """The binary that was sealed under a key; None for any other content."""
    binary = data[len(_MAGIC) + _DIGEST_BYTES :]
    return binary if data == sealed(key, binary) else None
