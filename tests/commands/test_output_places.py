"""What a command writes takes the place of nothing that it reads, by whatever name."""

import errno
import io
import os
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest

import mgn
from mgn.commands.run import main
from tests.conftest import Outcome, run_in_process

TEXT = 'import "layer.mgn"\ngraph g(x: f32[4]) { return y = twice(x) }\n'
LAYER = "fn twice(x) { return x + x }\n"

Command = Callable[..., Outcome]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "layer.mgn").write_text(LAYER)
    (tmp_path / "g.mgn").write_text(TEXT)
    np.savez("in.npz", x=np.ones(4, np.float32))
    (tmp_path / "soft.mgn").symlink_to("g.mgn")
    os.link(tmp_path / "g.mgn", tmp_path / "hard.mgn")
    return Path("g.mgn")


def mgn_run(*arguments: object) -> Outcome:
    return run_in_process(main, [str(item) for item in arguments])


OVER = "would be written over a file that this run reads or writes"


@pytest.mark.parametrize("place", ["g.mgn", "./g.mgn", "soft.mgn", "hard.mgn", "layer.mgn"])
def test_a_stage_is_not_written_over_the_program_or_its_imports(
    program: Path, place: str, mgn_opt: Command
) -> None:
    for outcome in (
        mgn_run(program, "--emit=mgn", "-o", place),
        mgn_opt(program, "-t", "mgn", "-o", place),
        mgn_run(program, "--device", "cpu", "--trace", place),
    ):
        assert outcome.status == 1 and OVER in outcome.stderr
    assert program.read_text() == TEXT and Path("layer.mgn").read_text() == LAYER


def test_results_are_not_written_over_the_inputs(program: Path) -> None:
    before = Path("in.npz").read_bytes()
    os.link("in.npz", "same.npz")
    for place in ("in.npz", "same.npz"):
        outcome = mgn_run(program, "--device", "cpu", "--inputs", "in.npz", "--outputs", place)
        assert outcome.status == 1 and OVER in outcome.stderr
    assert Path("in.npz").read_bytes() == before


def test_results_are_not_written_over_the_figures_of_the_device(
    program: Path, monkeypatch: pytest.MonkeyPatch, mgn_opt: Command
) -> None:
    Path("figures.json").write_text("{}")
    monkeypatch.setenv("MGN_DEVICE_FIGURES", "figures.json")
    for outcome in (
        mgn_run(program, "--emit=opencl", "--device", "cpu", "-o", "./figures.json"),
        mgn_run(program, "--device", "cpu", "--explain", "figures.json"),
        mgn_opt(program, "-o", "figures.json"),
    ):
        assert outcome.status == 1 and OVER in outcome.stderr
    assert Path("figures.json").read_text() == "{}"


def test_an_explanation_from_python_is_not_written_over_the_program(program: Path) -> None:
    optimized = mgn.optimize(mgn.parse_file(program))
    for place in ("g.mgn", "soft.mgn", "hard.mgn", "layer.mgn"):
        with pytest.raises(mgn.MgnError, match=OVER):
            optimized.explain(place)
    assert program.read_text() == TEXT and Path("layer.mgn").read_text() == LAYER


def test_two_results_do_not_share_a_file_that_is_not_there_yet(program: Path) -> None:
    outcome = mgn_run(program, "--device", "cpu", "--trace", "new.json", "--explain", "./new.json")
    assert outcome.status == 1 and OVER in outcome.stderr
    assert not Path("new.json").exists()


def test_a_protected_file_a_folder_and_a_ring_are_told(program: Path, mgn_opt: Command) -> None:
    Path("kept").write_text("old")
    Path("kept").chmod(0o444)
    Path("ring").symlink_to("ring")
    for place, words in (
        ("kept", "permission denied"),
        (".", "it is a directory"),
        ("ring", "too many levels"),
        ("nowhere/x", "no such file or directory"),
    ):
        outcome = mgn_opt(program, "-o", place)
        assert outcome.status == 1 and f"cannot write '{place}': " in outcome.stderr
        assert words in outcome.stderr
    assert Path("kept").read_text() == "old"


def test_a_link_that_leads_nowhere_is_told_before_the_run(program: Path) -> None:
    Path("ring.npz").symlink_to("ring.npz")
    Path("lost.npz").symlink_to("nowhere/x.npz")
    Path("new.npz").symlink_to("made.npz")
    for place, words in (("ring", "too many levels"), ("lost", "no such file or directory")):
        outcome = mgn_run(program, "--device", "cpu", "--outputs", f"{place}.npz")
        assert outcome.status == 1 and outcome.stdout == ""
        assert f"cannot write '{place}.npz': {words}" in outcome.stderr
    assert mgn_run(program, "--device", "cpu", "--outputs", "new.npz").status == 0
    assert Path("new.npz").is_symlink() and Path("made.npz").is_file()


class _Full(io.StringIO):
    """A stream on a full disk."""

    def write(self, _: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_behind_stdout_is_told(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with redirect_stdout(_Full()):
        status = main([str(program), "--emit=mgn"])
    told = capsys.readouterr().err
    assert status == 1 and told == "error: cannot write to stdout: no space left on device\n"


def test_a_stage_goes_to_a_new_file_and_to_a_device(program: Path, mgn_opt: Command) -> None:
    assert mgn_opt(program, "-t", "mgn", "-o", "new.mgn").status == 0
    assert mgn_opt("new.mgn", "-t", "mgn", "-o", "/dev/null").status == 0
    assert mgn_run("new.mgn", "--emit=mgn", "-o", "other.mgn").status == 0
    assert Path("other.mgn").read_text() == Path("new.mgn").read_text() != ""
