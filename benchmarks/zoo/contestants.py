"""Who computes a model of the zoo beside mgn: PyTorch, torch.compile and ONNX Runtime, on the CPU.

In: an entry and its trial. Out: functions to time, and what could not be made.
"""

import importlib.util
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.zoo.entry import Call, Entry
from benchmarks.zoo.trial import Trial, tensors_of

Timed = Callable[[], object]


def contestants_of(
    entry: Entry, graph: str, trial: Trial, against: Sequence[str]
) -> tuple[dict[str, Timed], list[str]]:
    """The contestants of a graph that are installed, and remarks on those that failed."""
    calls: dict[str, Timed] = {}
    remarks: list[str] = []
    for name in against:
        package, make = CONTESTANTS[name]
        if importlib.util.find_spec(package) is None:
            continue
        try:
            made = make(entry, graph, trial)
            if made is not None:
                made()
                calls[name] = made
        except Exception as error:  # of a compiler that is not ours: its row goes on without it
            said = (str(error).strip().splitlines() or [""])[0]
            remarks.append(f"{name}: {type(error).__name__}: {said[:160]}")
    return calls, remarks


def _eager(entry: Entry, graph: str, trial: Trial) -> Timed | None:
    """The module as it is; one step of decoding, with a cache of its own, where it can."""
    import torch

    if graph == entry.call.graph:
        inputs = _inputs(entry, trial)

        def call() -> None:
            with torch.inference_mode():
                entry.call.peer(trial.peer, inputs)

        return call
    assert entry.decoder is not None
    if entry.decoder.step is None:
        return None
    return entry.decoder.step(trial.peer, _tensors(entry.decoder.first.inputs, trial))


def _compiled(entry: Entry, graph: str, trial: Trial) -> Timed | None:
    import torch

    if graph != entry.call.graph:
        return None
    module, inputs = torch.compile(_positional(entry, trial)), _inputs(entry, trial)

    def call() -> None:
        with torch.inference_mode():
            module(*inputs.values())

    return call


def _onnxruntime(entry: Entry, graph: str, trial: Trial) -> Timed | None:
    import onnxruntime
    import torch

    if graph != entry.call.graph:
        return None
    inputs = _inputs(entry, trial)
    with torch.inference_mode():
        program = torch.onnx.export(
            _positional(entry, trial), tuple(inputs.values()), dynamo=True, verbose=False
        )
    assert program is not None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "peer.onnx"
        program.save(path, external_data=True)
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [item.name for item in session.get_inputs()]
    given = dict(zip(names, (value.numpy() for value in inputs.values()), strict=True))
    return lambda: session.run(None, given)


class Positional:
    """A peer as a module whose arguments are the inputs in their order."""

    def __init__(self, call: Call, peer: Any, names: Sequence[str]) -> None:
        import torch

        class Module(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.peer = peer

            def forward(self, *values: Any) -> Any:
                found = call.peer(self.peer, dict(zip(names, values, strict=True)))
                return tuple(found.values())

        self.module = Module().eval()


def _positional(entry: Entry, trial: Trial) -> Any:
    return Positional(entry.call, trial.peer, list(_inputs(entry, trial))).module


def _inputs(entry: Entry, trial: Trial) -> dict[str, Any]:
    return _tensors(entry.call.inputs, trial)


def _tensors(inputs: Callable[..., Mapping[str, np.ndarray]], trial: Trial) -> dict[str, Any]:
    return tensors_of(inputs(trial.sizes, np.random.default_rng(0)), wide=False)


CONTESTANTS: dict[str, tuple[str, Callable[[Entry, str, Trial], Timed | None]]] = {
    "torch": ("torch", _eager),
    "inductor": ("torch", _compiled),
    "onnxruntime": ("onnxruntime", _onnxruntime),
}
"""By name: the package, and what makes the function to time."""
