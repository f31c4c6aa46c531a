"""Who else computes a graph: PyTorch, torch.compile, ONNX Runtime, tinygrad.

In: a compiled graph with its IR, parameters and inputs. Out: for each peer a `Call`: its results,
and a function to time. MgnError where a peer is not installed, with what brings it, or cannot
compute the graph.
"""

import importlib
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from mgn.bench.translation import Rows, Translation, translated
from mgn.diagnostics import MgnError, one_line
from mgn.executable import Executable
from mgn.training.run.extras import need

EXTRA = "bench"
"""The extra that brings all peers."""

Timed = Callable[[], object]


@dataclass(frozen=True)
class Subject:
    """A compiled graph and what it is run on; `model` is the ONNX file that it was read from."""

    executable: Executable
    inputs: Mapping[str, np.ndarray]
    model: Path | None = None

    @property
    def on_gpu(self) -> bool:
        """Whether it runs on a GPU."""
        return self.executable.device.kind == "gpu"

    def translated(self, rows: Rows) -> Translation:
        """The graph in another library."""
        recipe, params = self.executable.recipe, self.executable.params
        return translated(recipe.lower(), rows, params)


@dataclass(frozen=True)
class Call:
    """What a peer computes: its results by name, and the function to time, which gives its own
    seconds where a device's clock has them.
    """

    results: Mapping[str, np.ndarray]
    timed: Timed


def replay_of(executable: Executable) -> Timed:
    """mgn's launches: timed by the device's events on a GPU, by the wall clock on a CPU."""
    if executable.device.kind != "gpu":
        return executable.replay

    def replay() -> float:
        launches = executable.replay(profile=True)
        return max(launch.start + launch.seconds for launch in launches)

    return replay


def call_of(name: str, subject: Subject) -> Call:
    """A peer's call. MgnError where the peer is unknown, is not there or cannot compute it."""
    if name not in PEERS:
        raise MgnError(
            f"--against: there is no peer '{one_line(name)}'; there are {', '.join(PEERS)}"
        )
    package, make = PEERS[name]
    need(package, EXTRA, f"--against {name}")
    try:
        return make(subject)
    except MgnError:
        raise
    except Exception as error:
        said = one_line((str(error).strip().splitlines() or [""])[0], 300)
        raise MgnError(
            f"{name} cannot compute the graph: {type(error).__name__}: {said}"
        ) from error


def _torch(subject: Subject) -> Call:
    return _by_torch(subject, compiled=False)


def _inductor(subject: Subject) -> Call:
    return _by_torch(subject, compiled=True)


def _by_torch(subject: Subject, compiled: bool) -> Call:
    """PyTorch's, as it is or by its compiler; on the device's kind."""
    from mgn.bench.torch_rows import torch_rows

    torch: Any = need("torch", EXTRA, "--against torch")
    if subject.on_gpu and not torch.cuda.is_available():
        raise MgnError("this PyTorch sees no GPU; --device cpu compares both on the processor")
    place = "cuda" if subject.on_gpu else "cpu"
    translation = subject.translated(torch_rows(torch, place))
    tensors = translation.tensors(subject.inputs)
    function: Any = _compiled(torch, translation, tensors) if compiled else translation
    precision = subject.executable.recipe.precision
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"

    def run() -> float | None:
        with torch.inference_mode():
            if not subject.on_gpu:
                function(*tensors)
                return None
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            function(*tensors)
            end.record()
            torch.cuda.synchronize()
            return start.elapsed_time(end) / 1e3

    with torch.inference_mode():
        found = function(*tensors)
    return Call(dict(zip(translation.outputs, map(_from_torch, found), strict=True)), run)


def _compiled(torch: Any, translation: Translation, tensors: Sequence[Any]) -> Any:
    """What torch.compile makes of the graph of PyTorch's own operators."""
    with torch.no_grad():
        translation(*tensors)
        graph = importlib.import_module("torch.fx.experimental.proxy_tensor").make_fx(translation)
        return torch.compile(graph(*tensors))


def _from_torch(tensor: Any) -> np.ndarray:
    is_bf16 = str(tensor.dtype) == "torch.bfloat16"
    return (tensor.float() if is_bf16 else tensor).cpu().numpy()


def _onnxruntime(subject: Subject) -> Call:
    """ONNX Runtime's: on the model's own file, or on what PyTorch exports of the translation."""
    runtime: Any = need("onnxruntime", EXTRA, "--against onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = os.cpu_count() or 1
    options.log_severity_level = 3
    wanted = "CUDAExecutionProvider" if subject.on_gpu else "CPUExecutionProvider"
    if wanted not in runtime.get_available_providers():
        raise MgnError(f"this ONNX Runtime has no {wanted}; --device cpu compares on the processor")
    names = list(subject.executable.outputs)
    with tempfile.TemporaryDirectory() as folder:
        path = subject.model
        if path is None:
            path = Path(folder) / "peer.onnx"
            _export(subject, path)
        session = runtime.InferenceSession(os.fspath(path), options, providers=[wanted])
    arrays = list(subject.inputs.values())
    given = [item.name for item in session.get_inputs()]
    if len(given) != len(arrays):
        raise MgnError(f"the model has {len(given)} inputs, and the graph {len(arrays)}")
    by_name = all(name in subject.inputs for name in given)
    feed = {
        name: subject.inputs[name] if by_name else arrays[number]
        for number, name in enumerate(given)
    }
    found = session.run(None, feed)
    if len(found) != len(names):
        raise MgnError(f"the model has {len(found)} outputs, and the graph {len(names)}")
    return Call(dict(zip(names, found, strict=True)), lambda: session.run(None, feed))


def _export(subject: Subject, path: Path) -> None:
    """Writes the graph as an ONNX file, by way of PyTorch."""
    from mgn.bench.torch_rows import torch_rows

    torch: Any = need("torch", EXTRA, "--against onnxruntime on a program that is no .onnx file")
    if find_spec("onnxscript") is None:
        need("onnxscript", EXTRA, "--against onnxruntime on a program that is no .onnx file")
    translation = subject.translated(torch_rows(torch, "cpu"))

    class Graph(torch.nn.Module):
        def forward(self, *tensors: Any) -> Any:
            return translation(*tensors)

    tensors = tuple(translation.tensors(subject.inputs))
    with torch.inference_mode():
        translation(*tensors)  # so that what is exported are the rows' calls alone
        program = torch.onnx.export(Graph().eval(), tensors, dynamo=True, verbose=False)
    program.save(path, external_data=True)


def _tinygrad(subject: Subject) -> Call:
    from mgn.bench import tinygrad_rows

    translation = subject.translated(tinygrad_rows.tinygrad_rows())
    call = tinygrad_rows.replayed(translation, translation.tensors(subject.inputs))
    found = [tinygrad_rows.array_of(item) for item in call()]
    results = {
        name: array.reshape(subject.executable.outputs[name].shape)
        for name, array in zip(translation.outputs, found, strict=True)
    }
    return Call(results, tinygrad_rows.timed(call, subject.on_gpu))


PEERS: dict[str, tuple[str, Callable[[Subject], Call]]] = {
    "torch": ("torch", _torch),
    "inductor": ("torch", _inductor),
    "onnxruntime": ("onnxruntime", _onnxruntime),
    "tinygrad": ("tinygrad", _tinygrad),
}
"""By name: the package, and what makes a peer's call."""


def relative_error(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest difference over the largest magnitude; infinity for another shape, or where only
    one has a NaN.
    """
    if found.shape != wanted.shape:
        return float("inf")
    if not found.size:
        return 0.0
    one, other = (_wide(item) for item in (found, wanted))
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    if same.all():
        return 0.0
    with np.errstate(all="ignore"):
        difference = float(np.max(np.where(same, 0.0, np.abs(one - other))))
        largest = float(np.max(np.abs(other[np.isfinite(other)]), initial=0.0))
        return difference / largest if largest and np.isfinite(difference) else float("inf")


def _wide(array: np.ndarray) -> np.ndarray:
    if array.dtype == ml_dtypes.bfloat16:
        array = array.astype(np.float32)
    return array.astype(np.float64)
