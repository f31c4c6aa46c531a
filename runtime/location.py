"""Where the runtime keeps files between runs, and how it writes them.

In: the environment (`MGN_CACHE_DIR`; `off` turns the cache off). Out: a folder, and writes that
another process sees whole or not at all.
"""

import os
from pathlib import Path

import platformdirs

from mgn.runtime.whole_files import write_file

CACHE_VARIABLE = "MGN_CACHE_DIR"
_OFF = frozenset({"off", "none", "0"})


def cache_folder() -> Path | None:
    """The folder for cached files, which need not exist yet; None where caching is turned off."""
    chosen = os.environ.get(CACHE_VARIABLE, "").strip()
    if chosen.lower() in _OFF:
        return None
    return Path(chosen) if chosen else platformdirs.user_cache_path("mgn", appauthor=False)


def write_atomically(path: Path, data: bytes) -> bool:
    """Put a file in place in one step. False, and nothing changed, where the disk refuses."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, data)
    except OSError:
        return False
    return True
