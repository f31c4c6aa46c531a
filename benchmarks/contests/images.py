"""Networks of images as ONNX models, to stand beside `examples/models/`.

In: the parameters of a network, by torchvision's names. Out: a serialised model for one image of
224 × 224, as exported: batch norms follow convolutions, and the peer folds them.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.contests.onnx_graph import OnnxGraph

SIDE, CLASSES, EPS = 224, 1000, 1e-5

Weights = Mapping[str, Any]


def resnet50(weights: Weights, tokens: int = 0) -> bytes:
    """ResNet-50, as `examples/models/resnet50.mgn`."""
    graph = _Graph(weights)
    x = graph.relu(graph.normed(graph.convolution("image", "conv1", 2), "bn1"))
    x = graph.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for layer, (blocks, step) in enumerate(((3, 1), (4, 2), (6, 2), (3, 2)), 1):
        for block in range(blocks):
            x = _bottleneck(graph, x, f"layer{layer}.{block}", step if block == 0 else 1)
    return graph.classified(x, "fc")


def _bottleneck(graph: "_Graph", x: str, name: str, step: int) -> str:
    h = graph.relu(graph.normed(graph.convolution(x, f"{name}.conv1"), f"{name}.bn1"))
    h = graph.relu(graph.normed(graph.convolution(h, f"{name}.conv2", step), f"{name}.bn2"))
    h = graph.normed(graph.convolution(h, f"{name}.conv3"), f"{name}.bn3")
    if f"{name}.downsample.0.weight" in graph.weights:
        shorter = graph.convolution(x, f"{name}.downsample.0", step)
        x = graph.normed(shorter, f"{name}.downsample.1")
    return graph.relu(graph.node("Add", h, x))


def mobilenet_v2(weights: Weights, tokens: int = 0) -> bytes:
    """MobileNetV2, as `examples/models/mobilenet_v2.mgn`."""
    graph = _Graph(weights)

    def step(x: str, conv: str, norm: str, stride: int = 1) -> str:
        x = graph.convolution(x, f"features.{conv}", stride)
        return graph.normed(x, f"features.{norm}")

    x = graph.relu6(step("image", "0.0", "0.1", 2))
    strided = {2, 4, 7, 14}
    for block in range(1, 18):
        stride, own = 2 if block in strided else 1, f"{block}.conv"
        if block == 1:
            h = graph.relu6(step(x, f"{own}.0.0", f"{own}.0.1", stride))
            h = step(h, f"{own}.1", f"{own}.2")
        else:
            h = graph.relu6(step(x, f"{own}.0.0", f"{own}.0.1"))
            h = graph.relu6(step(h, f"{own}.1.0", f"{own}.1.1", stride))
            h = step(h, f"{own}.2", f"{own}.3")
        alike = block > 2 and block - 1 not in {3, 6, 10, 13, 16} and stride == 1
        x = graph.node("Add", x, h) if alike else h
    return graph.classified(graph.relu6(step(x, "18.0", "18.1")), "classifier.1")


class _Graph(OnnxGraph):
    """The parts of the networks."""

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        self.weights = weights

    def weight(self, name: str) -> str:
        return self.constant(name, self.weights[name])

    def convolution(self, x: str, name: str, stride: int = 1) -> str:
        _, each, size, _ = self.weights[f"{name}.weight"].shape
        groups = self.weights[f"{name}.weight"].shape[0] if each == 1 else 1
        how = {"strides": [stride] * 2, "pads": [size // 2] * 4, "group": groups}
        return self.node("Conv", x, self.weight(f"{name}.weight"), **how)

    def normed(self, x: str, name: str) -> str:
        parts = ("weight", "bias", "running_mean", "running_var")
        inputs = (self.weight(f"{name}.{part}") for part in parts)
        return self.node("BatchNormalization", x, *inputs, epsilon=EPS)

    def relu(self, x: str) -> str:
        return self.node("Relu", x)

    def relu6(self, x: str) -> str:
        bounds = [f"least_{len(self.nodes)}", f"most_{len(self.nodes)}"]
        for name, value in zip(bounds, (0, 6), strict=True):
            self.constant(name, np.array(value, np.float32))
        return self.node("Clip", x, *bounds)

    def classified(self, x: str, head: str) -> bytes:
        """The mean of each channel, the classes, and all of it as one text."""
        x = self.node("Flatten", self.node("GlobalAveragePool", x))
        parts = (self.weight(f"{head}.weight"), self.weight(f"{head}.bias"))
        x = self.node("Gemm", x, *parts, transB=1)
        return self.model("image", "FLOAT", [1, 3, SIDE, SIDE], "logits", [1, CLASSES], x)
