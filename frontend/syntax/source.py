"""A source text with its name: reads files, finds lines, makes diagnostics.

In: a path or a text. Out: `Source`, or a `DiagnosticsError` for a file that cannot be read.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mgn.diagnostics import Diagnostic, DiagnosticsError
from mgn.frontend.syntax.ast import Place

MOST_BYTES = 256 << 20
"""No program is longer; a device file such as /dev/zero has no end."""


@dataclass(frozen=True)
class Source:
    """A text and the name that messages call it by. Its imports are relative to `path`."""

    text: str
    name: str = "<input>"
    path: Path | None = None

    @cached_property
    def lines(self) -> list[str]:
        """The text by lines, cut as the lexer counts them."""
        return [line.removesuffix("\r") for line in self.text.split("\n")]

    def line(self, number: int) -> str | None:
        """A line of the text, counted from 1."""
        return self.lines[number - 1] if 0 < number <= len(self.lines) else None

    def line_longer_than(self, limit: int) -> int | None:
        """The number of the first line with more characters than `limit`."""
        if len(self.text) <= limit:
            return None
        return next((i for i, line in enumerate(self.lines, 1) if len(line) > limit), None)

    def place_of(self, offset: int) -> Place:
        """Line and column of an offset into the text."""
        start = self.text.rfind("\n", 0, offset) + 1
        return self.text.count("\n", 0, offset) + 1, offset - start + 1

    def error(self, place: Place, message: str, notes: tuple[Diagnostic, ...] = ()) -> Diagnostic:
        """An error at a place of this text."""
        return Diagnostic(message, self.name, *place, self.line(place[0]), "error", notes)

    def note(self, place: Place, message: str) -> Diagnostic:
        """A note at a place of this text."""
        return Diagnostic(message, self.name, *place, self.line(place[0]), "note")


def read_source(path: Path, name: str | None = None) -> Source:
    """The text of a file. Raises DiagnosticsError where it is missing or is not UTF-8 text."""
    shown = name or str(path)
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        told = error.strerror if isinstance(error, OSError) else "not a path"
        reason = told or "it cannot be read"
        raise DiagnosticsError([Diagnostic(f"cannot read the file: {reason}", shown)]) from error
    if len(data) > MOST_BYTES:
        most = MOST_BYTES >> 20
        raise DiagnosticsError([Diagnostic(f"the file is longer than {most} MiB", shown)])
    return decode_source(data, shown, path)


def decode_source(data: bytes, name: str = "<input>", path: Path | None = None) -> Source:
    """UTF-8 bytes as a source. Raises DiagnosticsError at the first byte that is not UTF-8."""
    try:
        return Source(data.decode("utf-8"), name, path)
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", "replace")
        line = before.count("\n") + 1
        column = len(before) - (before.rfind("\n") + 1) + 1
        text = before[before.rfind("\n") + 1 :]
        message = f"the file is not UTF-8 text: byte 0x{data[error.start]:02X}"
        raise DiagnosticsError([Diagnostic(message, name, line, column, text)]) from error
