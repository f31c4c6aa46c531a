"""What is wrong with MLIR text, as diagnostics.

In: an error of xDSL's parser or verifiers, and the texts that its place refers to. Out: mgn's own
diagnostics, with line and column; None for an error of another kind.
"""

from collections.abc import Mapping

from xdsl.ir import Operation
from xdsl.utils.exceptions import DiagnosticException, ParseError

from mgn.diagnostics import Diagnostic
from mgn.dialects.places import text_place
from mgn.modules.mlir_text import InvalidModule
from mgn.passes.differentiate import NotDifferentiable
from mgn.passes.wrong_level import WrongLevel

MOST_CHARACTERS = 200
"""Of one line of a message."""

MOST_LINES = 8
"""Of one message."""


def diagnostics_of(error: BaseException, sources: Mapping[str, str]) -> list[Diagnostic] | None:
    """The diagnostics of an error in a module. `sources` are texts by file name."""
    if isinstance(error, ParseError):
        return [_from_parse_error(error)]
    if isinstance(error, InvalidModule):
        return [
            _at_operation(violation.operation, violation.message, sources)
            for violation in error.violations
        ]
    if isinstance(error, WrongLevel | NotDifferentiable):
        return [_at_operation(error.operation, str(error), sources)]
    if isinstance(error, DiagnosticException):
        return [Diagnostic(first_lines(str(error)), file=next(iter(sources), "<input>"))]
    return None


def first_lines(text: str) -> str:
    """A message that may be long, cut."""
    lines = text.strip().splitlines() or ["no message"]
    shown = [_clipped(line) for line in lines[:MOST_LINES]]
    return "\n".join(shown) + ("\n…" if len(lines) > MOST_LINES else "")


def _from_parse_error(error: ParseError) -> Diagnostic:
    span = error.span
    text = str(span.input.content)
    place = span.get_location()
    start = span.input.get_start_of_line(span.start)
    message = " ".join(error.msg.split())
    message = message.replace("{first_char}", f"'{text[span.start : span.start + 1]}'")
    if not text.strip():
        message = "the file defines nothing"
    return Diagnostic(
        _clipped(message),
        file=place.file,
        line=place.line,
        column=place.col,
        source_line=text[start : span.input.get_end_of_line(span.start)],
    )


def _at_operation(op: Operation, message: str, sources: Mapping[str, str]) -> Diagnostic:
    location = text_place(op.location)
    if location is None:
        return Diagnostic(message, file=next(iter(sources), "<input>"))
    file, line = location.filename.data, location.line.data
    lines = sources.get(file, "").split("\n")
    return Diagnostic(
        message,
        file=file,
        line=line,
        column=location.column.data,
        source_line=lines[line - 1] if 0 < line <= len(lines) else None,
    )


def _clipped(text: str) -> str:
    half = MOST_CHARACTERS // 2
    return text if len(text) <= MOST_CHARACTERS else f"{text[:half]} … {text[-half:]}"
