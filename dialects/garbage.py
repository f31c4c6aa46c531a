"""Python's cycle collector, paused while much IR is made.

IR is full of cycles (operations know their operands, values their uses), and while a program is
read, saturated or lowered nearly all of it is in use: the collector would walk the growing program
again and again and find nothing.
"""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Generator[None]:
    """No looking for garbage inside; afterwards as it was before, so pauses may be nested."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
