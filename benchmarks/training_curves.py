"""`python -m benchmarks.training_curves [CASE …] [--steps 100] [--optimizers]`: losses beside
PyTorch's.

The same weights, the same batches, an optimiser of each: the largest difference of the two losses
over all steps, and how far each is from PyTorch in f64, all relative to the loss. `nudged` is how
far PyTorch comes from its f64 curve when its weights begin a rounding away, the most of three
times: where that is beyond 1e-4 as well, roundings grow by themselves. With `--optimizers` it is
every optimiser on given gradients: parameters after the steps. The worst row comes first.
"""

import argparse
import copy
import importlib.util
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.training.cases import CURVES, Case
from benchmarks.training.optimisers import optimiser_rows
from benchmarks.training.side_by_side import ADAMW, SGD, Kind, Peer, paired

NUDGES = 3

DIFFERENT = 8
"""Batches, of which each comes again after the others."""

LIMIT = 1e-4
"""How far losses may be apart where no rounding grows."""


class Row(NamedTuple):
    """A case under an optimiser, with the losses of mgn, of PyTorch, and of PyTorch in f64."""

    case: str
    optimizer: str
    ours: np.ndarray
    theirs: np.ndarray
    exact: np.ndarray
    nudged: tuple[np.ndarray, ...]

    @property
    def apart(self) -> float:
        """The largest difference to PyTorch."""
        return largest(self.ours, self.theirs, self.exact)

    @property
    def text(self) -> str:
        """The row of a table."""
        own = largest(self.ours, self.exact, self.exact)
        other = largest(self.theirs, self.exact, self.exact)
        left = np.flatnonzero(relative(self.ours, self.theirs, self.exact) > LIMIT)
        when = f"step {left[0] + 1}" if left.size else "never"
        losses = f"{self.exact[0]:.4f} → {self.exact[-1]:.4f}"
        beside = max(largest(item, self.exact, self.exact) for item in self.nudged)
        figures = " | ".join(f"{item:.1e}" for item in (self.apart, own, other, beside))
        return f"| {self.case} | {self.optimizer} | {figures} | {when} | {losses} |"


COLUMNS = (
    "network",
    "optimiser",
    "mgn – PyTorch",
    "mgn – f64",
    "PyTorch – f64",
    "nudged",
    "beyond",
)
HEAD = f"| {' | '.join(COLUMNS)} | loss in f64 |\n|{'---|' * (len(COLUMNS) + 1)}"


def relative(one: np.ndarray, other: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """The difference at each step, by the loss there; by 1 where that is less."""
    return np.abs(one - other) / np.maximum(np.abs(exact), 1.0)


def largest(one: np.ndarray, other: np.ndarray, exact: np.ndarray) -> float:
    """The largest of all steps."""
    return float(relative(one, other, exact).max())


def curves(case: Case, kind: Kind, steps: int, device: str = "auto") -> Row:
    """The losses of all steps."""
    trainer, module = paired(case, kind, device)
    peers = [Peer(case, module, kind), Peer(case, module, kind, wide=True)]
    peers += [Peer(case, nudged(module, seed), kind) for seed in range(NUDGES)]
    ours: list[float] = []
    theirs: list[list[float]] = [[] for _ in peers]
    for step in range(steps):
        batch: dict[str, Any] = case.batch(trainer.inputs, step % DIFFERENT)
        ours.append(float(trainer.step(batch)["loss"]))
        for losses, peer in zip(theirs, peers, strict=True):
            losses.append(peer.step(peer.tensors(batch)))
    eager, exact, *others = map(np.array, theirs)
    return Row(case.name, kind.name, np.array(ours), eager, exact, tuple(others))


def nudged(module: Any, seed: int) -> Any:
    """A module whose weights are a rounding away: each by half a unit in the last place at most."""
    found = copy.deepcopy(module)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in found.parameters():
            value.mul_(1 + (torch.rand(value.shape, generator=generator) - 0.5) * 2.0**-23)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help="parts of names; all by default")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--device", default="auto", help="as in mgn-run")
    parser.add_argument("--optimizers", action="store_true", help="optimisers on given gradients")
    options = parser.parse_args(arguments)
    if options.optimizers:
        print(optimiser_rows(options.steps, options.device))
        return
    torch.set_num_threads(1)  # the networks are small, and threads that wait take each other's core
    rows: list[Row] = []
    for case in CURVES:
        if options.cases and not any(word.lower() in case.name.lower() for word in options.cases):
            continue
        missing = [item for item in case.packages if importlib.util.find_spec(item) is None]
        if missing:
            print(f"{case.name}: needs {', '.join(missing)}", flush=True)
            continue
        for kind in (SGD, ADAMW):
            rows.append(curves(case, kind, options.steps, options.device))
            print(rows[-1].text, flush=True)
    print(f"\n{HEAD}")
    for row in sorted(rows, key=lambda item: -item.apart):
        print(row.text)


if __name__ == "__main__":
    main()
