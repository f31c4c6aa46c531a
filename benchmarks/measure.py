"""Timing: contestants in turn, after a warm-up, and the median of many rounds.

In: functions without arguments, which may give their own time in seconds as a device's clock has
it. Out: seconds by name. Interleaving makes the comparison fair where
the machine's speed drifts; all contestants use as many threads as the machine has cores.
"""

import statistics
import time
from collections.abc import Callable, Mapping

Contestants = Mapping[str, Callable[[], object]]


def seconds_of(function: Callable[[], object]) -> float:
    """The time of one call: what the function says it is, else the wall clock's."""
    start = time.perf_counter()
    measured = function()
    return measured if isinstance(measured, float) else time.perf_counter() - start


def interleaved_medians(contestants: Contestants, budget: float = 2.0) -> dict[str, float]:
    """The median time of each contestant, called in turn until the budget in seconds is spent."""
    warm = sum(seconds_of(function) for function in contestants.values())
    warm = min(warm, sum(seconds_of(function) for function in contestants.values()))
    rounds = max(5, min(200, int(budget / max(warm, 1e-6))))
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, function in contestants.items():
            times[name].append(seconds_of(function))
    return {name: statistics.median(values) for name, values in times.items()}
