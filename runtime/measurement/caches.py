"""How large a device's caches are, as the system tells it, or else the driver.

In: an OpenCL device. Out: the fields `l1_cache`, `l2_cache` and `l3_cache` of a description, in
bytes. The first is a core's own cache of data, the second its next one, the third the cache that
cores share. 0 stands for an unknown size.
"""

import re
from pathlib import Path
from typing import Any

SYSTEM = Path("/sys/devices/system/cpu/cpu0/cache")
"""Where Linux describes the caches of the first core."""

_SIZE = re.compile(r"(\d+)([KM]?)")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20}


def cache_sizes(handle: Any, is_cpu: bool) -> dict[str, int]:
    """The sizes of a device's caches. What a driver tells stands for the second one."""
    sizes = system_caches(SYSTEM) if is_cpu else {}
    sizes.setdefault(2, int(handle.global_mem_cache_size))
    return {f"l{level}_cache": sizes.get(level, 0) for level in (1, 2, 3)}


def system_caches(folder: Path) -> dict[int, int]:
    """Level to bytes of the caches of data that a folder of Linux's describes."""
    sizes: dict[int, int] = {}
    for index in sorted(folder.glob("index*")):
        try:
            level, kind, size = (
                (index / name).read_text().strip() for name in ("level", "type", "size")
            )
        except OSError:
            continue
        found = _SIZE.fullmatch(size)
        if kind != "Instruction" and level.isdecimal() and found is not None:
            sizes[int(level)] = int(found[1]) * _UNITS[found[2]]
    return sizes
