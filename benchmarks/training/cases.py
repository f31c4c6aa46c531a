"""The networks that are trained side by side: programs of mgn and their peers in PyTorch.

In: nothing. Out: `CASES`, each with a graph that gives a loss, a module of the same parameters, and
how that one computes the loss. Weights are drawn by PyTorch, batches by NumPy.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

import mgn
from benchmarks.zoo.entry import MODELS, Entry
from benchmarks.zoo.table import ENTRIES
from mgn import ops
from mgn.training.step.extension import ExtendedGraph

OWN = Path(__file__).parent
CHARACTER_GPT = MODELS.parent / "character_gpt" / "character_gpt.mgn"

FIRST = 1
"""The least id: 0 is padding in BERT's table of transformers, whose row is never trained."""

Tensors = Mapping[str, Any]
Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Case:
    """A network in training.

    `below` says of inputs with whole numbers which ones they are less than; `fixed` gives inputs
    that are the same in all batches. `packages` are the peer's, beside torch.
    """

    name: str
    program: Callable[[], ModuleOp]
    peer: Callable[[], Any]
    loss: Callable[[Any, Tensors], Any]
    below: Mapping[str, int] = field(default_factory=dict[str, int])
    fixed: Mapping[str, Any] = field(default_factory=dict[str, Any])
    packages: tuple[str, ...] = ()

    def batch(self, inputs: Mapping[str, tuple[str, tuple[int, ...]]], number: int) -> Any:
        """A batch for a graph with these inputs, the same one for each number."""
        dice = np.random.default_rng(number)
        found: dict[str, np.ndarray] = {}
        for name, (_, shape) in inputs.items():
            if name in self.fixed:
                found[name] = np.broadcast_to(self.fixed[name], shape).astype(np.int32)
            elif name in self.below:
                bound = self.below[name]
                found[name] = dice.integers(min(FIRST, bound - 2), bound, shape, dtype=np.int32)
            else:
                found[name] = dice.standard_normal(shape, dtype=np.float32)
        return found


def with_loss(path: Path, graph: str, sizes: Sizes, result: str) -> ModuleOp:
    """The graph of a model, whose result is compared with one more input: `logits` with `labels`,
    as classes, anything else with `target`.
    """
    extended = ExtendedGraph(mgn.parse_file(path).lower(graph, sizes))
    found = extended.outputs[result]
    with extended:
        if result == "logits":
            sizes_of_labels = ", ".join(map(str, found.shape[:-1]))
            labels = extended.input("labels", f"i32[{sizes_of_labels}]")
            extended.output(loss=ops.cross_entropy(found, labels))
        else:
            extended.output(loss=ops.mse(found, extended.input("target", found.type)))
    return extended.module


def _of_zoo(name: str, label: str, sizes: Sizes, result: str, below: Sizes, **fixed: Any) -> Case:
    """A model of the zoo of small sizes."""
    entry = next(item for item in ENTRIES if item.name == name)

    def loss(module: Any, tensors: Tensors) -> Any:
        return _compared(entry.call.peer(module, tensors)[result], tensors)

    return Case(
        label,
        lambda: with_loss(entry.path, entry.call.graph, _own_sizes(entry, sizes), result),
        lambda: entry.module(_own_sizes(entry, sizes)),
        loss,
        below,
        fixed,
        entry.packages,
    )


def _own_sizes(entry: Entry, sizes: Sizes) -> dict[str, int]:
    return entry.sizes(small=True) | dict(sizes)


def _compared(result: Any, tensors: Tensors) -> Any:
    """The loss of what a peer gives."""
    import torch.nn.functional as F

    if "target" in tensors:
        return F.mse_loss(result, tensors["target"])
    return F.cross_entropy(result.flatten(0, -2), tensors["labels"].flatten())


def _resnet18(batch: int, side: int) -> Case:
    def peer() -> Any:
        from torchvision.models import resnet18

        return resnet18(num_classes=10)

    sizes = {"B": batch, "SIDE": side}
    return Case(
        "ResNet-18",
        lambda: mgn.parse_file(OWN / "resnet18.mgn").lower("resnet18", sizes),
        peer,
        lambda module, tensors: _compared(module(tensors["image"]), tensors),
        {"labels": 10},
        packages=("torchvision",),
    )


def _character_gpt(batch: int, rows: int, width: int, layers: int) -> Case:
    sizes = {"B": batch, "S": rows, "D": width, "LAYERS": layers}

    def peer() -> Any:
        from benchmarks.training.peers import CharacterGpt

        return CharacterGpt(63, width, 4, layers, rows)

    def loss(module: Any, tensors: Tensors) -> Any:
        from benchmarks.training.peers import next_token_loss

        text = tensors["text"]
        return next_token_loss(module(text[:, :-1]), text[:, 1:])

    return Case(
        "character GPT",
        lambda: mgn.parse_file(CHARACTER_GPT).lower("train", sizes),
        peer,
        loss,
        {"text": 63},
    )


_MLP = {"D": 784, "FF": 512, "CLASSES": 10}
_LENET = {"SIDE": 32, "CHANNELS": 1, "CLASSES": 10}
_DECODER = {"D": 64, "HEADS": 4, "KV": 2, "HD": 16, "FF": 160, "LAYERS": 2, "VOCAB": 97}
_BERT = {"D": 64, "HEADS": 4, "LAYERS": 1, "VOCAB": 97, "POSITIONS": 32, "S": 32}

CURVES = (
    _of_zoo("mlp", "MLP", {**_MLP, "B": 32}, "logits", {"labels": 10}),
    _of_zoo("lenet", "LeNet", {**_LENET, "B": 16}, "logits", {"labels": 10}),
    _resnet18(8, 64),
    _of_zoo(
        "smollm2",
        "decoder, two layers",
        {**_DECODER, "S": 32, "B": 4},
        "logits",
        {"tokens": 97, "labels": 97},
    ),
    _of_zoo("bert", "BERT block", {**_BERT, "B": 4}, "hidden", {"tokens": 97, "kinds": 2}, mask=1),
    _of_zoo("unet", "U-Net", {"B": 2}, "noise", {"timestep": 1000}),
    _character_gpt(4, 32, 64, 2),
)
"""Small networks, whose losses are compared over many steps."""

STEPS = (
    _of_zoo("mlp", "MLP", {**_MLP, "B": 64}, "logits", {"labels": 10}),
    _character_gpt(16, 128, 128, 5),
    _of_zoo("lenet", "LeNet", {**_LENET, "B": 64}, "logits", {"labels": 10}),
    _resnet18(8, 64),
)
"""Networks whose steps are timed."""
