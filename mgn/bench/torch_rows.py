"""How PyTorch computes the operations of the language: by its own functions where it has them.

In: PyTorch's module and a device. Out: `Rows`.
"""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from mgn.bench.translation import Rows
from mgn.dialects.types import ElementType

Pairs = tuple[tuple[int, int], ...]


def torch_rows(torch: Any, place: str) -> Rows:
    """The rows for tensors on a device of PyTorch's."""

    def tensor(array: np.ndarray) -> Any:
        if array.dtype == ml_dtypes.bfloat16:
            return torch.from_numpy(array.astype(np.float32)).to(torch.bfloat16).to(place)
        return torch.from_numpy(np.array(array, order="C")).to(place)

    maker = _Maker(torch, place)
    return Rows("PyTorch", maker.rows(), tensor)


class _Maker:
    """The rows, with PyTorch's module at hand."""

    def __init__(self, torch: Any, place: str) -> None:
        self.torch, self.place = torch, place
        self.functional = torch.nn.functional

    def rows(self) -> dict[str, Callable[..., Any]]:
        """All rows by the operation's name."""
        t, f = self.torch, self.functional
        same = "abs neg sign exp expm1 log log1p sqrt rsqrt sin cos tan tanh sigmoid erf floor "
        same += "ceil round isnan logical_not logical_and logical_or pow eq ne lt le gt ge relu"
        rows: dict[str, Callable[..., Any]] = {name: getattr(t, name) for name in same.split()}
        rows |= {
            "add": lambda a, b: a + b,
            "sub": lambda a, b: a - b,
            "mul": lambda a, b: a * b,
            "div": lambda a, b: (
                a / b if a.is_floating_point() else t.div(a, b, rounding_mode="trunc")
            ),
            "mod": t.remainder,
            "max": t.maximum,
            "min": t.minimum,
            "recip": t.reciprocal,
            "where": t.where,
            "identity": lambda x: x,
            "stop_gradient": lambda x: x,
            "cast": lambda x, T: x.to(self.dtype(T)),
            "gelu": lambda x, approx: f.gelu(x, approximate=approx),
            "silu": f.silu,
            "softplus": f.softplus,
            "leaky_relu": lambda x, slope: f.leaky_relu(x, slope),
            "elu": lambda x, alpha: f.elu(x, alpha),
            "swiglu": lambda gate, up: f.silu(gate) * up,
        }
        rows |= {
            "sum": lambda x, axis, keepdims: t.sum(x, axis, keepdims, dtype=x.dtype) if axis else x,
            "mean": lambda x, axis, keepdims: t.mean(x, axis, keepdims) if axis else x,
            "prod": self.prod,
            "max_reduce": lambda x, axis, keepdims: t.amax(x, axis, keepdims) if axis else x,
            "min_reduce": lambda x, axis, keepdims: t.amin(x, axis, keepdims) if axis else x,
            "argmax": lambda x, axis, keepdims, T: self.best(t.argmax, x, axis, keepdims, T),
            "argmin": lambda x, axis, keepdims, T: self.best(t.argmin, x, axis, keepdims, T),
            "var": lambda x, axis, keepdims: t.var(x, axis, correction=0, keepdim=keepdims),
            "logsumexp": lambda x, axis, keepdims: t.logsumexp(x, axis, keepdims),
            "running_sum": lambda x, axis: t.cumsum(x, axis, dtype=x.dtype),
            "running_product": lambda x, axis: t.cumprod(x, axis, dtype=x.dtype),
            "softmax": lambda x, axis: t.softmax(x, axis),
            "log_softmax": lambda x, axis: t.log_softmax(x, axis),
        }
        rows |= {
            "reshape": lambda x, shape: x.reshape(shape),
            "transpose": lambda x, perm: x.permute(perm),
            "broadcast_to": lambda x, shape: x.expand(shape),
            "concat": lambda operands, axis: t.cat(operands, axis),
            "stack": lambda operands, axis: t.stack(operands, axis),
            "split": lambda x, sizes, axis: t.split(x, list(sizes), axis),
            "flip": lambda x, axis: t.flip(x, axis),
            "slice": self.slice,
            "pad": self.pad,
            "full": lambda shape, value, T: t.full(
                shape, value, dtype=self.dtype(T), device=self.place
            ),
            "iota": self.iota,
            "embedding": lambda ids, table: f.embedding(ids.long(), table),
            "gather": self.gather,
            "take_along_axis": lambda x, ids, axis: t.take_along_dim(x, ids.long(), axis),
            "scatter_along": self.scatter_along,
            "sort": lambda x, axis, descending: (
                t.sort(x, dim=axis, descending=descending, stable=True).values
            ),
            "argsort": lambda x, axis, descending: t.argsort(
                x, dim=axis, descending=descending, stable=True
            ).to(t.int32),
            "topk": self.topk,
        }
        rows |= {
            "matmul": self.matmul,
            "linear": f.linear,
            "einsum": lambda operands, equation: t.einsum(equation, *operands),
            "attention": self.attention,
            "batch_norm": lambda x, w, b, mean, var, eps: f.batch_norm(x, mean, var, w, b, eps=eps),
            "group_norm": lambda x, w, b, groups, eps: f.group_norm(x, groups, w, b, eps),
            "instance_norm": lambda x, w, b, eps: f.instance_norm(x, weight=w, bias=b, eps=eps),
            "layer_norm": lambda x, w, b, eps: f.layer_norm(x, tuple(w.shape), w, b, eps),
            "rms_norm": lambda x, w, eps: f.rms_norm(x, tuple(w.shape), w, eps),
            "convolution": lambda x, w, **at: self.convolve(x, w, None, **at),
        }
        for axes in (1, 2, 3):
            rows[f"conv{axes}d"] = self.convolve
            rows[f"conv_transpose{axes}d"] = self.convolve_back
            rows[f"max_pool{axes}d"] = self.max_pool
            rows[f"avg_pool{axes}d"] = self.average_pool
        return rows

    def dtype(self, element: ElementType) -> Any:
        """PyTorch's type of elements."""
        names = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16"}
        names |= {"i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8"}
        names |= {"u8": "uint8", "u16": "uint16", "u32": "uint32", "bool": "bool"}
        return getattr(self.torch, names[element.name])

    def prod(self, x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
        for item in sorted(axis, reverse=True):
            x = self.torch.prod(x, item, keepdims, dtype=x.dtype)
        return x

    def best(self, function: Any, x: Any, axis: Any, keepdims: bool, T: ElementType) -> Any:
        if len(axis) != 1:
            raise NotImplementedError
        return function(x, axis[0], keepdims).to(self.dtype(T))

    def slice(self, x: Any, starts: Any, stops: Any, steps: Any) -> Any:
        if any(step < 1 for step in steps):
            raise NotImplementedError
        return x[tuple(slice(*item) for item in zip(starts, stops, steps, strict=True))]

    def pad(self, x: Any, padding: Pairs, value: float) -> Any:
        flat = [size for pair in reversed(padding) for size in pair]
        return self.functional.pad(x, flat, value=value)

    def iota(self, shape: tuple[int, ...], axis: int, T: ElementType) -> Any:
        line = self.torch.arange(shape[axis], dtype=self.dtype(T), device=self.place)
        return line.reshape([-1 if n == axis else 1 for n in range(len(shape))]).expand(shape)

    def gather(self, x: Any, ids: Any, axis: int) -> Any:
        found = self.torch.index_select(x, axis, ids.reshape(-1).long())
        return found.reshape(*x.shape[:axis], *ids.shape, *x.shape[axis + 1 :])

    def scatter_along(self, x: Any, ids: Any, src: Any, axis: int, combine: str, **_: Any) -> Any:
        if combine != "add":
            raise NotImplementedError
        return x.scatter_add(axis, ids.long().expand(src.shape), src)

    def topk(self, x: Any, k: int, axis: int) -> Any:
        values, ids = self.torch.topk(x, k, axis)
        return values, ids.to(self.torch.int32)

    def matmul(self, a: Any, b: Any, transpose_a: bool, transpose_b: bool) -> Any:
        return (a.mT if transpose_a else a) @ (b.mT if transpose_b else b)

    def attention(self, q: Any, k: Any, v: Any, bias: Any, **at: Any) -> Any:
        if at["window"] or at["softcap"]:
            raise NotImplementedError
        heads, kv_heads = at["heads"], at["kv_heads"]
        split = [
            item.unflatten(-1, (count, -1)).transpose(-2, -3)
            for item, count in ((q, heads), (k, kv_heads), (v, kv_heads))
        ]
        rows, columns = q.shape[-2], k.shape[-2]
        mask, causal = bias, at["causal"]
        if causal and (rows != columns or bias is not None):
            seen = self.torch.ones(rows, columns, dtype=self.torch.bool, device=q.device)
            seen = seen.tril(columns - rows)
            mask = seen if bias is None else bias.masked_fill(~seen, float("-inf"))
            causal = False
        found = self.functional.scaled_dot_product_attention(
            *split,
            attn_mask=mask,
            is_causal=causal,
            scale=at["scale"],
            enable_gqa=heads != kv_heads,
        )
        return found.transpose(-2, -3).flatten(-2)

    def convolve(self, x: Any, w: Any, b: Any, **at: Any) -> Any:
        x, padding = self.padded(x, at["padding"], 0.0)
        function = getattr(self.functional, f"conv{x.ndim - 2}d")
        return function(x, w, b, at["stride"], padding, at["dilation"], at["groups"])

    def convolve_back(self, x: Any, w: Any, b: Any, **at: Any) -> Any:
        if any(low != high for low, high in at["padding"]):
            raise NotImplementedError
        function = getattr(self.functional, f"conv_transpose{x.ndim - 2}d")
        padding = [low for low, _ in at["padding"]]
        more, groups = at["output_padding"], at["groups"]
        return function(x, w, b, at["stride"], padding, more, groups, at["dilation"])

    def max_pool(self, x: Any, **at: Any) -> Any:
        x, padding = self.padded(x, at["padding"], float("-inf"))
        if any(2 * size > kernel for size, kernel in zip(padding, at["kernel"], strict=True)):
            raise NotImplementedError
        function = getattr(self.functional, f"max_pool{x.ndim - 2}d")
        given = (at["kernel"], at["stride"], padding, at["dilation"])
        return function(x, *given, ceil_mode=at["ceil_mode"])

    def average_pool(self, x: Any, **at: Any) -> Any:
        uneven = any(low != high for low, high in at["padding"])
        if uneven or any(step != 1 for step in at["dilation"]):
            raise NotImplementedError
        function = getattr(self.functional, f"avg_pool{x.ndim - 2}d")
        padding = [low for low, _ in at["padding"]]
        given = (at["kernel"], at["stride"], padding, at["ceil_mode"])
        return function(x, *given, count_include_pad=at["count_include_pad"])

    def padded(self, x: Any, padding: Pairs, value: float) -> tuple[Any, list[int]]:
        """A tensor with what PyTorch's own padding cannot be, and the rest of the padding."""
        if all(low == high for low, high in padding):
            return x, [low for low, _ in padding]
        flat = [size for pair in reversed(padding) for size in pair]
        return self.functional.pad(x, flat, value=value), [0] * len(padding)
