"""What the zoo knows of a model: its file, its sizes, its peer in PyTorch, and how both are called.

In: nothing. Out: `Entry`, `Call`, `Decoder`. Peers are built here with random weights; nothing is
downloaded.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.zoo.cached import Step

MODELS = Path(__file__).resolve().parent.parent.parent / "examples" / "models"

Sizes = Mapping[str, int]
Tensors = Mapping[str, Any]


@dataclass(frozen=True)
class Call:
    """A graph, its inputs by name, and its results by name as the peer computes them."""

    graph: str
    inputs: Callable[[Sizes, np.random.Generator], dict[str, np.ndarray]]
    peer: Callable[[Any, Tensors], Tensors]


@dataclass(frozen=True)
class Decoder:
    """How a model writes: `first` reads the prompt, and graph `decode` takes one token more.

    Where `first` gives no logits, the text begins with the token `start`. `logits` are those of the
    last of `tokens`, as the peer computes them anew. `step` is a token more of the peer with a
    cache of its own, after the inputs of `first`.
    """

    first: Call
    logits: Callable[[Any, Tensors], Any]
    start: int = 0
    step: Callable[[Any, Tensors], Step] | None = None


@dataclass(frozen=True)
class Entry:
    """A model of the zoo: `full` are the sizes that its file has, `small` those for tests."""

    name: str
    file: str
    full: Sizes
    small: Sizes
    module: Callable[[Sizes], Any]
    """The peer, a `torch.nn.Module` with random weights; its names are those of the file."""
    call: Call
    decoder: Decoder | None = None
    packages: tuple[str, ...] = ("transformers",)
    """What the peer is of, beside torch."""
    unread: tuple[str, ...] = ()
    """How names of the peer's state_dict end that the file has no use for."""

    @property
    def path(self) -> Path:
        """The model's file."""
        return MODELS / self.file

    @property
    def graphs(self) -> list[str]:
        """The graphs that are compiled and compared."""
        own = [] if self.decoder is None else [self.decoder.first.graph, "decode"]
        return list(dict.fromkeys([self.call.graph, *own]))

    @property
    def missing(self) -> list[str]:
        """The packages of the peer that are not installed."""
        return [name for name in ("torch", *self.packages) if find_spec(name) is None]

    def sizes(self, small: bool) -> dict[str, int]:
        """All sizes, small or as in the file."""
        return {**self.full, **(self.small if small else {})}

    def resized(self, dims: Sizes) -> "Entry":
        """The model with other sizes, of those that it has."""
        own = {name: size for name, size in dims.items() if name in self.full}
        return replace(self, full={**self.full, **own}, small={**self.small, **own})


def tokens_of(sizes: Sizes, generator: np.random.Generator) -> dict[str, np.ndarray]:
    """Inputs of a language model: random tokens."""
    shape = (1, sizes["S"])
    return {"tokens": generator.integers(0, sizes["VOCAB"], shape, dtype=np.int32)}


def image_of(sizes: Sizes, generator: np.random.Generator) -> dict[str, np.ndarray]:
    """Inputs of a classifier: a random image."""
    side = sizes["H"] if "H" in sizes else sizes["SIDE"]
    shape = (1, sizes.get("CHANNELS", 3), side, side)
    return {"image": generator.standard_normal(shape, dtype=np.float32)}
