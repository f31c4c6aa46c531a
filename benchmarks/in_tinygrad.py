"""tinygrad as a contestant, on the first OpenCL device that it finds.

In: what a case computes, written as a function of the module `torch` and its tensors. Out: the same
as a replayed TinyJit, to be timed: `torch` is then `NAMES`, which has PyTorch's names of tinygrad's
operations. The variables DEV and OPENCL_PATH choose another device or loader, BEAM its search.
"""

import ctypes
import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

WARMING_CALLS = 3
"""A TinyJit runs once, records the second call and replays from the third on."""


def is_there() -> bool:
    """Whether tinygrad is installed."""
    return importlib.util.find_spec("tinygrad") is not None


def tensor(array: np.ndarray) -> Any:
    """A tensor in the device's memory."""
    tinygrad = _tinygrad()
    if array.dtype == ml_dtypes.bfloat16:
        return tinygrad.Tensor(array.astype(np.float32)).cast("bfloat16").realize()
    return tinygrad.Tensor(array).realize()


def replayed(function: Callable[..., Any], tensors: Sequence[Any]) -> Callable[[], Any]:
    """A function of `NAMES` and tensors as a call that replays its kernels; its result."""
    jitted = _tinygrad().TinyJit(lambda *given: function(NAMES, *given).realize())
    for _ in range(WARMING_CALLS):
        jitted(*tensors)
    return lambda: jitted(*tensors)


def result(call: Callable[[], Any]) -> np.ndarray:
    """What a call computes; bf16 as f32."""
    found = call()
    return found.float().numpy() if found.dtype == _tinygrad().dtypes.bfloat16 else found.numpy()


def timed(call: Callable[[], Any], on_gpu: bool) -> Callable[[], float | None]:
    """A call that ends when the device is done; its seconds by the device's clock, if a GPU's."""
    tinygrad = _tinygrad()
    device = tinygrad.Device[tinygrad.Device.DEFAULT]

    def run() -> float | None:
        if not on_gpu:
            call()
            device.synchronize()
            return None
        return _between_markers(device, call)

    return run


def _between_markers(device: Any, call: Callable[[], Any]) -> float:
    """The seconds that tinygrad's queue, which takes times of its commands, is busy with a call."""
    from mgn.runtime.devices import opencl

    cl = opencl()
    queue = cl.CommandQueue.from_int_ptr(ctypes.cast(device.queue, ctypes.c_void_p).value)
    start = cl.enqueue_marker(queue)
    call()
    end = cl.enqueue_marker(queue)
    queue.finish()
    return (end.profile.end - start.profile.end) / 1e9


def _tinygrad() -> Any:
    """The module, told to use OpenCL by way of the loader that pyopencl brings."""
    from mgn.runtime.devices import opencl

    opencl()
    os.environ.setdefault("OPENCL_PATH", str(import_module("pyopencl._cl").__file__))
    os.environ.setdefault("DEV", "CL")
    return import_module("tinygrad")


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
    arange=lambda *bounds, dtype, device: _tinygrad().Tensor.arange(*bounds, dtype=dtype),
    nn=SimpleNamespace(functional=SimpleNamespace(**FUNCTIONAL)),
)
"""PyTorch's names, as the cases and models use them."""
