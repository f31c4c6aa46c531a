"""A model of the zoo compiled, given its peer's weights, and compared with it.

In: an `Entry`. Out: `Trial`, with the largest relative error of all results. The peer's
`state_dict` is written as safetensors and loaded unchanged. What the peer computes is in f64, or in
f32 where it is large.
"""

import copy
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import mgn
from benchmarks.zoo.entry import Entry

TOLERANCE = 2e-5
"""Largest accepted error of a result relative to its largest magnitude, in f32."""

TOLERANCES = {"f32": TOLERANCE, "tf32": 5e-3, "bf16": 5e-2, "bf16-stored": 5e-2, "f16": 5e-3}
"""The same by what products multiply: units of rounding that tens of layers add up."""

MOST_WIDE = 200_000_000
"""Parameters of a peer that still computes in f64; a larger one would take gigabytes more."""

STEPS = 6
"""Tokens that a decoder writes."""


@dataclass(frozen=True)
class Trial:
    """A compiled model and its peer, with the errors of its results by graph and name."""

    entry: Entry
    sizes: Mapping[str, int]
    program: mgn.Program
    peer: Any
    errors: Mapping[str, float]

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
        names = [name for name in self.peer.state_dict() if name not in self.program.params]
        return [name for name in names if not name.endswith(self.entry.unread)]


def tried(entry: Entry, small: bool, device: str = "auto", precision: str = "f32") -> Trial:
    """The trial of an entry; the peer's weights are those of a fixed seed."""
    import torch

    torch.manual_seed(0)
    sizes = entry.sizes(small)
    peer = roughened(entry.module(sizes)).eval()
    program = mgn.compile(
        mgn.parse_file(entry.path), entry.graphs, dims=sizes, device=device, precision=precision
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "peer.safetensors"
        save_state(peer, path)
        program.load_params(path)
    errors = compared(entry, program, peer, sizes)
    return Trial(entry, sizes, program, peer, errors)


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


def save_state(module: Any, path: Path) -> None:
    """Writes a module's state_dict as it is."""
    from safetensors.numpy import save_file

    state = {name: value.detach().cpu().numpy() for name, value in module.state_dict().items()}
    save_file({name: np.ascontiguousarray(value) for name, value in state.items()}, path)


def compared(
    entry: Entry, program: mgn.Program, peer: Any, sizes: Mapping[str, int]
) -> dict[str, float]:
    """The errors by graph and result."""
    import torch

    generator = np.random.default_rng(0)
    numbers = sum(value.numel() for value in peer.parameters())
    wide = numbers <= MOST_WIDE
    reference = copy.deepcopy(peer).double() if wide else peer
    errors: dict[str, float] = {}
    with torch.inference_mode():
        for call in (entry.call, *([] if entry.decoder is None else [entry.decoder.first])):
            inputs = call.inputs(sizes, generator)
            found = program[call.graph](**inputs)
            for name, wanted in call.peer(reference, tensors_of(inputs, wide)).items():
                errors[f"{call.graph}.{name}"] = relative_error(found[name], wanted.numpy())
        if entry.decoder is not None:
            errors["decode.logits"] = decoding_error(entry, program, reference, sizes)
    return errors


def decoding_error(
    entry: Entry, program: mgn.Program, reference: Any, sizes: Mapping[str, int]
) -> float:
    """The largest error of the logits while a text is written greedily; infinity where another
    token follows than when everything is computed anew.
    """
    assert entry.decoder is not None
    decoder = entry.decoder
    wide = next(reference.parameters()).dtype.itemsize == 8
    inputs = decoder.first.inputs(sizes, np.random.default_rng(1))
    program.reset()
    found = program[decoder.first.graph](**inputs)
    tokens = inputs.get("tokens", np.zeros((1, 0), np.int32))
    token = np.full(1, decoder.start, np.int32)
    if "logits" in found:
        token = np.argmax(found["logits"], -1).astype(np.int32)
    worst = 0.0
    for _ in range(STEPS):
        tokens = np.concatenate([tokens, token[:, None]], axis=1)
        logits = program["decode"](token=token)["logits"]
        wanted = decoder.logits(reference, tensors_of({**inputs, "tokens": tokens}, wide)).numpy()
        token = np.argmax(logits, -1).astype(np.int32)
        same = np.array_equal(token, np.argmax(wanted, -1))
        worst = max(worst, relative_error(logits, wanted) if same else np.inf)
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
