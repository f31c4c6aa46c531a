"""`python -m benchmarks.convolutions [--device D] [--only WORD]`: networks of images, one image at
a time, beside ONNX Runtime.

In: the networks of `examples/models/`, with random parameters. Out: a line for each: milliseconds
of both, the peak of memory beyond the weights, and the largest error against the peer, relative to
the largest result.
"""

import argparse
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import mgn
from benchmarks.contests import images
from benchmarks.contests.models import EXAMPLES, TOLERANCE
from mgn.bench.timing import interleaved_medians


@dataclass(frozen=True)
class Network:
    """An example's graph, and the same as ONNX."""

    name: str
    onnx: Callable[[images.Weights], bytes]


NETWORKS = (
    Network("resnet50", images.resnet50),
    Network("mobilenet_v2", images.mobilenet_v2),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the lines."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.convolutions", description=__doc__)
    parser.add_argument("--device", default="auto", help="as in mgn-run")
    parser.add_argument("--only", default="", help="networks whose name has this word")
    options = parser.parse_args(arguments)
    for network in NETWORKS:
        if options.only in network.name:
            print(line(network, options.device), flush=True)
    return 0


def line(network: Network, device: str) -> str:
    """What is said of a network. SystemExit where mgn's result is not the peer's."""
    executable = mgn.compile(
        mgn.parse_file(EXAMPLES / "models" / f"{network.name}.mgn"), device=device
    )
    weights = random_weights(executable)
    image = np.random.default_rng(1).standard_normal((1, 3, images.SIDE, images.SIDE), np.float32)
    found = executable(image=image)["logits"]
    contestants: dict[str, Callable[[], Any]] = {"mgn": executable.replay}
    text = ""
    if all(importlib.util.find_spec(name) for name in ("onnx", "onnxruntime")):
        call = peer(network.onnx(weights), image)
        wanted = call()[0]
        error = float(np.max(np.abs(found - wanted)) / np.max(np.abs(wanted)))
        if not error <= TOLERANCE:
            raise SystemExit(f"{network.name}: wrong result of mgn, relative error {error:.3g}")
        contestants["onnxruntime"] = call
        text = f", error {error:.1g}"
    times = interleaved_medians(contestants)
    parts = [f"{name} {seconds * 1e3:.3g} ms" for name, seconds in times.items()]
    if len(times) > 1:
        parts.append(f"ratio {times['onnxruntime'] / times['mgn']:.3g}")
    return f"{network.name}: {', '.join(parts)}{text}"


def random_weights(executable: mgn.Executable) -> dict[str, np.ndarray]:
    """Parameters that keep values of all layers of one size: variances near those that the
    initialisers lead to, and gains of residual branches that add up slowly.
    """
    generator = np.random.default_rng(0)
    weights: dict[str, np.ndarray] = {}
    for name in executable.params.without_value:
        executable.params.initialise(name)
    for name in executable.params:
        value = executable.params[name]
        if name.endswith("running_var"):
            value = generator.uniform(0.5, 2.0, value.shape).astype(np.float32)
        elif value.ndim == 1:
            low = 0.3 if name.endswith("weight") else -0.1
            value = generator.uniform(low, low + 0.4, value.shape).astype(np.float32)
        executable.params[name] = weights[name] = value
    return weights


def peer(model: bytes, image: np.ndarray) -> Callable[[], Any]:
    """A call of ONNX Runtime on all cores."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = os.cpu_count() or 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"image": image})


if __name__ == "__main__":
    sys.exit(main())
