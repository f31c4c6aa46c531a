"""One core for a whole benchmark: what the machine does beside it changes the figures less.

In: nothing. Out: the processor's clock, of a process that has one core from here on.
"""

import os
import time
from collections.abc import Callable

Clock = Callable[[], float]


def on_one_core() -> Clock:
    """The clock of the processor; to be called before the first use of a device, which asks how
    many cores there are, and of PyTorch's threads.
    """
    import torch

    os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])
    torch.set_num_threads(1)
    return time.process_time


def timed_by(clock: Clock, call: Callable[[], object]) -> Callable[[], float]:
    """A call that gives its own time, as the clock has it."""

    def seconds() -> float:
        start = clock()
        call()
        return clock() - start

    return seconds
