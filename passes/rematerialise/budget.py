"""Sizes of memory as people write them.

In: `4GiB`, `512 MiB`, `1.5GB` or a number of bytes. Out: bytes, or an MgnError.
"""

import re

from mgn.diagnostics import MgnError

UNITS = {
    "": 1,
    "b": 1,
    **{f"{letter}ib": 1 << 10 * power for power, letter in enumerate("kmgt", 1)},
    **{f"{letter}b": 10 ** (3 * power) for power, letter in enumerate("kmgt", 1)},
}
MOST_BYTES = 1 << 60
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE | re.ASCII)


def parse_bytes(size: int | str, what: str = "memory") -> int:
    """A number of bytes; `what` names the setting in messages. MgnError for what is no size."""
    found = _SIZE.fullmatch(str(size))
    if isinstance(size, bool) or found is None or found[2].lower() not in UNITS:
        raise MgnError(
            f"{what} takes a size such as 4GiB, 512MiB or a number of bytes, not {size!r:.80}; "
            "units are KiB, MiB, GiB, TiB and KB, MB, GB, TB"
        )
    bytes = int(float(found[1]) * UNITS[found[2].lower()]) if found[2] else int(float(found[1]))
    if not 1 <= bytes <= MOST_BYTES:
        raise MgnError(f"{what} takes a size from 1 byte to 1024 PiB, not {size!r:.80}")
    return bytes


def bytes_text(size: float) -> str:
    """A size with a fitting unit, as `parse_bytes` reads it."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} GiB"
