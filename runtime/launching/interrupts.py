"""Ctrl-C waits for the end of a run that writes states, so that these are never half written.

In: steps under `uninterrupted`. Out: the interrupt, once they are done. Nothing is lost by that:
a call of the driver cannot be interrupted either, and a run is a few of them.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Keeps an interrupt back until what is inside has ended. In a thread other than the main one,
    where Python raises none, and in a program that handles them itself outside of Python, it does
    nothing.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or handler is None:
        yield
        return
    kept: list[int] = []

    def keep(number: int, frame: FrameType | None) -> None:
        kept.append(number)

    signal.signal(signal.SIGINT, keep)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if kept:
            signal.raise_signal(signal.SIGINT)
