"""Messages about a program: what every error of the compiler looks like.

In: a message with its place in a source text. Out: `Diagnostic`s, and `DiagnosticsError`, which
carries several.

    mlp.mgn:3:7: error: unknown name 'wieght'; did you mean 'weight'?
      x = wieght * 2
          ^
    mlp.mgn:9:3: note: called from here
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

WIDTH = 120
"""Most characters of a source line that a message shows."""

SHOWN = 20
"""Most diagnostics that one error's text shows; the rest is counted."""

MOST_SAID = 1000
"""Characters of a message, a text of a user included."""

MOST_SHOWN = 80
"""Characters of a name or a text of a user that a message shows."""


_is_command: ContextVar[bool] = ContextVar("is_command", default=False)


@contextmanager
def as_command() -> Iterator[None]:
    """Has messages speak of a command's options, and not of Python's arguments."""
    token = _is_command.set(True)
    try:
        yield
    finally:
        _is_command.reset(token)


def spelled(argument: str, option: str) -> str:
    """How a message names what a user gives: an `argument` of Python, or the `option` where a
    command runs.
    """
    return option if _is_command.get() else argument


def argument_name(name: str) -> str:
    """The name of an argument, `clip_norm`, or of the option of that name, `--clip-norm`."""
    return spelled(name, f"--{name.replace('_', '-')}")


class MgnError(Exception):
    """Base of the errors that mgn raises on purpose; the text is for the user."""


class WrongType(MgnError, TypeError):
    """What a call is given is of a type that it does not take."""


class WrongValue(MgnError, ValueError):
    """What a call is given is of the right type, and not a value that it takes."""


class NoSuchName(MgnError, AttributeError):
    """There is nothing of that name."""


class MgnWarning(UserWarning):
    """What is allowed, and seldom meant."""


@dataclass(frozen=True)
class Diagnostic:
    """A message at a place. `line` and `column` count from 1; line 0 means the whole file."""

    message: str
    file: str = "<input>"
    line: int = 0
    column: int = 0
    source_line: str | None = None
    severity: str = "error"
    notes: tuple["Diagnostic", ...] = ()

    @property
    def place(self) -> str:
        """`file:line:column`, or `file` alone where there is no line."""
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file

    def __str__(self) -> str:
        said = printable(clipped(self.message, MOST_SAID), kept="\n")
        lines = [f"{self.place}: {self.severity}: {said}"]
        if self.line and self.source_line is not None:
            lines += _excerpt(self.source_line, self.column)
        lines += [str(note) for note in self.notes]
        return "\n".join(lines)


class DiagnosticsError(MgnError):
    """One or more diagnostics; its text shows them in the order of the source."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__(render(self.diagnostics))


def render(diagnostics: Sequence[Diagnostic]) -> str:
    """The text of several diagnostics, at most `SHOWN` of them."""
    lines = [str(item) for item in diagnostics[:SHOWN]]
    left = len(diagnostics) - SHOWN
    if left > 0:
        lines.append(f"and {left} more error{'s' if left > 1 else ''}")
    return "\n".join(lines)


def _excerpt(source_line: str, column: int) -> list[str]:
    """The source line, clipped around the caret, and the caret under its column."""
    start = 0 if len(source_line) <= WIDTH else max(0, column - 1 - WIDTH // 2)
    shown = source_line[start : start + WIDTH]
    before, after = "…" if start else "", "…" if start + WIDTH < len(source_line) else ""
    caret = max(column - 1 - start, 0)
    blank = "".join("\t" if item == "\t" else " " for item in shown[:caret])
    return [f"  {before}{printable(shown)}{after}", f"  {' ' * len(before)}{blank}^"]


def clipped(text: str, most: int = MOST_SHOWN) -> str:
    """A text, or its first characters."""
    return text if len(text) <= most else f"{text[:most]}…"


def printable(text: str, kept: str = "\t") -> str:
    """A text without what a terminal would act on, but for the characters that are `kept`."""
    return "".join(item if item in kept or item.isprintable() else "\ufffd" for item in text)


def one_line(text: str, most: int = MOST_SHOWN) -> str:
    """A text on one line that is not long, without what a terminal would act on."""
    return printable(clipped(text, most), kept="")
