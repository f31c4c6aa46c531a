"""Timing: contestants in turn, after a warm-up, and the median of many rounds.

In: functions without arguments, which may give their own time in seconds as a device's clock has
it. Out: seconds by name. Interleaving makes the comparison fair where the machine's speed drifts;
all contestants use as many threads as the machine has cores.
"""

import statistics
import time
from collections.abc import Callable, Mapping

PAUSE = 0.25
"""Seconds between two contestants: OpenBLAS keeps its threads spinning for tens of milliseconds."""

TURNS = 6
TURN_SECONDS = 0.15
"""How often each contestant has its turn, and how long about one lasts."""

Contestants = Mapping[str, Callable[[], object]]


def seconds_of(function: Callable[[], object]) -> float:
    """The time of one call: what the function says it is, else the wall clock's."""
    start = time.perf_counter()
    measured = function()
    return measured if isinstance(measured, float) else time.perf_counter() - start


def interleaved_medians(contestants: Contestants) -> dict[str, float]:
    """The median time of a call of each contestant, over several turns of each.

    A turn begins with a pause and a call that is not counted: the thread pool of the contestant
    before goes on spinning for a while, and would take a core away.
    """
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(TURNS):
        for name, function in contestants.items():
            time.sleep(PAUSE)
            warm = seconds_of(function)
            calls = max(1, min(50, int(TURN_SECONDS / max(warm, 1e-6))))
            times[name].extend(seconds_of(function) for _ in range(calls))
    return {name: statistics.median(values) for name, values in times.items()}
