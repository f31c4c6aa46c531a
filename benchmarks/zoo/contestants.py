"""Who computes a model of the zoo beside mgn: PyTorch, torch.compile and ONNX Runtime.

In: an entry and its trial. Out: functions to time, and what could not be made. On a GPU PyTorch
computes there, in the type that the precision names; ONNX Runtime, and decoding with a cache of the
peer's own, are timed on a CPU alone.
"""

import copy
import importlib.util
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.in_a_row import RUNS
from benchmarks.zoo.cached import Step
from benchmarks.zoo.entry import Call, Entry
from benchmarks.zoo.trial import Trial, tensors_of

Timed = Callable[[], object]

TYPES = {
    "f32": "float32",
    "tf32": "float32",
    "bf16": "bfloat16",
    "bf16-stored": "bfloat16",
    "f16": "float16",
}
"""PyTorch's type of a precision on a GPU."""

CALLS_BEFORE_A_GRAPH = 4
"""Calls in which `torch.compile` compiles, warms up and records a CUDA graph."""


def contestants_of(
    entry: Entry, graph: str, trial: Trial, against: Sequence[str]
) -> tuple[dict[str, Timed], list[str]]:
    """The contestants of a graph that are installed, and remarks on those that failed."""
    calls: dict[str, Timed] = {}
    remarks: list[str] = []
    if trial.peer is None:
        return calls, remarks
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
    """The module as it is."""
    step = _positional(entry, graph, trial)
    return None if step is None else _timed(_inferring(*step), trial)


def _compiled(entry: Entry, graph: str, trial: Trial) -> Timed | None:
    import torch

    step = _positional(entry, graph, trial)
    if step is None:
        return None
    mode = "reduce-overhead" if trial.on_gpu else "default"
    call = _inferring(torch.compile(step.module, mode=mode), step.arguments)
    for _ in range(CALLS_BEFORE_A_GRAPH if trial.on_gpu else 1):
        call()
    return _timed(call, trial)


def _inferring(module: Any, arguments: Sequence[Any]) -> Callable[[], None]:
    import torch

    def call() -> None:
        with torch.inference_mode():
            module(*arguments)

    return call


def _positional(entry: Entry, graph: str, trial: Trial) -> Step | None:
    """A graph's peer as a module of tensors, and these; None where it has none there."""
    if graph != entry.call.graph:
        return _step(entry, trial)
    peer, inputs = _placed(entry, trial)
    return Step(Positional(entry.call, peer, list(inputs)).module, tuple(inputs.values()))


def _step(entry: Entry, trial: Trial) -> Step | None:
    """A token with the peer's own cache, on a CPU."""
    decoder = entry.decoder
    if decoder is None or decoder.step is None or trial.on_gpu:
        return None
    return decoder.step(trial.peer, _tensors(decoder.first.inputs, trial))


def _placed(entry: Entry, trial: Trial) -> tuple[Any, dict[str, Any]]:
    """The peer and its inputs where the trial's device is, in its precision's type."""
    import torch

    inputs = _inputs(entry, trial)
    if not trial.on_gpu:
        return trial.peer, inputs
    dtype = TYPES[trial.precision]
    torch.backends.cuda.matmul.allow_tf32 = trial.precision == "tf32"
    torch.backends.cudnn.allow_tf32 = trial.precision == "tf32"
    torch.backends.cudnn.benchmark = True
    peer = copy.deepcopy(trial.peer).to("cuda", getattr(torch, dtype))
    for name, value in inputs.items():
        floats = value.is_floating_point()
        inputs[name] = value.to("cuda", getattr(torch, dtype) if floats else value.dtype)
    return peer, inputs


def _timed(call: Callable[[], None], trial: Trial) -> Timed:
    """A call; on a GPU the mean of several that follow one another, in seconds."""
    if not trial.on_gpu:
        return call
    import torch

    def seconds() -> float:
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(RUNS):
            call()
        torch.cuda.synchronize()
        return (time.perf_counter() - start) / RUNS

    return seconds


def _onnxruntime(entry: Entry, graph: str, trial: Trial) -> Timed | None:
    import onnxruntime
    import torch

    step = None if trial.on_gpu else _positional(entry, graph, trial)
    if step is None:
        return None
    with torch.inference_mode():
        program = torch.onnx.export(step.module, step.arguments, dynamo=True, verbose=False)
    assert program is not None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "peer.onnx"
        program.save(path, external_data=True)
        del program  # with the weights once more
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [item.name for item in session.get_inputs()]
    given = dict(zip(names, (value.numpy() for value in step.arguments), strict=True))
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
