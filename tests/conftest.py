"""What all tests share: commands run in this process, and the devices of this machine."""

import io
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
"""The checkout."""

os.environ["MGN_PROGRAM_CACHE"] = "off"  # what is tested is the compiler, not what it once gave


@dataclass(frozen=True)
class Outcome:
    """What a command did."""

    status: int
    stdout: str
    stderr: str


def run_in_process(
    main: Callable[[Sequence[str]], int], arguments: Sequence[str], stdin: str | bytes = ""
) -> Outcome:
    """Runs a command's main function with its own streams."""
    stdout, stderr = io.StringIO(), io.StringIO()
    data = stdin.encode() if isinstance(stdin, str) else stdin
    held, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(data), encoding="utf-8")
    try:
        with redirect_stdout(stdout), redirect_stderr(stderr):
            status = main(arguments)
    finally:
        sys.stdin = held
    return Outcome(status, stdout.getvalue(), stderr.getvalue())


@pytest.fixture
def mgn_opt() -> Callable[..., Outcome]:
    """Runs `mgn-opt` in this process: `mgn_opt("-p", "simplify", "-", stdin="…")`."""
    from mgn.commands.opt import main

    return lambda *arguments, stdin="": run_in_process(main, [str(a) for a in arguments], stdin)
