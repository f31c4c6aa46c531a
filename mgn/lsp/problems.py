"""The compiler's messages as an editor shows them: each with the piece of text that it is about.

In: what the compiler said of a text. Out: `Problem`s in the text; what is wrong in an imported file
stands at the import.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mgn.diagnostics import Diagnostic
from mgn.frontend.observed import Observed
from mgn.frontend.syntax.ast import Place
from mgn.frontend.syntax.parser import lexer
from mgn.frontend.syntax.source import Source
from mgn.lsp.symbols import Reading

_MEANT = re.compile(r"did you mean '([^']+)'\?")


@dataclass(frozen=True)
class Related:
    """A note at another place. The path is None in the text itself."""

    path: Path | None
    place: Place
    message: str


@dataclass(frozen=True)
class Problem:
    """An error or a warning from one place to another; `meant` is what could stand there."""

    begin: Place
    end: Place
    message: str
    severity: str
    related: tuple[Related, ...] = ()

    @property
    def meant(self) -> str | None:
        """The name that the message suggests."""
        found = _MEANT.search(self.message)
        return found[1] if found is not None else None


def problems_of(observed: Observed, reading: Reading) -> list[Problem]:
    """What an editor shows of a text."""
    source = observed.unit.source
    paths = {
        unit.source.name: path for path, unit in observed.files.items() if unit is not observed.unit
    }
    return [_problem(item, source, paths, reading) for item in observed.diagnostics]


def _problem(
    item: Diagnostic, source: Source, paths: Mapping[str, Path], reading: Reading
) -> Problem:
    related = tuple(_related(note, source, paths) for note in item.notes if note.line)
    if item.file == source.name:
        begin = (item.line, item.column) if item.line else (1, 1)
        end = end_of_token(source, begin)
        return Problem(begin, end, item.message, item.severity, related)
    begin, end = _import_of(item.file, source, paths, reading)
    message = f"{item.place}: {item.message}"
    if item.line:
        related = (_related(item, source, paths), *related)
    return Problem(begin, end, message, item.severity, related)


def _related(note: Diagnostic, source: Source, paths: Mapping[str, Path]) -> Related:
    path = None if note.file == source.name else paths.get(note.file, Path(note.file))
    return Related(path, (note.line, note.column), note.message)


def _import_of(
    file: str, source: Source, paths: Mapping[str, Path], reading: Reading
) -> tuple[Place, Place]:
    """The import that leads to a file; the first one, where none names it itself."""
    folder = source.path.parent if source.path is not None else Path()
    for name, begin, end in reading.imports:
        if (folder / name).resolve() == paths.get(file):
            return begin, end
    if reading.imports:
        return reading.imports[0][1:]
    return (1, 1), end_of_token(source, (1, 1))


def end_of_token(source: Source, place: Place) -> Place:
    """The place behind the token at a place; one character on where there is none."""
    line = source.line(place[0]) or ""
    token = next(iter(lexer().tokens(line[place[1] - 1 :])), None)
    length = len(token.split("\n")[0]) if token is not None and token.column == 1 else 1
    return place[0], place[1] + max(length, 1)
