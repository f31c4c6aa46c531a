"""A model of the zoo compiled, given its peer's weights, and compared with it.

In: an `Entry`. Out: `Trial`, with the largest relative error of all results. The peer computes
first. Its `state_dict` is written as safetensors and loaded unchanged. What it computes is in f64,
or in f32 where it is large. A peer that is larger yet is given up before the model is compiled, so
that memory holds one of them at a time.
"""

import copy
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import mgn
from benchmarks.one_core import Clock
from benchmarks.zoo.entry import Call, Entry
from mgn.runtime.weights import save_params

TOLERANCE = 2e-5
"""Largest accepted error of a result relative to its largest magnitude, in f32."""

TOLERANCES = {"f32": TOLERANCE, "tf32": 5e-3, "bf16": 5e-2, "bf16-stored": 5e-2, "f16": 5e-3}
"""The same by what products multiply: units of rounding that tens of layers add up."""

MOST_WIDE = 200_000_000
"""Parameters of a peer that still computes in f64; a larger one would take gigabytes more."""

MOST_BESIDE = 700_000_000
"""Parameters of a peer that memory holds beside the model."""

STEPS = 6
"""Tokens that a decoder writes."""


@dataclass(frozen=True)
class Trial:
    """A compiled model and its peer, with the errors of its results by graph and name. `names` are
    the peer's arrays. Where the peer was given up, `peer` is None, and `peer_seconds` is what its
    call took.
    """

    entry: Entry
    sizes: Mapping[str, int]
    program: mgn.Program
    peer: Any
    errors: Mapping[str, float]
    names: tuple[str, ...]
    peer_seconds: float | None = None

    @property
    def on_gpu(self) -> bool:
        """Whether the program is on a GPU."""
        return next(iter(self.program.values())).device.kind == "gpu"

    @property
    def precision(self) -> str:
        """What products multiply."""
        return next(iter(self.program.values())).recipe.precision

    @property
    def error(self) -> float:
        """The largest error."""
        return max(self.errors.values())

    @property
    def unknown(self) -> list[str]:
        """Arrays of the peer that the model should have read."""
        names = [name for name in self.names if name not in self.program.params]
        return [name for name in names if not name.endswith(self.entry.unread)]


@dataclass
class Wanted:
    """What a peer computes: the results of its calls, and the text that it writes."""

    calls: list[tuple[Call, Mapping[str, np.ndarray], dict[str, np.ndarray]]]
    prompt: dict[str, np.ndarray]
    written: list[tuple[np.ndarray, np.ndarray]]
    """Each token that is read after the prompt, and the logits that follow."""
    seconds: float
    """What the first call took."""


def tried(
    entry: Entry,
    small: bool,
    device: str = "auto",
    precision: str = "f32",
    most_beside: int = MOST_BESIDE,
    clock: Clock = time.perf_counter,
    resident: str = "auto",
) -> Trial:
    """The trial of an entry; the peer's weights are those of a fixed seed. A peer of more than
    `most_beside` parameters is given up, and no parameter is held in several layouts.
    """
    import torch

    torch.manual_seed(0)
    sizes = entry.sizes(small)
    peer = roughened(entry.module(sizes)).eval()
    if small:
        peer = redrawn(peer)
    count = sum(value.numel() for value in peer.parameters())
    names = tuple(peer.state_dict())
    wanted = wanted_of(entry, peer, sizes, count <= MOST_WIDE, clock)
    is_beside = count <= most_beside
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "peer.safetensors"
        save_params(path, State(peer))
        if not is_beside:
            peer = None
        program = mgn.compile(
            mgn.parse_file(entry.path),
            entry.graphs,
            dims=sizes,
            device=device,
            precision=precision,
            prepare=is_beside,
            resident=resident,
        )
        program.load_params(path)
        errors = compared(entry, program, wanted)
    return Trial(entry, sizes, program, peer, errors, names, None if is_beside else wanted.seconds)


class State(Mapping[str, np.ndarray]):
    """A module's state_dict as arrays in its own memory."""

    def __init__(self, module: Any) -> None:
        self._state = module.state_dict()

    def __getitem__(self, name: str) -> np.ndarray:
        return self._state[name].detach().cpu().numpy()

    def __iter__(self) -> Iterator[str]:
        return iter(self._state)

    def __len__(self) -> int:
        return len(self._state)


def roughened(module: Any) -> Any:
    """A module whose weights of norms and biases are not all ones and zeros."""
    import torch

    with torch.no_grad():
        for name, value in module.state_dict().items():
            if name.endswith("running_var"):
                value.uniform_(0.5, 1.5)
            elif value.ndim <= 1 and value.is_floating_point():
                value.add_(torch.randn_like(value) * 0.1)
    return module


def redrawn(module: Any) -> Any:
    """A module of few channels whose products keep the magnitude of what they read, as those of a
    full size do. With the weights of a full size, attention would see all tokens alike, and no
    rotation or soft cap would show in a result.
    """
    import torch

    with torch.no_grad():
        for value in module.state_dict().values():
            if value.ndim > 1:
                value.normal_(0, value[0].numel() ** -0.5)
    return module


def wanted_of(
    entry: Entry, peer: Any, sizes: Mapping[str, int], wide: bool, clock: Clock
) -> Wanted:
    """What a peer computes, in f64 where that is asked for; each token that it writes is the most
    likely one.
    """
    import torch

    generator = np.random.default_rng(0)
    reference = copy.deepcopy(peer).double() if wide else peer
    wanted = Wanted([], {}, [], 0.0)
    decoder = entry.decoder
    with torch.inference_mode():
        for call in (entry.call, *([] if decoder is None else [decoder.first])):
            inputs = call.inputs(sizes, generator)
            start = clock()
            found = call.peer(reference, tensors_of(inputs, wide))
            wanted.seconds = wanted.seconds or clock() - start
            results = {name: value.numpy().copy() for name, value in found.items()}
            wanted.calls.append((call, inputs, results))
        if decoder is not None:
            inputs = decoder.first.inputs(sizes, np.random.default_rng(1))
            wanted.prompt.update(inputs)
            first = decoder.first.peer(reference, tensors_of(inputs, wide))
            tokens = inputs.get("tokens", np.zeros((1, 0), np.int32))
            token = np.full(1, decoder.start, np.int32)
            if "logits" in first:
                token = np.argmax(first["logits"].numpy(), -1).astype(np.int32)
            for _ in range(STEPS):
                tokens = np.concatenate([tokens, token[:, None]], axis=1)
                given = tensors_of({**inputs, "tokens": tokens}, wide)
                logits = decoder.logits(reference, given).numpy().copy()
                wanted.written.append((token, logits))
                token = np.argmax(logits, -1).astype(np.int32)
    return wanted


def compared(entry: Entry, program: mgn.Program, wanted: Wanted) -> dict[str, float]:
    """The errors by graph and result."""
    errors: dict[str, float] = {}
    for call, inputs, results in wanted.calls:
        found = program[call.graph](**inputs)
        for name, value in results.items():
            errors[f"{call.graph}.{name}"] = relative_error(found[name], value)
    if entry.decoder is not None:
        errors["decode.logits"] = decoding_error(entry, program, wanted)
    return errors


def decoding_error(entry: Entry, program: mgn.Program, wanted: Wanted) -> float:
    """The largest error of the logits while a text is written greedily; infinity where another
    token follows than when everything is computed anew.
    """
    assert entry.decoder is not None
    program.reset()
    found = program[entry.decoder.first.graph](**wanted.prompt)
    token, worst = wanted.written[0][0], 0.0
    if "logits" in found and not np.array_equal(token, np.argmax(found["logits"], -1)):
        return np.inf
    for token, expected in wanted.written:
        logits = program["decode"](token=token)["logits"]
        same = np.array_equal(np.argmax(logits, -1), np.argmax(expected, -1))
        worst = max(worst, relative_error(logits, expected) if same else np.inf)
    return worst


def tensors_of(inputs: Mapping[str, np.ndarray], wide: bool) -> dict[str, Any]:
    """Arrays as PyTorch takes them: ids in i64, numbers in f64 where that is asked for."""
    import torch

    found = {name: torch.from_numpy(array) for name, array in inputs.items()}
    return {
        name: (value.double() if wide else value) if value.is_floating_point() else value.long()
        for name, value in found.items()
    }


def relative_error(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest difference over the largest magnitude; infinity for another shape."""
    if found.shape != wanted.shape:
        return float("inf")
    return float(np.max(np.abs(found - wanted)) / np.max(np.abs(wanted)))
