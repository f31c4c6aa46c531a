"""Everything that can go wrong in a command, as messages: the one place that handles errors.

In: an exception. Out: `Diagnostic`s, or an exit status with the message on stderr. A user sees a
traceback only by asking for it with MGN_TRACEBACK=1, which is meant for work on mgn itself.
"""

import argparse
import errno
import logging
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import NoReturn

from mgn.diagnostics import (
    Diagnostic,
    DiagnosticsError,
    MgnError,
    as_command,
    printable,
    render,
)
from mgn.version import DISTRIBUTION

FAILURE = 1

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What a write fails with where there is no room for it."""


class Failed(Exception):
    """A command has already said what is wrong."""


class UsageError(MgnError):
    """The command line asks for something that is not there."""


class TidyArgumentParser(argparse.ArgumentParser):
    """An argument parser whose errors are one line and exit status 1."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; '{self.prog} --help' says what there is")


def guarded(command: Callable[[], int]) -> int:
    """Runs a command. Its status, or 1 with a message on stderr, whatever it raises."""
    if sys.stdout is None:  # what the interpreter makes of a closed descriptor
        say("error: stdout is closed, and the results go there")
        return FAILURE
    try:
        _log_as_asked()
        with warnings.catch_warnings(), as_command():
            warnings.showwarning = _Warner()
            status = command()
        sys.stdout.flush()
    except SystemExit as request:
        return request.code if isinstance(request.code, int) else 0
    except Failed:
        return FAILURE
    except BrokenPipeError:
        _drop_stdout()
        return FAILURE
    except BaseException as error:
        if os.environ.get("MGN_TRACEBACK"):
            raise
        say(message_of(error))
        return FAILURE
    return status


def _log_as_asked() -> None:
    """Writes what the loggers under `mgn` say to stderr, from the level on that `MGN_LOG` names."""
    word = os.environ.get("MGN_LOG", "").strip().upper()
    if not word:
        return
    levels = logging.getLevelNamesMapping()
    if word not in levels:
        known = ", ".join(name.lower() for name in ("DEBUG", "INFO", "WARNING", "ERROR"))
        raise UsageError(f"MGN_LOG is one of {known}, not '{word.lower()}'")
    logger = logging.getLogger("mgn")
    logger.setLevel(levels[word])
    if not any(isinstance(item, _Lines) for item in logger.handlers):
        logger.addHandler(_Lines())


class _Lines(logging.Handler):
    """Records as lines on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        say(f"{record.name}: {record.getMessage()}")


class _Warner:
    """Shows what mgn or a library warns of as a line of the command's, once."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def __call__(self, message: Warning | str, *_: object) -> None:
        text = f"warning: {printable(str(message))}"
        if text not in self._said:
            self._said.add(text)
            say(text)


def say(text: str) -> None:
    """Writes a line to stderr, which may be closed or know fewer characters than the text has.
    What a terminal would act on is left out: names come from files.
    """
    stream = sys.stderr
    if stream is None:
        return
    try:
        encoding = getattr(stream, "encoding", None) or "utf-8"
        text = printable(text, kept="\n\t")
        stream.write(text.encode(encoding, "replace").decode(encoding) + "\n")
        stream.flush()
    except (OSError, ValueError):
        return


def message_of(error: BaseException) -> str:
    """What a user reads about an exception."""
    diagnostics = diagnose(error, {})
    if diagnostics is not None:
        return render(diagnostics)
    if isinstance(error, MgnError):
        return "\n".join(map(printable, f"error: {error}".split("\n")))
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, RecursionError):
        return "error: the program is nested too deeply"
    if isinstance(error, MemoryError):
        return "error: out of memory"
    if isinstance(error, OSError):
        return f"error: {os_message(error)}"
    if isinstance(error, ModuleNotFoundError) and (error.name or "").startswith("mgn."):
        return (
            f"error: {DISTRIBUTION} runs packages; to compile a program, "
            f"`pip install mgn-compiler` in the place of {DISTRIBUTION}"
        )
    said = str(error)
    if "xdsl" in sys.modules:
        from mgn.modules.mlir_errors import first_lines

        said = first_lines(said)
    return (
        f"error: internal error, which is a fault in mgn: {type(error).__name__}: "
        f"{said}\nnote: MGN_TRACEBACK=1 shows where it happened"
    )


def os_message(error: OSError) -> str:
    """`cannot open 'x.mgn': no such file or directory`."""
    reason = (error.strerror or str(error) or type(error).__name__).lower()
    if error.filename:
        return f"cannot open '{error.filename}': {reason}"
    # all files but stdout are written under a name
    return f"cannot write to stdout: {reason}" if error.errno in FULL else reason


def diagnose(error: BaseException, sources: Mapping[str, str]) -> list[Diagnostic] | None:
    """The diagnostics of an error in a program; None for an error of another kind.

    `sources` are the texts that places refer to, by file name.
    """
    if isinstance(error, DiagnosticsError):
        return list(error.diagnostics)
    if "xdsl" not in sys.modules:
        return None
    from mgn.modules.mlir_errors import diagnostics_of

    return diagnostics_of(error, sources)


def _drop_stdout() -> None:
    """Keeps the interpreter from complaining about the closed pipe when it exits."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return
