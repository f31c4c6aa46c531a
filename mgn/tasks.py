"""What takes long says so: to the log, and where stderr is a terminal, by a line that moves.

In: the name of a task, and how far it is. Out: records of the loggers `mgn.…` (compile, tune, load,
measure, build), and after a second a bar by rich (extra `progress`), which goes when the task ends.
Nothing is shown where stderr is no terminal, rich is missing, or `MGN_PROGRESS=off`.

    with task("load", "loading model.safetensors", total=200) as loading:
        loading.at("layers.0.weight", 1)
"""

import importlib
import importlib.util
import logging
import os
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

VARIABLE = "MGN_PROGRESS"
DELAY = 1.0
"""Seconds that a task may take without a line of its own."""

_OFF = frozenset({"off", "0", "no", "false", "none"})

logging.getLogger("mgn").addHandler(logging.NullHandler())


class Task:
    """A task under way. A task within another is said on the line of the outer one."""

    def __init__(self, text: str, total: float | None, log: logging.Logger) -> None:
        self.text, self.total, self.done = text, total, 0.0
        self.part = ""
        self._log = log

    def at(self, part: str, done: float | None = None) -> None:
        """A part of it begins; `done` is how much of the total there is before it."""
        self.part = part
        if done is not None:
            self.done = done
        self._log.debug("%s: %s", self.text, part)
        _display.renew()


class _Display:
    """The one line that moves, begun by a timer so that short tasks show nothing."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._tasks: list[Task] = []
        self._timer: threading.Timer | None = None
        self._bar: Any = None
        self._row: Any = None
        self._held = 0

    def begin(self, task: Task) -> None:
        with self._lock:
            self._tasks.append(task)
            if len(self._tasks) == 1 and not self._held and can_show():
                self._timer = threading.Timer(DELAY, self._show)
                self._timer.daemon = True
                self._timer.start()
        self.renew()

    def end(self, task: Task) -> None:
        with self._lock:
            if task in self._tasks:
                self._tasks.remove(task)
            if not self._tasks:
                self._stop()
        self.renew()

    def hold(self, held: bool) -> None:
        """Keeps the line away while another bar is on the terminal."""
        with self._lock:
            self._held = max(0, self._held + (1 if held else -1))
            if held:
                self._stop()

    def renew(self) -> None:
        """Says what is going on now."""
        with self._lock:
            if self._bar is None or not self._tasks:
                return
            first = self._tasks[0]
            text, done = self._text(), first.done
            self._bar.update(self._row, description=text, total=first.total, completed=done)

    def _text(self) -> str:
        """The outermost task, and what it is at."""
        first, *inner = self._tasks
        said = inner[-1].text if inner else first.part
        return f"{first.text}: {said}" if said else first.text

    def _show(self) -> None:
        with self._lock:
            if not self._tasks or self._held or self._bar is not None:
                return
            progress: Any = importlib.import_module("rich.progress")
            console: Any = importlib.import_module("rich.console")
            self._bar = progress.Progress(
                progress.SpinnerColumn(),
                progress.TextColumn("{task.description}", markup=False),
                progress.BarColumn(),
                progress.TimeElapsedColumn(),
                console=console.Console(stderr=True),
                transient=True,
            )
            self._row = self._bar.add_task(self._text(), total=self._tasks[0].total)
            self._bar.start()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._bar is not None:
            self._bar.stop()
        self._timer = self._bar = self._row = None


_display = _Display()


def can_show() -> bool:
    """Whether there is a terminal, and what draws on it."""
    stream = sys.stderr
    if os.environ.get(VARIABLE, "").strip().lower() in _OFF or stream is None:
        return False
    return stream.isatty() and importlib.util.find_spec("rich") is not None


@contextmanager
def task(name: str, text: str, total: float | None = None) -> Generator[Task]:
    """A task that may take long, by the name of its logger."""
    log = logging.getLogger(f"mgn.{name}")
    found = Task(text, total, log)
    started = time.perf_counter()
    log.debug("%s", text)
    _display.begin(found)
    try:
        yield found
    finally:
        _display.end(found)
        log.info("%s: %.3f s", text, time.perf_counter() - started)


def hold_line(held: bool) -> None:
    """Keeps the line away while the caller has the terminal for a bar of its own, and no longer."""
    _display.hold(held)
