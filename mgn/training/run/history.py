"""What a run was: its losses and evaluations, in memory and as a log of JSON lines.

In: a value for each step, and for each evaluation. Out: `History`, and a file of lines:

    {"mgn": "training log", "run": "5f0c…", "configuration": {"graph": "loss", …}}
    {"step": 1, "epoch": 0, "seconds": 0.021, "results": {"loss": 2.41}}
    {"step": 22, "epoch": 1, "evaluation": {"loss": 0.31, "accuracy": 0.94}}

JSON has no NaN and no infinity: they are texts, `"nan"`, `"inf"`, `"-inf"`.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mgn.diagnostics import MgnError, argument_name
from mgn.modules.files import check_target, write_whole
from mgn.runtime.weights import is_special
from mgn.training.step.loss_scale import SKIPPED

KIND = "training log"
"""What the first line of a log has."""


@dataclass(frozen=True)
class StepRecord:
    """A step: its number, from 1 on, its epoch, its time, and what the graph gave as scalars."""

    step: int
    epoch: int
    seconds: float
    values: dict[str, float]
    norms: dict[str, float] = field(default_factory=dict)
    """The norm of each parameter, where that was asked for."""


@dataclass(frozen=True)
class Evaluation:
    """The loss and the metrics on examples that were not trained on."""

    step: int
    epoch: int
    values: dict[str, float]


@dataclass
class History:
    """The steps and evaluations of a run in their order; `loss` names the loss among values."""

    loss: str = "loss"
    steps: list[StepRecord] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)
    stopped: str | None = None
    """Why the run ended before its last step; None where it did not."""

    @property
    def losses(self) -> list[float]:
        """The loss of each step."""
        return [record.values[self.loss] for record in self.steps]

    @property
    def skipped(self) -> int:
        """How many steps were skipped, since their gradients were not finite."""
        return sum(1 for record in self.steps if record.values.get(SKIPPED))

    @property
    def metrics(self) -> dict[str, list[float]]:
        """What each evaluation gave, by name."""
        names = dict.fromkeys(name for record in self.evaluations for name in record.values)
        return {
            name: [record.values.get(name, math.nan) for record in self.evaluations]
            for name in names
        }

    def add(self, record: StepRecord | Evaluation) -> None:
        """Adds what a step or an evaluation gave."""
        if isinstance(record, StepRecord):
            self.steps.append(record)
        else:
            self.evaluations.append(record)

    def __repr__(self) -> str:
        last = f", {self.loss}={self.losses[-1]:.6g}" if self.steps else ""
        shown = [f", {name}={values[-1]:.6g}" for name, values in self.metrics.items()]
        return f"History(steps={len(self.steps)}{last}{''.join(shown)})"


class JsonLog:
    """A history as a file of JSON lines, which grows by a line at a time."""

    def __init__(self, path: Path, run: str) -> None:
        self.path = path
        self.run = run

    @staticmethod
    def begin(
        path: str | Path, run: str, configuration: Mapping[str, Any], overwrite: bool
    ) -> "JsonLog":
        """A new log. MgnError where a file is there that it is not to replace."""
        check_target(path)
        place = Path(path)
        if place.exists():
            held = _head(place)
            if held is None:
                raise MgnError(f"'{path}' is there and is no training log: it is not replaced")
            if not overwrite:
                raise MgnError(
                    f"'{path}' is the log of another run; {argument_name('overwrite')} begins anew "
                    "in its place, and another name keeps both"
                )
        write_whole(place, _line({"mgn": KIND, "run": run, "configuration": dict(configuration)}))
        return JsonLog(place, run)

    @staticmethod
    def resume(path: str | Path, run: str, step: int, history: History) -> "JsonLog | None":
        """The log of a run up to a step, whose records go into a history; None where there is none.

        MgnError where the file is something else.
        """
        place = Path(path)
        if not place.exists():
            return None
        head = _head(place)
        if head is None or head.get("run") != run:
            raise MgnError(f"'{path}' is not the log of the run that is resumed: it stays as it is")
        first, *lines = place.read_bytes().splitlines(keepends=True)
        kept = [first]
        for line in lines:
            record = _record(line)
            if record is None or record.step > step:
                break
            kept.append(line)
            history.add(record)
        write_whole(place, b"".join(kept))
        return JsonLog(place, run)

    def add(self, record: StepRecord | Evaluation) -> None:
        """Adds a line. MgnError where that cannot be."""
        fields: dict[str, Any] = {"step": record.step, "epoch": record.epoch}
        if isinstance(record, StepRecord):
            fields |= {"seconds": round(record.seconds, 6), "results": _written(record.values)}
            fields |= {"norms": _written(record.norms)} if record.norms else {}
        else:
            fields["evaluation"] = _written(record.values)
        try:
            with self.path.open("ab") as file:
                file.write(_line(fields))
        except OSError as error:
            raise MgnError(f"cannot write '{self.path}': {error.strerror or error}") from None


def read_log(path: str | Path, loss: str = "loss") -> History:
    """The history in a log. MgnError where the file is none."""
    history = History(loss)
    if not is_log(path):
        raise MgnError(f"'{path}' is no training log")
    for record in map(_record, Path(path).read_bytes().splitlines()):
        if record is not None:
            history.add(record)
    return history


def is_log(path: str | Path) -> bool:
    """Whether a file is a training log."""
    return _head(Path(path)) is not None


def _record(line: bytes) -> StepRecord | Evaluation | None:
    """What a line says; None for one that was cut off or damaged, and for the first of a log."""
    fields = _parsed(line) or {}
    try:
        step, epoch = int(fields["step"]), int(fields["epoch"])
        if "evaluation" in fields:
            return Evaluation(step, epoch, _read(fields["evaluation"]))
        seconds, norms = float(fields["seconds"]), _read(fields.get("norms", {}))
        return StepRecord(step, epoch, seconds, _read(fields["results"]), norms)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None


def _line(fields: Mapping[str, Any]) -> bytes:
    return (json.dumps(fields, allow_nan=False, ensure_ascii=False) + "\n").encode()


def _written(values: Mapping[str, float]) -> dict[str, float | str]:
    return {name: value if math.isfinite(value) else str(value) for name, value in values.items()}


def _read(values: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in values.items()}


def _head(path: Path) -> dict[str, Any] | None:
    """The first line of a log; None where the file is none."""
    if is_special(path):
        return None
    try:
        with path.open("rb") as file:
            head = _parsed(file.readline(1 << 20))
    except OSError:
        return None
    return head if head is not None and head.get("mgn") == KIND else None


def _parsed(line: bytes) -> dict[str, Any] | None:
    """A line's record; None for one that was cut off."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None
