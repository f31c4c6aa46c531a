"""Timing: contestants in turn, after a warm-up, and the median of many rounds.

In: functions without arguments, which may give their own time in seconds as a device's clock has
it. Out: seconds by name. Interleaving makes the comparison fair where the machine's speed drifts;
all contestants use as many threads as the machine has cores.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Turns:
    """How many turns each contestant has, how long about one lasts, the pause before it, and how
    many calls there are at least, unless one takes `TOO_LONG`.
    """

    count: int
    seconds: float
    pause: float
    least: int = 1


SHARED = Turns(6, 0.15, 0.25)
"""Contestants that share cores: OpenBLAS keeps its threads spinning for tens of milliseconds."""

APART = Turns(2, 0.04, 0.0)
"""Contestants on a device whose own events time them."""

TOO_LONG = 2.0
"""Seconds of a call after which a contestant has no further turn."""

Contestants = Mapping[str, Callable[[], object]]


def seconds_of(function: Callable[[], object]) -> float:
    """The time of one call: what the function says it is, else the wall clock's."""
    start = time.perf_counter()
    measured = function()
    return measured if isinstance(measured, float) else time.perf_counter() - start


def interleaved_times(contestants: Contestants, turns: Turns = SHARED) -> dict[str, list[float]]:
    """The times of the calls of each contestant, over several turns of each.

    A turn begins with a pause and a call that is not counted: the thread pool of the contestant
    before goes on spinning for a while, and would take a core away. A contestant whose call takes
    longer than `TOO_LONG` has one turn.
    """
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(turns.count):
        for name, function in contestants.items():
            if any(seconds > TOO_LONG for seconds in times[name]):
                continue
            time.sleep(turns.pause)
            warm = seconds_of(function)
            least = turns.least if warm < TOO_LONG else 1
            calls = max(least, min(50, int(turns.seconds / max(warm, 1e-6))))
            times[name].extend(seconds_of(function) for _ in range(calls))
    return times


def interleaved_medians(contestants: Contestants, turns: Turns = SHARED) -> dict[str, float]:
    """The median time of a call of each contestant, over several turns of each."""
    times = interleaved_times(contestants, turns)
    return {name: statistics.median(values) for name, values in times.items()}
