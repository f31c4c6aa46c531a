"""How tinygrad computes the operations of the language, and how its calls are timed.

In: arrays, functions of tinygrad's tensors. Out: `Rows`; a replayed TinyJit, to be timed on the
first OpenCL device that tinygrad finds. The variables DEV and OPENCL_PATH choose another device or
loader, BEAM its search.
"""

import ctypes
import importlib.util
import os
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import ml_dtypes
import numpy as np

from mgn.bench.translation import Rows
from mgn.dialects.types import ElementType

WARMING_CALLS = 3
"""A TinyJit runs once, records the second call and replays from the third on."""


def is_there() -> bool:
    """Whether tinygrad is installed."""
    return importlib.util.find_spec("tinygrad") is not None


def tinygrad_module() -> Any:
    """The module, told to use OpenCL by way of the loader that pyopencl brings."""
    from mgn.runtime.devices import opencl

    opencl()
    os.environ.setdefault("OPENCL_PATH", str(import_module("pyopencl._cl").__file__))
    os.environ.setdefault("DEV", "CL")
    return import_module("tinygrad")


def tensor(array: np.ndarray) -> Any:
    """A tensor in the device's memory."""
    tinygrad = tinygrad_module()
    if array.dtype == ml_dtypes.bfloat16:
        return tinygrad.Tensor(array.astype(np.float32)).cast("bfloat16").realize()
    return tinygrad.Tensor(np.array(array, order="C")).realize()


def replayed(function: Callable[..., Any], tensors: Sequence[Any]) -> Callable[[], Any]:
    """A function of tensors as a call that replays its kernels; its result, or several."""

    def realized(*given: Any) -> Any:
        found = function(*given)
        if isinstance(found, tuple):
            return tuple(item.contiguous().realize() for item in found)
        return found.realize()

    jitted = tinygrad_module().TinyJit(realized)
    for _ in range(WARMING_CALLS):
        jitted(*tensors)
    return lambda: jitted(*tensors)


def array_of(found: Any) -> np.ndarray:
    """The array of a tensor; bf16 as f32."""
    is_bf16 = found.dtype == tinygrad_module().dtypes.bfloat16
    return found.float().numpy() if is_bf16 else found.numpy()


def timed(call: Callable[[], Any], on_gpu: bool) -> Callable[[], float | None]:
    """A call that ends when the device is done; its seconds by the device's clock, if a GPU's."""
    tinygrad = tinygrad_module()
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


def tinygrad_rows() -> Rows:
    """The rows of what tinygrad computes by a function of its own, and of core operations."""
    return Rows("tinygrad", _rows(tinygrad_module()), tensor)


def _rows(tinygrad: Any) -> dict[str, Callable[..., Any]]:
    same = (
        "abs neg sign exp sqrt rsqrt sin cos tan tanh sigmoid floor ceil round isnan erf log relu"
    )
    rows: dict[str, Callable[..., Any]] = {
        name: lambda x, name=name: getattr(x, name)() for name in same.split()
    }
    rows |= {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul": lambda a, b: a * b,
        "div": lambda a, b: a.div(b, rounding_mode=None if a.is_floating_point() else "trunc"),
        "mod": lambda a, b: a % b,
        "pow": lambda a, b: a**b,
        "max": lambda a, b: a.maximum(b),
        "min": lambda a, b: a.minimum(b),
        "eq": lambda a, b: a == b,
        "ne": lambda a, b: a != b,
        "lt": lambda a, b: a < b,
        "le": lambda a, b: a <= b,
        "gt": lambda a, b: a > b,
        "ge": lambda a, b: a >= b,
        "recip": lambda x: x.reciprocal(),
        "expm1": lambda x: x.exp() - 1,
        "log1p": lambda x: (x + 1).log(),
        "logical_not": lambda x: x.logical_not(),
        "logical_and": lambda a, b: a & b,
        "logical_or": lambda a, b: a | b,
        "where": lambda c, a, b: c.where(a, b),
        "identity": lambda x: x,
        "stop_gradient": lambda x: x,
        "cast": lambda x, T: x.cast(_dtype(tinygrad, T)),
        "gelu": lambda x, approx: x.gelu("none" if approx == "none" else "tanh"),
        "silu": lambda x: x.silu(),
    }
    rows |= {
        "sum": lambda x, axis, keepdims: x.sum(axis, keepdims) if axis else x,
        "mean": lambda x, axis, keepdims: x.mean(axis, keepdims) if axis else x,
        "prod": lambda x, axis, keepdims: x.prod(axis, keepdims) if axis else x,
        "max_reduce": lambda x, axis, keepdims: x.max(axis, keepdims) if axis else x,
        "min_reduce": lambda x, axis, keepdims: x.min(axis, keepdims) if axis else x,
        "logsumexp": lambda x, axis, keepdims: x.logsumexp(axis, keepdims),
        "running_sum": lambda x, axis: x.cumsum(axis),
        "softmax": lambda x, axis: x.softmax(axis),
        "log_softmax": lambda x, axis: x.log_softmax(axis),
        "reshape": lambda x, shape: x.reshape(shape),
        "transpose": lambda x, perm: x.permute(perm),
        "broadcast_to": lambda x, shape: x.expand(shape),
        "concat": lambda operands, axis: operands[0].cat(*operands[1:], dim=axis),
        "stack": lambda operands, axis: operands[0].stack(*operands[1:], dim=axis),
        "split": lambda x, sizes, axis: x.split(list(sizes), axis),
        "flip": lambda x, axis: x.flip(axis),
        "slice": lambda x, starts, stops, steps: x[
            tuple(slice(*item) for item in zip(starts, stops, steps, strict=True))
        ],
        "pad": lambda x, padding, value: x.pad(tuple(padding), value=value),
        "full": lambda shape, value, T: tinygrad.Tensor.full(
            shape, value, dtype=_dtype(tinygrad, T)
        ),
        "iota": lambda shape, axis, T: (
            tinygrad.Tensor.arange(shape[axis], dtype=_dtype(tinygrad, T))
            .reshape([-1 if n == axis else 1 for n in range(len(shape))])
            .expand(shape)
        ),
        "embedding": lambda ids, table: table[ids],
        "gather": lambda x, ids, axis: x[(*[slice(None)] * axis, ids)],
        "take_along_axis": lambda x, ids, axis: x.gather(axis, ids),
    }
    return rows | {
        "matmul": lambda a, b, transpose_a, transpose_b: (
            (a.transpose(-2, -1) if transpose_a else a)
            @ (b.transpose(-2, -1) if transpose_b else b)
        ),
        "linear": lambda x, w, b: x.linear(w.T, b),
        "attention": _attention,
        "conv2d": _convolve,
        "conv1d": _convolve,
        "conv3d": _convolve,
        "convolution": lambda x, w, **at: _convolve(x, w, None, **at),
        "max_pool2d": _max_pool,
        "avg_pool2d": _average_pool,
    }


def _dtype(tinygrad: Any, element: ElementType) -> Any:
    names = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16"}
    names |= {"i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8"}
    names |= {"u8": "uint8", "u16": "uint16", "u32": "uint32", "bool": "bool"}
    return getattr(tinygrad.dtypes, names[element.name])


def _attention(q: Any, k: Any, v: Any, bias: Any, **at: Any) -> Any:
    heads, width = at["heads"], q.shape[-1] // at["heads"]
    plain = abs(at["scale"] * width**0.5 - 1) < 1e-6 and at["kv_heads"] == heads
    ragged = at["causal"] and (q.shape[-2] != k.shape[-2] or bias is not None)
    if not plain or ragged or at["window"] or at["softcap"]:
        raise NotImplementedError
    split = [item.reshape(*item.shape[:-1], heads, -1).transpose(-2, -3) for item in (q, k, v)]
    found = split[0].scaled_dot_product_attention(*split[1:], bias, is_causal=at["causal"])
    return found.transpose(-2, -3).reshape(*q.shape[:-1], -1)


def _convolve(x: Any, w: Any, b: Any, **at: Any) -> Any:
    flat = [size for pair in reversed(at["padding"]) for size in pair]
    return x.conv2d(w, b, at["groups"], at["stride"], at["dilation"], flat)


def _max_pool(x: Any, **at: Any) -> Any:
    flat = [size for pair in reversed(at["padding"]) for size in pair]
    return x.max_pool2d(at["kernel"], at["stride"], at["dilation"], flat, at["ceil_mode"])


def _average_pool(x: Any, **at: Any) -> Any:
    flat = [size for pair in reversed(at["padding"]) for size in pair]
    given = (at["kernel"], at["stride"], at["dilation"], flat)
    return x.avg_pool2d(*given, at["ceil_mode"], at["count_include_pad"])
