"""Schedules that won a search, on disk, for later compilations.

In: a scheduled kernel. Out: the numbers to fix for the schedule that was measured to be better on
this device with this driver and version of mgn, where there is one. The key is the kernel's
structure: its operations, shapes and element types, and the schedule that is chosen without
measuring.
"""

import hashlib
import json
from pathlib import Path
from typing import Any, cast

from mgn.dialects.fusion import FusedKernelOp, ScheduleAttr
from mgn.passes.kernels.structure import structure
from mgn.passes.schedules.core.schedule import Entries
from mgn.passes.schedules.space import Space
from mgn.runtime.cache import KernelCache, kernel_key
from mgn.runtime.location import cache_folder, kept_file

LIMIT = 8 << 20
"""Bytes that all entries of a device may take."""


class ScheduleStore:
    """The tuned schedules of one device and target. Without a folder nothing is kept."""

    def __init__(self, folder: Path | None, identity: str) -> None:
        self._identity = identity
        name = f"tuning-{hashlib.sha256(identity.encode()).hexdigest()[:16]}"
        self._cache = KernelCache(None if folder is None else folder / name, LIMIT)

    @staticmethod
    def default(identity: str) -> "ScheduleStore":
        """The user's, where `MGN_CACHE_DIR` puts it."""
        root = cache_folder()
        return ScheduleStore(None if root is None else root, identity)

    @property
    def state(self) -> str:
        """A digest of all entries: a graph compiled under another state may come out otherwise.
        Empty where there are none.
        """
        entries = self._cache.entries()
        if not entries:
            return ""
        digest = hashlib.sha256()
        for path in entries:
            digest.update(path.name.encode() + (kept_file(path, LIMIT) or b""))
        return digest.hexdigest()

    def load(self, space: Space) -> Entries | None:
        """The numbers that are fixed for a kernel; None where there are none that can be read."""
        assert space.fused.schedule is not None
        data = self._cache.load(self._key(space.fused, space.fused.schedule))
        return None if data is None else fixed_of(data, space)

    def save(self, fused: FusedKernelOp, first: ScheduleAttr, fixed: Entries) -> None:
        """Keeps the numbers to fix for a kernel; `first` was chosen without measuring."""
        text = json.dumps(dict(fixed), sort_keys=True)
        self._cache.store(self._key(fused, first), text.encode())

    def _key(self, fused: FusedKernelOp, first: ScheduleAttr) -> str:
        held, fused.schedule = fused.schedule, first
        parts = structure(fused)
        fused.schedule = held
        assert isinstance(parts, tuple)
        return kernel_key("\n".join(map(str, parts)), (), self._identity)  # pyright: ignore


def fixed_of(data: bytes, space: Space) -> Entries | None:
    """The fixed numbers that the content of an entry says; None where no search can have found
    them.
    """
    try:
        found: Any = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    fixed = cast(dict[str, Any], found)
    return fixed if space.allows(fixed) else None
