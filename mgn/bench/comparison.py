"""A graph timed alone or beside its peers, in turns, once all were seen to agree.

In: a `Subject` and names of peers. Out: `Row`s: median and least time, the time over mgn's, the
share of the device's ceiling. MgnError where results differ: then nothing is timed.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from mgn.bench.peers import Call, Subject, call_of, relative_error, replay_of
from mgn.bench.timing import APART, SHARED, interleaved_times
from mgn.diagnostics import MgnError
from mgn.driver.quantities import seconds_text

TOLERANCES = {"f32": 1e-4, "tf32": 2e-3, "bf16": 2e-2, "f16": 4e-3, "bf16-stored": 4e-2}
"""Largest accepted difference relative to the largest magnitude, by what products round to."""

HALF = 2e-2
"""The same for results in half precision."""

OWN = "mgn"

WARMING_CALLS = 3
LEAST_CALLS = 5


@dataclass(frozen=True)
class Row:
    """One contestant: seconds, how many calls were timed, its median over mgn's, the share of the
    device's ceiling that its median comes to, and the largest error against mgn.
    """

    name: str
    median: float
    least: float
    calls: int
    over_mgn: float
    ceiling: float
    error: float | None


def compared(
    subject: Subject, against: Sequence[str], tolerance: float | None = None, turns: int = 0
) -> list[Row]:
    """The rows, mgn's first."""
    found = subject.executable.run(subject.inputs)
    calls = {name: call_of(name, subject) for name in dict.fromkeys(against)}
    precision = subject.executable.recipe.precision
    errors = {
        name: _agreed(name, call, found, tolerance, TOLERANCES[precision])
        for name, call in calls.items()
    }
    contestants = {OWN: replay_of(subject.executable)}
    contestants |= {name: call.timed for name, call in calls.items()}
    for call in contestants.values():  # what is made at a first call is not what is timed
        for _ in range(WARMING_CALLS):
            call()
    usual = APART if subject.on_gpu else SHARED
    chosen = replace(usual, count=turns or usual.count, least=LEAST_CALLS)
    times = interleaved_times(contestants, chosen)
    own = statistics.median(times[OWN])
    ceiling = subject.executable.report.roofline_seconds
    return [
        Row(
            name,
            statistics.median(values),
            min(values),
            len(values),
            statistics.median(values) / own,
            ceiling / statistics.median(values),
            errors.get(name),
        )
        for name, values in times.items()
    ]


def _agreed(
    name: str,
    call: Call,
    found: Mapping[str, np.ndarray],
    tolerance: float | None,
    usual: float,
) -> float:
    """The largest error of a peer's results. MgnError where it is too large."""
    worst = 0.0
    for output, array in found.items():
        error = relative_error(call.results[output], array)
        is_half = array.dtype.itemsize == 2 and array.dtype.kind in "fV"
        allowed = tolerance if tolerance is not None else max(usual, HALF if is_half else 0.0)
        if not error <= allowed:
            raise MgnError(
                f"mgn and {name} do not agree, and nothing is timed: output '{output}' differs by "
                f"{error:.3g} of its largest magnitude, where {allowed:.3g} is allowed; "
                "--tolerance allows another difference"
            )
        worst = max(worst, error)
    return worst


def table(rows: Sequence[Row]) -> str:
    """The rows for people."""
    lines = [f"{'':<12} {'median':>10} {'min':>10} {'over mgn':>9} {'ceiling':>8} {'calls':>6}"]
    lines[0] += f" {'error':>8}"
    for row in rows:
        error = "" if row.error is None else f"{row.error:.1e}"
        lines.append(
            f"{row.name:<12} {seconds_text(row.median):>10} {seconds_text(row.least):>10} "
            f"{row.over_mgn:>8.2f}x {100 * row.ceiling:>7.1f}% {row.calls:>6} {error:>8}".rstrip()
        )
    return "\n".join(lines)


def plain(rows: Sequence[Row]) -> list[dict[str, object]]:
    """The rows for programs."""
    return [asdict(row) for row in rows]
