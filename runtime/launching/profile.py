"""What one run's launches took, and the same as a trace that Perfetto and Chrome open.

In: the events of a profiled run. Out: `LaunchTime` rows, or a JSON file.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mgn.runtime.errors import RuntimeFault
from mgn.runtime.whole_files import write_file


@dataclass(frozen=True)
class LaunchTime:
    """One launch on the device: when it started after the run's first, and how long it took."""

    step: int
    kernel: str
    start: float
    seconds: float


def launch_times(names: Sequence[str], events: Sequence[Any]) -> list[LaunchTime]:
    """The times of finished launches, in order."""
    if not events:
        return []
    origin = events[0].profile.start
    return [
        LaunchTime(
            step=step,
            kernel=name,
            start=(event.profile.start - origin) * 1e-9,
            seconds=(event.profile.end - event.profile.start) * 1e-9,
        )
        for step, (name, event) in enumerate(zip(names, events, strict=True))
    ]


def write_trace(path: str | Path, program: str, device: str, times: Sequence[LaunchTime]) -> None:
    """Write a trace in Chrome's JSON format. RuntimeFault where the file cannot be written."""
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": 1, "tid": 1, "name": "process_name", "args": {"name": device}},
        {"ph": "M", "pid": 1, "tid": 1, "name": "thread_name", "args": {"name": program}},
    ]
    events += [
        {
            "ph": "X",
            "pid": 1,
            "tid": 1,
            "name": time.kernel,
            "cat": "kernel",
            "ts": time.start * 1e6,
            "dur": time.seconds * 1e6,
            "args": {"step": time.step},
        }
        for time in times
    ]
    text = json.dumps({"traceEvents": events, "displayTimeUnit": "ns"})
    try:
        write_file(path, text.encode())
    except OSError as error:
        raise RuntimeFault(f"cannot write the trace {path}: {error.strerror or error}") from None
