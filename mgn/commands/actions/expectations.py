"""`--verify-diagnostics`: compares the messages of a run with the ones its text announces.

In: a text with comments of the form `expected-error {{part of the message}}`, and the diagnostics
of a run over it. Out: complaints, one for each message that is missing or was not announced.

    %0 = mgn.nope(%x)           // expected-error {{not registered}}
    // expected-error@+1 {{…}}     the next line; `@-2` is two lines above
    // expected-error@below {{…}}  the next line without an expectation; `@above` likewise
    // expected-error@unknown {{…}}  a message without a line
    // expected-error-re {{rank [0-9]+}}  a regular expression
    // expected-note {{…}}  expected-warning {{…}}
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mgn.diagnostics import Diagnostic

_EXPECTATION = re.compile(
    r"expected-(?P<severity>error|warning|note|remark)(?P<regex>-re)?\s*"
    r"(?:@(?P<place>[+-]\d+|above|below|unknown))?\s*\{\{(?P<text>.*?)\}\}(?!\})"
)
_MALFORMED = re.compile(r"expected-(?:error|warning|note|remark)\b")
UNKNOWN_LINE = 0


@dataclass(frozen=True)
class Expectation:
    """A message that must appear at a line of the file."""

    severity: str
    text: str
    regex: bool
    line: int
    written_at: int

    def fits(self, diagnostic: Diagnostic) -> bool:
        """Whether a diagnostic is the announced one."""
        if (diagnostic.severity, diagnostic.line) != (self.severity, self.line):
            return False
        if self.regex:
            return re.search(self.text, diagnostic.message) is not None
        return self.text in diagnostic.message


def expectations_in(text: str) -> list[Expectation]:
    """The expectations of a text. ValueError for a malformed one."""
    lines = text.split("\n")
    announcing = {i for i, line in enumerate(lines) if _EXPECTATION.search(line)}
    found: list[Expectation] = []
    for i, line in enumerate(lines):
        matches = list(_EXPECTATION.finditer(line))
        if len(matches) != len(_MALFORMED.findall(line)):
            raise ValueError(f"line {i + 1}: malformed expectation: {line.strip()}")
        for match in matches:
            place = match["place"]
            target = _target(i, place, announcing)
            found.append(
                Expectation(
                    severity=match["severity"],
                    text=match["text"],
                    regex=match["regex"] is not None,
                    line=UNKNOWN_LINE if place == "unknown" else target + 1,
                    written_at=i + 1,
                )
            )
    return found


def compare(
    file: str, expectations: Sequence[Expectation], diagnostics: Sequence[Diagnostic]
) -> list[Diagnostic]:
    """What differs between the announced and the actual messages; empty where nothing does."""
    missing = list(expectations)
    complaints: list[Diagnostic] = []
    for diagnostic in _flattened(diagnostics):
        fitting = next((item for item in missing if item.fits(diagnostic)), None)
        if fitting is not None:
            missing.remove(fitting)
        elif diagnostic.severity != "note":
            complaints.append(
                Diagnostic(
                    f"unexpected {diagnostic.severity}: {diagnostic.message}",
                    diagnostic.file,
                    diagnostic.line,
                    diagnostic.column,
                    diagnostic.source_line,
                )
            )
    complaints.extend(
        Diagnostic(
            f'expected {item.severity} "{item.text}" was not produced'
            + ("" if item.line == item.written_at else f" at line {item.line}"),
            file,
            item.written_at,
            1,
        )
        for item in missing
    )
    return complaints


def _target(index: int, place: str | None, announcing: set[int]) -> int:
    if place in ("above", "below"):
        step = 1 if place == "below" else -1
        target = index + step
        while target in announcing:
            target += step
        return target
    return index + (int(place) if place not in (None, "unknown") else 0)


def _flattened(diagnostics: Sequence[Diagnostic]) -> Iterator[Diagnostic]:
    for diagnostic in diagnostics:
        yield diagnostic
        yield from _flattened(diagnostic.notes)
