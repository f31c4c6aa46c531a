"""Whole models side by side: mgn, PyTorch (eager), ONNX Runtime (on a CPU), tinygrad.

In: a model of `MODELS` and a device. Out: functions to time, after mgn's results on random tokens
and random parameters were compared with PyTorch's in f64, or where that is missing, with ONNX
Runtime's.
"""

import importlib.util
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import mgn
from benchmarks.contests import bert, in_tinygrad, smollm2

TOLERANCE = 1e-4
"""Largest accepted error relative to the largest magnitude of the result."""

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

Weights = Mapping[str, Any]


@dataclass(frozen=True)
class Model:
    """An example's graph, the same in PyTorch as a function of weights and tokens, and as ONNX."""

    name: str
    file: str
    vocabulary: int
    tokens: int
    torch: Callable[[Any, Weights, Any], Any]
    onnx: Callable[[Weights, int], bytes] | None = None


MODELS = (
    Model("bert 6x384, 1x128 tokens", "bert.mgn", 30522, 128, bert.forward, bert.onnx_model),
    Model("smollm2-135m, 1x128 tokens", "smollm2.mgn", 49152, 128, smollm2.forward),
)


def contestants_of(model: Model, device: str) -> dict[str, Callable[[], Any]]:
    """The functions to time. SystemExit where mgn's result is wrong."""
    executable = mgn.compile(mgn.parse_file(EXAMPLES / model.file), device=device)
    for name in executable.params.without_value:
        executable.params.initialise(name)
    generator = np.random.default_rng(0)
    tokens = generator.integers(0, model.vocabulary, (1, model.tokens), np.int32)
    found = next(iter(executable(tokens=tokens).values()))
    weights = {name: executable.params[name] for name in executable.params}
    on_gpu = executable.device.kind == "gpu"
    contestants: dict[str, Callable[[], Any]] = {"mgn": executable.replay}
    if on_gpu:
        contestants["mgn"] = lambda: _back_to_back(executable)
    wanted: np.ndarray | None = None
    if importlib.util.find_spec("torch") is not None:
        wanted = _torch_result(model, weights, tokens)
        contestants["torch"] = _torch_call(model, weights, tokens, on_gpu)
    if model.onnx is not None and not on_gpu and _are_there("onnx", "onnxruntime"):
        call = _onnx_call(model, weights, tokens)
        wanted = call() if wanted is None else wanted
        contestants["onnxruntime"] = call
    if wanted is not None:
        check(model, found, wanted, "mgn")
    if in_tinygrad.is_there():
        call = _tinygrad_call(model, weights, tokens)
        check(model, in_tinygrad.result(call), found if wanted is None else wanted, "tinygrad")
        contestants["tinygrad"] = in_tinygrad.timed(call, on_gpu=False)
    return contestants


def check(model: Model, found: np.ndarray, wanted: np.ndarray, whose: str) -> None:
    """SystemExit where a result is wrong."""
    error = float(np.max(np.abs(found - wanted)) / np.max(np.abs(wanted)))
    if not error <= TOLERANCE:
        raise SystemExit(f"{model.name}: wrong result of {whose}, relative error {error:.3g}")


def _back_to_back(executable: mgn.Executable) -> float:
    start = time.perf_counter()
    executable.replay()
    return time.perf_counter() - start


def _are_there(*packages: str) -> bool:
    return all(importlib.util.find_spec(name) is not None for name in packages)


def _torch_result(model: Model, weights: Weights, tokens: np.ndarray) -> np.ndarray:
    """What PyTorch computes in f64."""
    import torch

    wide = {name: torch.from_numpy(array).double() for name, array in weights.items()}
    with torch.inference_mode():
        return model.torch(torch, wide, torch.from_numpy(tokens).long()).numpy()


def _torch_call(
    model: Model, weights: Weights, tokens: np.ndarray, on_gpu: bool
) -> Callable[[], Any]:
    import torch

    place = "cuda" if on_gpu else "cpu"
    there = {name: torch.from_numpy(array).to(place) for name, array in weights.items()}
    ids = torch.from_numpy(tokens).long().to(place)

    def call() -> None:
        with torch.inference_mode():
            model.torch(torch, there, ids)
        if on_gpu:
            torch.cuda.synchronize()

    return call


def _tinygrad_call(model: Model, weights: Weights, tokens: np.ndarray) -> Callable[[], Any]:
    there = {name: in_tinygrad.tensor(array) for name, array in weights.items()}
    return in_tinygrad.replayed(
        lambda names, ids: model.torch(names, there, ids), [in_tinygrad.tensor(tokens)]
    )


def _onnx_call(model: Model, weights: Weights, tokens: np.ndarray) -> Callable[[], np.ndarray]:
    import onnxruntime

    assert model.onnx is not None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = os.cpu_count() or 1
    session = onnxruntime.InferenceSession(
        model.onnx(weights, model.tokens), options, providers=["CPUExecutionProvider"]
    )
    return lambda: session.run(None, {"tokens": tokens})[0]
