"""tinygrad as a contestant, on the first OpenCL device that it finds.

In: what a case computes, written as a function of the module `torch` and its tensors. Out: the same
as a replayed TinyJit, to be timed: `torch` is then `NAMES`, which has PyTorch's names of tinygrad's
operations.
"""

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from mgn.bench import tinygrad_rows
from mgn.bench.tinygrad_rows import array_of, is_there, tensor, timed

__all__ = ["NAMES", "is_there", "replayed", "result", "tensor", "timed"]


def replayed(function: Callable[..., Any], tensors: Sequence[Any]) -> Callable[[], Any]:
    """A function of `NAMES` and tensors as a call that replays its kernels; its result."""
    return tinygrad_rows.replayed(lambda *given: function(NAMES, *given), tensors)


def result(call: Callable[[], Any]) -> np.ndarray:
    """What a call computes; bf16 as f32."""
    return array_of(call())


def _layer_norm(x: Any, shape: Any, gain: Any, shift: Any, eps: float = 1e-5) -> Any:
    return x.layernorm(tuple(range(-len(shape), 0)), eps) * gain + shift


def _rms_norm(x: Any, shape: Any, gain: Any, eps: float) -> Any:
    axes = tuple(range(-len(shape), 0))
    return x * (x.square().mean(axes, keepdim=True) + eps).rsqrt() * gain


def _linear(x: Any, weight: Any, bias: Any = None) -> Any:
    return x.linear(weight.T, bias)


def _cross_entropy(x: Any, labels: Any, reduction: str) -> Any:
    return x.sparse_categorical_crossentropy(labels, reduction=reduction)


FUNCTIONAL: Mapping[str, Callable[..., Any]] = {
    "linear": _linear,
    "gelu": lambda x, approximate="none": x.gelu(approximate),
    "silu": lambda x: x.silu(),
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "cross_entropy": _cross_entropy,
    "conv2d": lambda x, w, bias, stride, padding, dilation, groups: x.conv2d(
        w, bias, groups=groups, stride=stride, dilation=dilation, padding=padding
    ),
    "scaled_dot_product_attention": lambda q, k, v, **options: q.scaled_dot_product_attention(
        k, v, **options
    ),
}

NAMES = SimpleNamespace(
    matmul=lambda a, b: a @ b,
    relu=lambda x: x.relu(),
    tanh=lambda x: x.tanh(),
    softmax=lambda x, axis: x.softmax(axis),
    cat=lambda parts, axis: parts[0].cat(*parts[1:], dim=axis),
    outer=lambda a, b: a.unsqueeze(1) * b.unsqueeze(0),
    arange=lambda *bounds, dtype, device: tinygrad_rows.tinygrad_module().Tensor.arange(
        *bounds, dtype=dtype
    ),
    nn=SimpleNamespace(functional=SimpleNamespace(**FUNCTIONAL)),
)
"""PyTorch's names, as the cases and models use them."""
