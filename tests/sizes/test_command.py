"""`--dim S=A..B`."""

from pathlib import Path

import numpy as np
import pytest

from mgn.commands.run import main
from tests.conftest import run_in_process
from tests.whole_programs.test_states import DEVICE

TEXT = "graph g[S](x: f32[S, 4]) { return y = x * 2.0, last = x[S - 1] }"


@pytest.fixture
def run(tmp_path: Path) -> list[str]:
    (tmp_path / "g.mgn").write_text(TEXT)
    np.savez(tmp_path / "in.npz", x=np.ones((5, 4), np.float32))
    return [str(tmp_path / "g.mgn"), "--device", DEVICE]


def test_a_range_runs_the_size_that_the_inputs_have(run: list[str]) -> None:
    given = str(Path(run[0]).parent / "in.npz")
    outcome = run_in_process(main, [*run, "--dim", "S=1..9", "--inputs", given, "--report"])
    assert outcome.status == 0, outcome.stderr
    assert "y: f32[5, 4] mean 2 " in outcome.stdout and "S = 1..9 in programs" in outcome.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--dim", "S=9..1"], "--dim takes NAME=A..B, such as S=1..512, not 'S=9..1'"),
        (["--dim", "S=1..9", "--dim", "S=4"], "--dim gives 'S' a size and a range"),
        (["--dim", "S=1..9", "--dim", "S=1..8"], "--dim gives 'S' two ranges"),
        (["--dim", "S=1..9", "--emit", "mlir"], "here a dimension takes one size"),
        (["--dim", "S=1..9", "--mode", "training"], "takes one size of each dimension"),
    ],
)
def test_a_wrong_range_is_refused(run: list[str], options: list[str], said: str) -> None:
    outcome = run_in_process(main, [*run, *options])
    assert outcome.status == 1 and said in outcome.stderr
