"""Reads a command's program: from a file or stdin, as `.mgn` or MLIR text, whole or in pieces.

In: a path or `-`. Out: a `Source`, and its pieces, each with as many empty lines above it as the
file has lines before it, so that places in a piece are places in the file.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mgn.commands.options.errors import UsageError, os_message
from mgn.diagnostics import Diagnostic, DiagnosticsError

SEPARATOR = "// -----"
LANGUAGES = {".mgn": "mgn", ".mlir": "mlir", ".spv": "spirv"}
REFUSED = {
    ".onnx": "mgn-run runs ONNX models, and shows with --emit=mlir what they are",
    ".mgnpkg": "a package is compiled already: mgn-run runs it, and mgn.load_package",
}
"""Why a file of a known kind is not read, by its extension."""


@dataclass(frozen=True)
class Source:
    """A program's text, its name in messages (its path), and its language, `mgn` or `mlir`."""

    name: str
    language: str
    text: str

    def pieces(self, split: bool) -> list[str]:
        """The whole text, or its parts between the lines that are `// -----`."""
        if not split:
            return [self.text]
        pieces: list[str] = []
        held: list[str] = []
        for number, line in enumerate(self.text.split("\n"), 1):
            if line.strip() == SEPARATOR:
                pieces.append("\n".join(held))
                held = [""] * number
            else:
                held.append(line)
        return [*pieces, "\n".join(held)]


def read_source(
    path: str, language: str | None, readable: Sequence[str] = (".mgn", ".mlir")
) -> Source:
    """The program at a path, or on stdin for `-`; `readable` are the extensions that the command
    takes. DiagnosticsError where it is no UTF-8 text.
    """
    if path == "-":
        if language is None:
            raise UsageError("the language of stdin is not known; -f mgn or -f mlir says it")
        return _source("<stdin>", language, _read_stdin())
    suffix = Path(path).suffix.lower()
    if language is None and suffix in REFUSED:
        raise UsageError(REFUSED[suffix])
    if language is None and suffix not in LANGUAGES:
        if Path(path).is_dir():
            raise UsageError(f"'{path}' is a folder, and the program is a file")
        known = " nor ".join(readable)
        raise UsageError(f"'{path}' is neither {known}; -f mgn or -f mlir says what it is")
    return _source(path, language or LANGUAGES[suffix], read_bytes(path))


def _source(name: str, language: str, data: bytes) -> Source:
    """The program in a file's content; a SPIR-V binary as the MLIR text that says the same."""
    if language != "spirv":
        return Source(name, language, _decode(data, name))
    from mgn.modules.spirv_module import read_spirv

    return Source(name, "mlir", read_spirv(data, name))


def read_bytes(path: str) -> bytes:
    """A file's content. UsageError where it cannot be read."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UsageError(os_message(error)) from None
    except ValueError:
        raise UsageError(f"cannot open {path!r}: not a path") from None


def _read_stdin() -> bytes:
    if sys.stdin is None:  # what the interpreter makes of a closed descriptor
        raise UsageError("stdin is closed, and the program is read from there")
    stream = getattr(sys.stdin, "buffer", None)
    return stream.read() if stream is not None else sys.stdin.read().encode()


def _decode(data: bytes, name: str) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line = before.count(b"\n") + 1
        column = len(before) - (before.rfind(b"\n") + 1) + 1
        raise DiagnosticsError(
            [Diagnostic(f"not UTF-8 text: byte 0x{data[error.start]:02x}", name, line, column)]
        ) from None
    return text.replace("\r\n", "\n")
