"""Makes an input that fails smaller, as long as it fails.

In: bytes, and whether others fail in the same way. Out: the fewest bytes found: first whole lines
are left out, then words, then single bytes, in pieces that are halved each time.
"""

import re
import time
from collections.abc import Callable, Sequence

MOST_SECONDS = 60.0
"""For one input."""

_CUTS = (re.compile(rb"[^\n]*\n?"), re.compile(rb"\w+|\s+|."), re.compile(rb"(?s)."))


def smaller(data: bytes, fails: Callable[[bytes], bool], seconds: float = MOST_SECONDS) -> bytes:
    """The smallest input found that still fails. `data` itself where it fails only now and then,
    and where there is no time.
    """
    until = time.monotonic() + min(seconds, MOST_SECONDS)
    if seconds <= 0 or not fails(data):
        return data
    for cut in _CUTS:
        pieces = [piece for piece in cut.findall(data) if piece]
        data = b"".join(_fewer(pieces, fails, until))
    return data


def _fewer(
    pieces: Sequence[bytes], fails: Callable[[bytes], bool], until: float
) -> Sequence[bytes]:
    """Fewer pieces, by leaving out runs of them: half of all first, one alone at last."""
    size = max(len(pieces) // 2, 1)
    while time.monotonic() < until:
        start, left_out = 0, False
        while start < len(pieces) and time.monotonic() < until:
            attempt = [*pieces[:start], *pieces[start + size :]]
            if attempt and fails(b"".join(attempt)):
                pieces, left_out = attempt, True
            else:
                start += size
        if size == 1 and not left_out:
            break
        size = max(size // 2, 1)
    return pieces
