"""A report as JSON: the same fields in every version of its schema, for programs that read it.

In: an `OptimizeReport`, and the seconds of each launch where a run was timed. Out: lists, dicts,
numbers and texts. What is unknown is null, and so is a number that JSON lacks.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, cast

from mgn.version import VERSION

SCHEMA = 1
"""Grows when a field goes or means something else; that there are more is no new schema."""


def plain_report(report: Any, seconds: Sequence[float] = ()) -> dict[str, Any]:
    """The report; `seconds` are the times of the launches of a run, in order."""
    extraction = report.extraction
    saturation = cast("dict[str, Any] | None", plain(report.saturation))
    if saturation is not None:  # the extraction has them
        saturation.pop("choices", None)
    return {
        "schema": SCHEMA,
        "mgn": VERSION,
        "graph": report.graph,
        "device": plain(report.device),
        "precision": report.precision,
        "operations": {
            "written": report.operations_before,
            "simplified": getattr(report.saturation, "operations", None),
        },
        "kernels": _kernels(report.kernels, report.device, seconds),
        "prepared": _kernels(report.prepared, report.device, ()),
        "derived": plain(report.derived),
        "memory": plain(report.memory),
        "handed_over": plain(report.handed_over),
        "seconds": {
            "roofline": report.roofline_seconds,
            "measured": report.measured_seconds,
            "prepare": report.prepare_seconds,
            "compile": report.compile_seconds,
        },
        "steps": [{"name": name, "seconds": taken} for name, taken in report.times],
        "distinct_kernels": report.distinct_kernels,
        "from_cache": report.from_cache,
        "recalled": report.recalled,
        "saturation": saturation,
        "extraction": plain(extraction),
        "tuning": plain(report.tuning),
        "loaded": plain(report.loaded),
    }


def report_text(report: Any, seconds: Sequence[float] = ()) -> str:
    """The same as the text of a file."""
    plainly = plain_report(report, seconds)
    return json.dumps(plainly, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _kernels(lines: Sequence[Any], device: Any, seconds: Sequence[float]) -> list[dict[str, Any]]:
    timed = len(seconds) == len(lines)
    return [
        {
            "name": line.name,
            "kind": line.kind,
            "operations": list(line.operations),
            "phases": list(line.phases),
            "work": plain(line.work),
            "roofline_seconds": plain(line.work.roofline_seconds(device)),
            "seconds": plain(seconds[number]) if timed else None,
        }
        for number, line in enumerate(lines)
    ]


def plain(value: object) -> Any:
    """A value of a report as JSON has it."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return value if math.isfinite(value) else None
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in cast(Mapping[Any, Any], value).items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in cast("Sequence[object]", value)]
    return str(value)
