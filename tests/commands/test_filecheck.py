"""Runs every file under filecheck/ in this process: what `lit filecheck` does, fifty times faster.

A test's RUN lines may hold `mgn-opt`, `mgn-run`, `filecheck` and `not`, joined by pipes, with
`2>&1`, `%s`, `%S` and `%t`.
"""

import io
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from pathlib import Path

import pytest
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import parse_argv_options
from filecheck.parser import Parser

from mgn.driver.pipelines import PASSES
from tests.conftest import ROOT, Outcome, run_in_process

FOLDER = ROOT / "filecheck"
FILES = sorted(
    path
    for path in FOLDER.rglob("*")
    if path.suffix in (".mgn", ".mlir") and "inputs" not in path.relative_to(FOLDER).parts
)


def run_lines(text: str) -> list[str]:
    """The commands of a test, with lines that end in a backslash joined to the next."""
    commands: list[str] = []
    open_line = False
    for line in text.splitlines():
        marker, found, command = line.partition("RUN:")
        if not found or marker.strip() not in ("//", "#"):
            continue
        command = command.strip()
        continued = command.endswith("\\")
        command = command.removesuffix("\\").rstrip()
        if open_line:
            commands[-1] += f" {command}"
        else:
            commands.append(command)
        open_line = continued
    return commands


def run_filecheck(arguments: Sequence[str], stdin: str) -> Outcome:
    """The `filecheck` command on a text."""
    options = parse_argv_options(["filecheck", *arguments])
    text = FInput.canonicalize_line_ends(stdin)
    stderr = io.StringIO()
    with redirect_stderr(stderr):
        matcher = Matcher(options, FInput("<stdin>", text), Parser.from_opts(options))
        matcher.stderr = stderr
        status = matcher.run()
    return Outcome(status, "", stderr.getvalue())


def command_main(name: str) -> Callable[[Sequence[str]], int]:
    """The main function of one of mgn's commands."""
    if name == "mgn-opt":
        from mgn.commands.opt import main
    elif name == "mgn-run":
        from mgn.commands.run import main
    else:
        raise ValueError(f"a RUN line cannot use '{name}'")
    return main


def run_pipeline(command: str) -> Outcome:
    """Runs the parts of a pipe one after the other; the first that fails ends it."""
    stdin, stderr = "", ""
    outcome = Outcome(0, "", "")
    for part in command.split(" | "):
        words = shlex.split(part)
        merge = "2>&1" in words
        words = [word for word in words if word != "2>&1"]
        inverted = words[0] == "not"
        name, *arguments = words[1:] if inverted else words
        if name == "filecheck":
            outcome = run_filecheck(arguments, stdin)
        else:
            outcome = run_in_process(command_main(name), arguments, stdin)
        failed = (outcome.status != 0) != inverted
        stdin = outcome.stderr + outcome.stdout if merge else outcome.stdout
        stderr += "" if merge else outcome.stderr
        if failed:
            return Outcome(1, stdin, stderr + f"\nfailed: {part}")
    return Outcome(0, stdin, stderr)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_filecheck_file_passes(path: Path, tmp_path: Path) -> None:
    commands = run_lines(path.read_text(encoding="utf-8"))
    assert commands, "the file has no RUN line"
    for command in commands:
        substituted = command
        for sign, place in (("%s", path), ("%S", path.parent), ("%t", tmp_path / "t")):
            substituted = substituted.replace(sign, shlex.quote(str(place)))
        outcome = run_pipeline(substituted)
        if outcome.status:
            sys.stdout.write(outcome.stdout)
            pytest.fail(f"{substituted}\n{outcome.stderr}", pytrace=False)


OWN_PASSES = [name for name, row in PASSES.items() if row.module.startswith("mgn.")]


@pytest.mark.parametrize("name", OWN_PASSES)
def test_every_pass_of_mgn_has_a_file(name: str) -> None:
    texts = (path.read_text(encoding="utf-8") for path in FILES)
    commands = [command for text in texts for command in run_lines(text)]
    named = re.compile(rf"-p \S*(?<![\w-]){name}(?![\w-])")
    assert any(map(named.search, commands)), f"add a folder filecheck/{name} with a file"
