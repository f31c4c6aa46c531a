"""Four ranks that train together, as `mpiexec -n 4` starts them: a command of `test_ranks.py`.

In: a folder. Out: `found.json`, by rank 0, with what several ways of doing one training gave. In
the end rank 2 kills itself before a step, and the others say so and end with status 1.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import mgn
from mgn.distributed.ranks import PER_HOST_VARIABLE
from mgn.training.step import shared_steps

TEXT = """
graph net[B = 9](x: f32[B, 6], y: f32[B, 3]) {
  param a: f32[6, 24] = normal(std = 0.5)
  param b: f32[24, 3] = normal(std = 0.5)
  state seen: f32[6]
  prediction = (x @ a) @ b
  loss = mse(prediction, y)
  seen <- seen + mean(x, axis = 0)
  return loss, prediction
}

graph look[ROWS = 10](x: f32[ROWS, 6], y: f32[ROWS, 3]) {
  param a: f32[6, 24] = normal(std = 0.5)
  param b: f32[24, 3] = normal(std = 0.5)
  state seen: f32[6]
  prediction = ((x - seen) @ a) @ b
  return loss = mse(prediction, y), prediction
}
"""
STEPS = 6
SMALL = 1e-4
"""A bucket of some hundred bytes, so that gradients leave in several."""


def data(count: int) -> dict[str, np.ndarray]:
    """Examples that can be learned."""
    random = np.random.default_rng(4)
    x = random.standard_normal((count, 6)).astype(np.float32)
    return {"x": x, "y": np.sin(x[:, :3] + x[:, 3:])}


def trainer(ranks: Any, zero: int = 0, loss_scale: float | None = None) -> mgn.Trainer:
    """A trainer of a crew."""
    return mgn.Trainer(
        mgn.parse(TEXT),
        "net",
        optimizer=mgn.SGD(lr=0.02, momentum=0.9),
        clip_norm=2.0,
        ranks=ranks,
        zero=zero,
        bucket=SMALL,
        loss_scale=loss_scale,
        eval_graph="look",
    )


def trained(held: mgn.Trainer, steps: int = STEPS, **options: Any) -> dict[str, Any]:
    """What a run gave: losses, norms, evaluations, and all that is kept."""
    history = held.fit(data(41), steps=steps, every=3, **options)
    state = held.state()
    return {
        "losses": history.losses,
        "norms": [record.values["grad_norm"] for record in history.steps],
        "evaluations": history.metrics,
        "state": {name: np.asarray(value).astype(float).tolist() for name, value in state.items()},
    }


def skipped(held: mgn.Trainer) -> list[str]:
    """What of the state has changed behind a step that the last ranks' rows have skipped."""
    batch = {name: array[:9] for name, array in data(9).items()}
    held.step(batch)
    before = held.state()
    batch["x"][4:] *= np.float32(1e30)
    with np.errstate(all="raise"):
        assert held.step(batch)["skipped"] == 1
    after = held.state()
    return [name for name in before if before[name].tobytes() != after[name].tobytes()]


def main(folder: Path) -> None:
    """Trains in several ways, and dies."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    found: dict[str, Any] = {}
    looking = {"eval": data(23), "metric": "mse(prediction, y)"}
    saving = {"save": folder / "four.safetensors"}
    held = trainer(None, zero=1)
    found["four ranks"] = trained(held, **looking, **saving)
    shared = held.shared
    assert shared is not None
    found["buckets"] = shared.buckets
    found["owned"] = held.crew.exchange("states", sorted(shared.own_states))
    found["changed by a skipped step"] = skipped(trainer(None, loss_scale=2.0))
    os.environ[PER_HOST_VARIABLE] = "2"
    shared_steps.HOST_KINDS = ()  # as on a GPU
    found["two hosts"] = trained(trainer(world, zero=1))
    if world.rank == 0:
        found["one process"] = trained(trainer(False), STEPS + 3, **looking)
        found["resumed by one"] = trained(trainer(False), STEPS + 3, **saving, resume=True)
        (folder / "found.json").write_text(json.dumps(found))
    held.crew.exchange("the end", None)
    batch = {name: array[:9] for name, array in data(9).items()}
    if world.rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    begun = time.monotonic()
    try:
        held.step(batch)
    except mgn.MgnError as error:
        said = {"message": str(error), "seconds": time.monotonic() - begun}
        (folder / f"said_by_{world.rank}.json").write_text(json.dumps(said))
        raise


if __name__ == "__main__":
    main(Path(sys.argv[1]))
