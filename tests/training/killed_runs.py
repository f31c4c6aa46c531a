"""Runs that are killed at random moments: a command that `test_checkpoints.py` starts.

In: a folder, a number of trials. Out: exit status 0 where after each kill the checkpoint was whole,
and the run that was resumed again and again ended with the bits of one that was not.

It is a process of its own, so that children can be forked where no threads are.
"""

import os
import random
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mgn.training.run.checkpoints import read_checkpoint
from mgn.training.run.fit import fit
from tests.training.stand_in import StandIn, examples, same_states

STEPS = 120
AT_MOST = 15
"""Steps of a run that is to be killed; then it waits, so that none ends before, however fast the
disk is and however late the kill.
"""

PATIENCE = 60.0
"""Seconds for a run to write a checkpoint, or to be killed."""


class Waiting(StandIn):
    """Makes so many steps and then waits to be killed."""

    left = AT_MOST

    def step(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """A step, or a wait."""
        if not self.left:
            time.sleep(PATIENCE)
        self.left -= 1
        return super().step(batch)


def run(trainer: StandIn, folder: Path, resume: bool) -> StandIn:
    """A run that saves after each step."""
    options = {"save": folder / "run.safetensors", "log": folder / "run.jsonl", "keep": 3}
    fit(trainer, examples(), steps=STEPS, every=1, resume=resume, progress=False, **options)
    return trainer


def killed(path: Path, seconds: float) -> bool:
    """Whether a run was killed before its end: so long after the first checkpoint that it wrote."""
    before, began = written(path), time.monotonic()
    child = os.fork()
    if not child:
        run(Waiting(seed=5), path.parent, resume=True)
        os._exit(0)
    while written(path) == before and time.monotonic() < began + PATIENCE:
        time.sleep(0.0005)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def written(path: Path) -> tuple[int, int] | None:
    """Which file is at a path; None where none is."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def main(folder: Path, trials: int) -> None:
    """Kills a run so often, and lets it end."""
    draw = random.Random(trials)
    path = folder / "run.safetensors"
    steps: list[int] = []
    for _ in range(trials):
        assert killed(path, draw.uniform(0.0, 0.012)), "the run ended before it was killed"
        found = read_checkpoint(path)
        assert found.header.step == int(found.arrays["optimizer.step"])
        steps.append(found.header.step)
    assert steps == sorted(set(steps)), steps
    ended = run(StandIn(seed=5), folder, resume=True)
    whole = StandIn(seed=5)
    fit(whole, examples(), steps=STEPS, progress=False)
    assert same_states(ended, whole)
    left = sorted(item.name for item in folder.iterdir())
    kept = [f"run.step-{step}.safetensors" for step in range(STEPS - 2, STEPS + 1)]
    assert left == sorted(["run.jsonl", "run.safetensors", *kept]), left


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
