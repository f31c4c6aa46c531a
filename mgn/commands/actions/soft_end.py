"""Ends a run at a good moment where a signal asks for its end.

In: SIGINT, which Ctrl-C sends, or SIGTERM. Out: the run ends behind the step, or the batch of a
step or an evaluation, that it is at, and is saved; at a second signal it ends at once.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class SoftEnd:
    """Says whether a run is to end: once a signal has come."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.is_asked = False
        self._say = say

    def note(self, number: int, frame: FrameType | None) -> None:
        """Remembers a signal; KeyboardInterrupt at the second one."""
        if self.is_asked:
            raise KeyboardInterrupt
        self.is_asked = True
        self._say(f"{signal.Signals(number).name}: the run ends behind this step")

    def __call__(self) -> bool:
        return self.is_asked


@contextmanager
def soft_end(say: Callable[[str], None]) -> Iterator[SoftEnd]:
    """Takes the signals; those who took them before have them again at the end of the `with`.

    Only a process's main thread can take signals: in another one none are.
    """
    end = SoftEnd(say)
    if threading.current_thread() is not threading.main_thread():
        yield end
        return
    before = {number: signal.signal(number, end.note) for number in SIGNALS}
    try:
        yield end
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
