"""Runs of a program that follow one another, as those of a user do.

In: an executable. Out: what times a run of it: on a GPU a share of several runs, so that the host
prepares one while the device computes another.
"""

import time
from collections.abc import Callable

from mgn.executable import Executable

RUNS = 20
"""Runs of a GPU that follow one another."""


def in_a_row(executable: Executable) -> Callable[[], object]:
    """A run; on a GPU the mean of `RUNS` that follow one another, in seconds."""
    if executable.device.kind != "gpu":
        return executable.replay

    def call() -> float:
        start = time.perf_counter()
        executable.replay(times=RUNS)
        return (time.perf_counter() - start) / RUNS

    return call
