"""A progress bar with loss and rate: on a terminal, and nowhere else.

In: how far a run is. Out: a bar by rich (extra `progress`) on stderr; where there is none, lines
for whoever takes them.
"""

import importlib.util
import sys
from collections.abc import Callable
from typing import Any, Protocol

from mgn.diagnostics import printable
from mgn.tasks import hold_line
from mgn.training.run.extras import need


class Progress(Protocol):
    """What shows how far a run is."""

    def begin(self, total: int | None, done: int) -> None:
        """A run of so many steps, where that is known, begins or goes on."""
        ...

    def step(self, done: int, text: str) -> None:
        """A step is done; the text has its epoch, loss and rate."""
        ...

    def say(self, text: str) -> None:
        """A line for the reader, such as an evaluation."""
        ...

    def end(self) -> None:
        """Nothing more comes."""
        ...


class Silence:
    """Shows nothing; lines go where `say` puts them."""

    def __init__(self, say: Callable[[str], None] | None = None) -> None:
        self._say = say

    def begin(self, total: int | None, done: int) -> None:
        """Nothing is shown."""

    def step(self, done: int, text: str) -> None:
        """Nothing is shown."""

    def say(self, text: str) -> None:
        """Gives a line to whoever wants it."""
        if self._say is not None:
            self._say(text)

    def end(self) -> None:
        """Nothing is shown."""


class Bar:
    """A bar on a terminal."""

    def __init__(self, console: Any) -> None:
        progress: Any = need("rich.progress", "progress", "a progress bar")
        self._bar = progress.Progress(
            progress.TextColumn("{task.fields[text]}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TimeRemainingColumn(),
            console=console,
        )
        self._task: Any = None

    def begin(self, total: int | None, done: int) -> None:
        """Shows the bar."""
        self._task = self._bar.add_task("", total=total, completed=done, text="")
        hold_line(True)
        self._bar.start()

    def step(self, done: int, text: str) -> None:
        """Moves it on."""
        self._bar.update(self._task, completed=done, text=text)

    def say(self, text: str) -> None:
        """Prints a line above it."""
        self._bar.console.print(printable(text), markup=False, highlight=False)

    def end(self) -> None:
        """Leaves it as it is."""
        self._bar.stop()
        hold_line(False)


def show_progress(wanted: bool | None, say: Callable[[str], None] | None = None) -> Progress:
    """A bar where stderr is a terminal and rich is there, unless it is not wanted; else silence,
    but for lines that go to `say`. Where the bar is wanted and rich is missing: MgnError.
    """
    stream = sys.stderr
    if wanted is False or stream is None or not stream.isatty():
        return Silence(say)
    if not wanted and importlib.util.find_spec("rich") is None:
        return Silence(say)
    consoles: Any = need("rich.console", "progress", "a progress bar")
    return Bar(consoles.Console(stderr=True))
