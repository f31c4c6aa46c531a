"""A network that mgn and PyTorch train from the same weights on the same batches.

In: a case and an optimiser of each. Out: a trainer, and functions that do a step of the peer.
"""

import copy
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import mgn
from benchmarks.training.cases import Case
from benchmarks.zoo.trial import State, roughened
from mgn.runtime.weights import save_params

Batch = dict[str, np.ndarray]


class Kind(NamedTuple):
    """An optimiser of mgn's, and how PyTorch's is made for parameters."""

    name: str
    ours: mgn.Optimizer
    theirs: Callable[[Any], Any]


SGD = Kind(
    "SGD, momentum",
    mgn.SGD(lr=0.01, momentum=0.9),
    lambda values: torch.optim.SGD(values, lr=0.01, momentum=0.9),
)
ADAMW = Kind("AdamW", mgn.AdamW(lr=1e-3), lambda values: torch.optim.AdamW(values, lr=1e-3))


class Peer:
    """PyTorch's side: a step on a batch gives its loss."""

    def __init__(self, case: Case, module: Any, kind: Kind, wide: bool = False) -> None:
        self.case, self.wide = case, wide
        self.module = copy.deepcopy(module)
        self.module = self.module.double() if wide else self.module
        self.module.train()
        for layer in self.module.modules():
            if isinstance(layer, torch.nn.Dropout):
                layer.p = 0.0
        self.optimizer = kind.theirs(self.module.parameters())
        self.loss: Callable[[Any], Any] = lambda tensors: case.loss(self.module, tensors)

    def compile(self) -> None:
        """Has torch.compile make the forward and backward pass."""
        self.loss = torch.compile(self.loss)

    def tensors(self, batch: Batch) -> dict[str, Any]:
        """A batch as PyTorch takes it: ids in i64."""
        found = {name: torch.from_numpy(array) for name, array in batch.items()}
        return {
            name: (value.double() if self.wide else value)
            if value.is_floating_point()
            else value.long()
            for name, value in found.items()
        }

    def step(self, tensors: dict[str, Any]) -> float:
        """A step."""
        loss = self.loss(tensors)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.item()


class Pair(NamedTuple):
    """A trainer, and the peer's module as it begins."""

    trainer: mgn.Trainer
    module: Any


def paired(case: Case, kind: Kind, device: str = "auto") -> Pair:
    """A trainer of a case that begins with the weights of its peer, which a seed draws."""
    torch.manual_seed(0)
    module = roughened(case.peer())
    trainer = mgn.Trainer(case.program(), optimizer=kind.ours, device=device)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "peer.safetensors"
        save_params(path, State(module))
        trainer.load_params(path)
    return Pair(trainer, module)
