"""What takes long: its log, its line on a terminal, and silence anywhere else."""

import io
import logging
import re
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import mgn
from mgn import tasks
from mgn.commands.options.errors import guarded
from mgn.modules.files import npz_bytes
from mgn.tasks import hold_line, task

TEXT = "graph g(x: f32[4]) { param w: f32[4]\n return y = x * w }"


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """What stderr gets from now on; to be called in a test, since pytest sets stderr before it."""
    pytest.importorskip("rich")
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(tasks, "DELAY", 0.0)
    monkeypatch.delenv(tasks.VARIABLE, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    return stream


def worked() -> None:
    """A task within a task, that lasts until a line would be there."""
    with task("load", "loading w.npz", total=2) as outer:
        outer.at("first", 1)
        with task("build", "building 3 kernels"):
            time.sleep(0.2)


def test_compiling_and_loading_are_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "w.npz"
    path.write_bytes(npz_bytes({"w": np.ones(4, np.float32)}))
    with caplog.at_level(logging.DEBUG, "mgn"):
        mgn.compile(mgn.parse(TEXT), device="cpu").load_params(path)
    said = {(item.name, item.getMessage().rpartition(": ")[0]) for item in caplog.records}
    assert {("mgn.compile", "compiling g"), ("mgn.load", f"loading {path}")} <= said
    assert "compiling g: saturate" in caplog.messages and f"loading {path}: w" in caplog.messages
    assert not capsys.readouterr().err


def test_a_long_task_has_a_line_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    worked()
    shown = terminal.getvalue()
    assert "loading w.npz: building 3 kernels" in shown
    assert "\x1b[2K" in shown[shown.rindex("kernels") :], "the line goes"


def test_no_line_takes_the_place_of_another_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    hold_line(True)
    worked()
    hold_line(False)
    monkeypatch.setenv(tasks.VARIABLE, "off")
    worked()
    assert terminal.getvalue() == ""


def test_no_terminal_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(tasks, "DELAY", 0.0)
    worked()
    assert stream.getvalue() == ""


def test_commands_write_the_log_where_they_are_asked_to(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logger = logging.getLogger("mgn")
    before, level = list(logger.handlers), logger.level

    def command() -> int:
        with task("tune", "tuning for 3 s"):
            return 0

    monkeypatch.setenv("MGN_LOG", "info")
    assert guarded(command) == 0
    assert re.fullmatch(r"mgn\.tune: tuning for 3 s: \d+\.\d{3} s\n", capsys.readouterr().err)
    monkeypatch.setenv("MGN_LOG", "loud")
    assert guarded(command) == 1
    assert "MGN_LOG is one of debug, info" in capsys.readouterr().err
    logger.handlers[:] = before
    logger.setLevel(level)
