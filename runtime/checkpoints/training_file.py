"""What tells a checkpoint of training from other safetensors files.

In: a file. Out: the fields that training notes in its header, and the run that wrote it.
"""

import json
from pathlib import Path
from typing import Any

from mgn.runtime.weights import is_special

KEY = "mgn.checkpoint"
"""What a checkpoint's metadata has, and no other file."""

METADATA = "__metadata__"
"""What is no array among the entries of a safetensors file."""

LENGTH_OF_HEADER = 8
"""Bytes that say how long a header is."""

_LONGEST_HEADER = 100_000_000


def run_of(path: Path) -> str | None:
    """The run that wrote a file; None where it is no checkpoint. Only its header is read."""
    if is_special(path):
        return None
    try:
        with path.open("rb") as file:
            start = file.read(LENGTH_OF_HEADER)
            length = int.from_bytes(start, "little")
            if length > _LONGEST_HEADER:
                return None
            fields = metadata_of(start, file.read(length))
    except OSError:
        return None
    run = (fields or {}).get("run")
    return run if isinstance(run, str) else None


def metadata_of(start: bytes, rest: bytes) -> dict[str, Any] | None:
    """The fields of a checkpoint's metadata; None where a file has none."""
    length = int.from_bytes(start, "little")
    try:
        fields = json.loads(json.loads(rest[:length])[METADATA][KEY])
    except (ValueError, KeyError, TypeError):
        return None
    return fields if isinstance(fields, dict) else None
