"""Curves of a run: a picture, and event files for TensorBoard.

In: a `History`. Out: a PNG by matplotlib (extra `curves`), or a folder of event files (extra
`tensorboard`).
"""

import io
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mgn.diagnostics import MgnError, argument_name
from mgn.modules.files import check_target, write_whole
from mgn.runtime.weights import is_special
from mgn.training.run.extras import need
from mgn.training.run.history import Evaluation, History, StepRecord

SMOOTHING = 0.05
"""How much of the smoothed loss is the newest step's, in long runs."""

_MARK = "mgn training curves of run"
_PURPOSE = "writing event files"


class Curves:
    """A picture of the loss and of the evaluations by step, which is drawn anew each time."""

    def __init__(self, path: str | Path, run: str, overwrite: bool) -> None:
        need("matplotlib.figure", "curves", "a picture of curves")
        check_target(path)
        if Path(path).suffix.lower() != ".png":
            raise MgnError(f"curves are a picture whose name ends in .png, not '{path}'")
        self.path = Path(path)
        self.mark = f"{_MARK} {run}"
        if is_special(self.path):
            raise MgnError(f"'{self.path}' is there and no file: it is not replaced")
        if self.path.exists():
            self._refuse(self.path.read_bytes(), overwrite)

    def draw(self, history: History) -> None:
        """Writes the picture. MgnError where that cannot be."""
        write_whole(self.path, picture(history, self.mark))

    def _refuse(self, data: bytes, overwrite: bool) -> None:
        """MgnError where the file is not this run's, nor one that may be replaced."""
        if self.mark.encode() in data:
            return
        if _MARK.encode() not in data:
            raise MgnError(f"'{self.path}' is there and no picture of curves: it is not replaced")
        if not overwrite:
            raise MgnError(
                f"'{self.path}' has the curves of another run; {argument_name('overwrite')} draws "
                "over them"
            )


def picture(history: History, mark: str = _MARK) -> bytes:
    """The curves of a history as a PNG."""
    figures: Any = need("matplotlib.figure", "curves", "a picture of curves")
    figure = figures.Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    steps = [record.step for record in history.steps]
    axes.plot(steps, history.losses, color="C0", alpha=0.3, linewidth=0.8)
    axes.plot(steps, smoothed(history.losses), color="C0", label=f"{history.loss}, smoothed")
    if history.losses and min(history.losses) > 0:
        axes.set_yscale("log")
    axes.set_xlabel("step")
    axes.set_ylabel(history.loss)
    others = None
    at = [record.step for record in history.evaluations]
    for number, (name, values) in enumerate(history.metrics.items(), 1):
        place = axes
        if name != history.loss:
            others = axes.twinx() if others is None else others
            place = others
        place.plot(at, values, f"C{number}.-", label=f"{name}, evaluated")
    if others is not None:
        others.set_ylabel(", ".join(name for name in history.metrics if name != history.loss))
    figure.legend(loc="outside upper center", ncols=4, frameon=False)
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=120, metadata={"Description": mark})
    return stream.getvalue()


def smoothed(values: list[float]) -> list[float]:
    """A running mean: of all values at first, later of the last twenty or so."""
    found: list[float] = []
    for count, value in enumerate(values, 1):
        share = max(SMOOTHING, 1 / count)
        found.append(value if not found else found[-1] + share * (value - found[-1]))
    return found


class EventFiles:
    """Scalars for TensorBoard, in a new file of a folder. MgnError where there can be none."""

    def __init__(self, folder: str | Path) -> None:
        self._protos: Any = need("tensorboard.compat.proto.event_pb2", "tensorboard", _PURPOSE)
        self._summaries: Any = need("tensorboard.compat.proto.summary_pb2", "tensorboard", _PURPOSE)
        writers: Any = need("tensorboard.summary.writer.event_file_writer", "tensorboard", _PURPOSE)
        if Path(folder).exists() and not Path(folder).is_dir():
            raise MgnError(f"event files go into a folder, and '{folder}' is none")
        try:
            self._writer = writers.EventFileWriter(str(folder))
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise MgnError(f"cannot write event files into '{folder}': {reason}") from None

    def add(self, record: StepRecord | Evaluation) -> None:
        """Adds what a step or an evaluation gave."""
        group = "train" if isinstance(record, StepRecord) else "evaluation"
        self._write(
            {f"{group}/{name}": value for name, value in record.values.items()}, record.step
        )
        if isinstance(record, StepRecord):
            norms = {f"norm/{name}": value for name, value in record.norms.items()}
            self._write(norms, record.step)

    def close(self) -> None:
        """Writes what is not written yet."""
        self._writer.close()

    def _write(self, values: Mapping[str, float], step: int) -> None:
        if not values:
            return
        rows = [
            self._summaries.Summary.Value(tag=name, simple_value=value)
            for name, value in values.items()
        ]
        summary = self._summaries.Summary(value=rows)
        event = self._protos.Event(wall_time=time.time(), step=step, summary=summary)
        self._writer.add_event(event)
