"""`python -m benchmarks.convolutions [--device D] [--only WORD]`: networks of images, one image at
a time, beside ONNX Runtime; with `--single`, single convolutions beside PyTorch; with `--drawn N`,
convolutions of random sizes beside ONNX Runtime, by processor time on one core.

In: the networks of `examples/models/`, with random parameters. Out: a line for each: milliseconds
of both, and the largest error against the peer, relative to the largest result. `--batch` and
`--precision` say how many images and what products multiply, `bf16 values` that the program is
written in bf16: ONNX Runtime computes one image in f32 alone.
"""

import argparse
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import mgn
from benchmarks.contests import images
from benchmarks.contests.drawn_convolutions import drawn_rows
from benchmarks.contests.models import EXAMPLES, TOLERANCE
from benchmarks.contests.single_convolutions import PRECISIONS, rows
from benchmarks.in_a_row import in_a_row
from benchmarks.one_core import on_one_core
from benchmarks.table import Table
from mgn.bench.timing import interleaved_medians

VALUES = "bf16 values"
"""The precision of a program that is written in bf16."""


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
    parser.add_argument("--batch", type=int, default=1, help="images at a time")
    parser.add_argument("--precision", default="", choices=("", *PRECISIONS, VALUES))
    parser.add_argument("--single", action="store_true", help="single convolutions, no networks")
    parser.add_argument("--drawn", type=int, default=0, help="so many convolutions of random sizes")
    parser.add_argument("--seed", type=int, default=0, help="which ones")
    options = parser.parse_args(arguments)
    if options.drawn:
        clock, table = on_one_core(), Table(36)
        for row in drawn_rows(options.drawn, options.seed, clock):
            table.print(row)
        return 0
    if options.single:
        table = Table(36)
        for row in rows(options.device, _precisions(options.precision), options.only):
            table.print(row)
        return 0
    precision = options.precision or "f32"
    for network in NETWORKS:
        if options.only in network.name:
            print(line(network, options.device, options.batch, precision), flush=True)
    return 0


def _precisions(name: str) -> tuple[str, ...]:
    return (name.removesuffix(" values"),) if name else PRECISIONS


def line(network: Network, device: str, batch: int = 1, precision: str = "f32") -> str:
    """What is said of a network. SystemExit where mgn's result is not the peer's."""
    source = (EXAMPLES / "models" / f"{network.name}.mgn").read_text()
    executable = mgn.compile(
        mgn.parse(source.replace("f32[", "bf16[") if precision == VALUES else source),
        dims={"B": batch},
        device=device,
        precision="f32" if precision == VALUES else precision,
    )
    weights = random_weights(executable)
    shape = (batch, 3, images.SIDE, images.SIDE)
    image = np.random.default_rng(1).standard_normal(shape, np.float32)
    dtype = ml_dtypes.bfloat16 if precision == VALUES else np.float32
    found = executable(image=image.astype(dtype))["logits"]
    contestants: dict[str, Callable[[], Any]] = {"mgn": in_a_row(executable)}
    text = ""
    known = all(importlib.util.find_spec(name) for name in ("onnx", "onnxruntime"))
    if known and batch == 1 and precision == "f32":
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
            value = generator.uniform(0.5, 2.0, value.shape).astype(value.dtype)
        elif value.ndim == 1:
            low = 0.3 if name.endswith("weight") else -0.1
            value = generator.uniform(low, low + 0.4, value.shape).astype(value.dtype)
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
