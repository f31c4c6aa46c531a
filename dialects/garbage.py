"""Python's cycle collector, paused while much IR is made.

IR is full of cycles: operations know their operands, and values their uses. While a program is
read, saturated or lowered, nearly all of it is in use. The collector would walk the growing program
again and again, and find nothing.
"""

import gc
from collections.abc import Generator
from contextlib import contextmanager

MOST_UNSEEN = 2_000_000
"""Objects that pauses may leave unseen before the next pause ends with a look at all of them."""

_unseen = 0


@contextmanager
def collector_paused() -> Generator[None]:
    """No looking for garbage inside; afterwards as it was before, so pauses may be nested.

    What was made inside counts as old afterwards, and is looked at when old objects are.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            _make_old()
            gc.enable()


def _make_old() -> None:
    """Moves young objects to the oldest generation, which takes no time, or looks at all."""
    global _unseen
    _unseen += gc.get_count()[0]
    if _unseen > MOST_UNSEEN:
        _unseen = 0
        gc.collect()
    elif gc.get_freeze_count() == 0:
        gc.freeze()
        gc.unfreeze()


@contextmanager
def collector_running() -> Generator[None]:
    """Garbage is looked for inside a pause, where much IR is made and dropped."""
    was_enabled = gc.isenabled()
    gc.enable()
    try:
        yield
    finally:
        if not was_enabled:
            gc.disable()
