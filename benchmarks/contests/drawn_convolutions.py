"""Convolutions that nobody named, with a bias and a rectifier, beside ONNX Runtime on one core.

In: how many, a seed. Out: a row for each: least and median milliseconds of processor time of both,
in turns, and how much faster mgn is. mgn's result is compared with the peer's before.
"""

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import mgn
from benchmarks.contests.onnx_graph import OnnxGraph
from benchmarks.one_core import Clock, timed_by
from mgn.bench.timing import interleaved_times

LEAST, MOST = 4e6, 6e8
"""Operations of a convolution: one of fewer is mostly the launch, more take long."""

TOLERANCE = 2e-5
"""Largest accepted error by the largest result: sums of up to some thousand products in f32."""


@dataclass(frozen=True)
class Drawn:
    """A convolution of one image: channels in and out, sides, window, stride and groups."""

    channels: int
    out: int
    side: int
    size: int
    stride: int
    groups: int

    @staticmethod
    def by(generator: np.random.Generator) -> "Drawn":
        """One of some size."""
        while True:
            channels, out = (int(2 ** generator.uniform(3, 9.5)) for _ in range(2))
            side = int(2 ** generator.uniform(2.6, 7))
            size = int(generator.choice([1, 3, 5, 7], p=[0.4, 0.4, 0.1, 0.1]))
            stride = int(generator.choice([1, 2], p=[0.75, 0.25]))
            depthwise = size > 1 and generator.random() < 0.25
            found = Drawn(channels, channels if depthwise else out, side, size, stride,
                          channels if depthwise else 1)  # fmt: skip
            if LEAST <= found.operations * (8 if depthwise else 1) <= MOST and side >= size:
                return found

    @property
    def padding(self) -> int:
        return self.size // 2

    @property
    def places(self) -> int:
        """Places of the result along a side."""
        return (self.side + 2 * self.padding - self.size) // self.stride + 1

    @property
    def operations(self) -> float:
        """Additions and multiplications."""
        each = self.channels // self.groups * self.size**2
        return 2.0 * self.places**2 * self.out * each

    @property
    def name(self) -> str:
        """The sizes, as rows have them."""
        kind = f"{self.size}x{self.size}/{self.stride}" + " depthwise," * (self.groups > 1)
        return f"{kind} {self.channels} to {self.out}, {self.side}"


def drawn_rows(count: int, seed: int, clock: Clock) -> Iterator[dict[str, Any]]:
    """The rows of so many convolutions."""
    generator = np.random.default_rng(seed)
    for _ in range(count):
        yield measured(Drawn.by(generator), clock)


def measured(case: Drawn, clock: Clock) -> dict[str, Any]:
    """A row. SystemExit where the result is wrong."""
    import onnxruntime

    generator = np.random.default_rng(0)
    each = case.channels // case.groups
    shape = (case.out, each, case.size, case.size)
    image = generator.standard_normal((1, case.channels, case.side, case.side), np.float32)
    weights = generator.standard_normal(shape, np.float32) / np.float32(each * case.size**2) ** 0.5
    bias = generator.standard_normal(case.out, np.float32)
    executable = mgn.compile(mgn.parse(_text(case)))
    executable.params["w"], executable.params["b"] = weights, bias
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        _model(case, weights, bias), options, providers=["CPUExecutionProvider"]
    )
    wanted, found = session.run(None, {"x": image})[0], executable(x=image)["y"]
    error = float(np.abs(found - wanted).max() / np.abs(wanted).max())
    if not error <= TOLERANCE:
        raise SystemExit(f"{case.name}: wrong result, relative error {error:.3g}")
    calls = {"mgn": executable.replay, "onnxruntime": lambda: session.run(None, {"x": image})}
    times = interleaved_times({name: timed_by(clock, call) for name, call in calls.items()})
    least = {name: min(values) for name, values in times.items()}
    middle = {name: statistics.median(values) for name, values in times.items()}
    row: dict[str, Any] = {"convolution": case.name, "launches": len(executable.plan.launches)}
    for name in calls:
        row |= {f"{name} ms": middle[name] * 1e3, f"{name} least": least[name] * 1e3}
    row["share"] = middle["onnxruntime"] / middle["mgn"]
    row["least share"] = least["onnxruntime"] / least["mgn"]
    row["mgn GFLOP/s"] = case.operations / least["mgn"] / 1e9
    return row


def _text(case: Drawn) -> str:
    how = f"stride = {case.stride}, padding = {case.padding}, groups = {case.groups}"
    each = case.channels // case.groups
    return f"""graph g(x: f32[1, {case.channels}, {case.side}, {case.side}]) {{
  param w: f32[{case.out}, {each}, {case.size}, {case.size}]
  param b: f32[{case.out}]
  return y = relu(conv2d(x, w, b, {how}))
}}"""


def _model(case: Drawn, weights: np.ndarray, bias: np.ndarray) -> bytes:
    graph = OnnxGraph()
    operands = "x", graph.constant("w", weights), graph.constant("b", bias)
    how = {"strides": [case.stride] * 2, "pads": [case.padding] * 4, "group": case.groups}
    y = graph.node("Relu", graph.node("Conv", *operands, **how))
    image, result = [1, case.channels, case.side, case.side], [1, case.out, *[case.places] * 2]
    return graph.model("x", "FLOAT", image, "y", result, y)
