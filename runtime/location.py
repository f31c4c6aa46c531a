"""Where the runtime keeps files between runs, and how it writes them.

In: the environment (`MGN_CACHE_DIR`; `off` turns the cache off). Out: a folder of mgn's own in the
one that was chosen, and writes that another process sees whole or not at all.

What a user has in the chosen folder stays as it is, whatever it is called: mgn looks at nothing
outside `mgn-cache`, and uses that only with the mark that it left there. Links are not followed.
"""

import os
import stat
import warnings
from pathlib import Path

import platformdirs

from mgn.runtime.whole_files import TEMPORARY, replace_file

CACHE_VARIABLE = "MGN_CACHE_DIR"
FIGURES_VARIABLE = "MGN_DEVICE_FIGURES"
"""Names the user's file of device figures, which is read and never written."""
OWN_FOLDER = "mgn-cache"
MARK = "CACHEDIR.TAG"
_MARKED = b"""\
Signature: 8a477f597d28d172789f06886806bc55
# This file marks a cache of mgn, which may be deleted: https://bford.info/cachedir/
"""
_OFF = frozenset({"off", "none", "0"})


class CacheWarning(UserWarning):
    """The folder that `MGN_CACHE_DIR` chooses keeps nothing."""


def cache_folder() -> Path | None:
    """The folder for cached files; None where caching is turned off, or no folder can be ours. A
    folder that was chosen and cannot be used is a `CacheWarning`.
    """
    chosen = os.environ.get(CACHE_VARIABLE, "").strip()
    if chosen.lower() in _OFF:
        return None
    root = Path(chosen) if chosen else platformdirs.user_cache_path("mgn", appauthor=False)
    folder = claimed(root.absolute() / OWN_FOLDER)
    if chosen and (folder is None or not os.access(folder, os.W_OK)):
        text = f"{CACHE_VARIABLE}: {root} cannot be written, so that nothing is kept in it"
        warnings.warn(text, CacheWarning, stacklevel=2)
    return folder


def claimed(folder: Path) -> Path | None:
    """A folder with mgn's mark, which one gets that is new or empty; None for any other."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not is_real_folder(folder):
            return None
        if all(TEMPORARY.fullmatch(path.name) for path in folder.iterdir()):  # new
            replace_file(folder / MARK, _MARKED)
        return folder if _is_marked(folder) else None
    except (OSError, ValueError):
        return None


def keep_file(path: Path, data: bytes) -> bool:
    """Puts a file into a folder of the cache. False, and nothing changed, where that cannot be.

    The folder and the one above it are made where they are missing.
    """
    try:
        for folder in (path.parent.parent, path.parent):
            folder.mkdir(parents=True, exist_ok=True)
            if not is_real_folder(folder):
                return False
        replace_file(path, data)
    except (OSError, ValueError):
        return False
    return True


def kept_file(path: Path, most: int) -> bytes | None:
    """The content of a file of the cache. None where there is none of at most so many bytes."""
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > most:
            return None
        with path.open("rb") as file:
            data = file.read(most + 1)
    except (OSError, ValueError):
        return None
    return data if len(data) <= most else None


def is_real_folder(path: Path) -> bool:
    """Whether there is a folder at a path, and not a link to one."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def _is_marked(folder: Path) -> bool:
    return kept_file(folder / MARK, len(_MARKED)) == _MARKED
