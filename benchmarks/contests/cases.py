"""The kernels that are timed: each as an mgn program, a NumPy function and a PyTorch function.

In: sizes. Out: a `Case`, with the bytes the kernel must move and the operations it must do.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mgn.dialects.mgn.operations.elements.elementwise import round_to_tf32

Arrays = dict[str, np.ndarray]

STORED = {"f32": "f32", "tf32": "f32", "bf16": "bf16", "f16": "f16"}
"""What a product's operands may be rounded to, and the element type of its inputs and its result.
"""


@dataclass(frozen=True)
class Case:
    """One kernel. `bytes` counts every input and every output once; `operations` is in flop.

    `numpy` and `torch` take the inputs in order; `torch` receives the module first, or what stands
    for it (see `in_tinygrad`). `bound` names the ceiling that the share refers to: "copy"
    (bandwidth) or "matmul" (the best rate of the run). `by_row` names inputs whose rows are the
    result's rows: some rows are then checked for all. `below` bounds the inputs that are integers.
    `precision` is what a product multiplies: bf16 is the type of the inputs themselves, tf32 is
    asked of the compiler.
    """

    name: str
    program: str
    inputs: dict[str, tuple[int, ...]]
    numpy: Callable[..., Any]
    torch: Callable[..., Any]
    bytes: int
    operations: int
    bound: str
    by_row: tuple[str, ...] = ()
    below: dict[str, int] = field(default_factory=dict[str, int])
    precision: str = "f32"


def matmul(size: int, precision: str = "f32") -> Case:
    """A square product."""
    return product(size, size, size, str(size), precision=precision)


def product(
    rows: int, inner: int, columns: int, name: str = "", batch: int = 1, precision: str = "f32"
) -> Case:
    """A product, of a batch of matrices where that is more than one."""
    front = (batch,) if batch > 1 else ()
    left, right = (*front, rows, inner), (*front, inner, columns)
    shown = name or "x".join(map(str, (*front, rows, inner, columns)))
    stored, rounded = STORED[precision], rounding(precision)
    return Case(
        f"matmul {shown}{suffix(precision)}",
        f"graph g(a: {stored}{list(left)}, b: {stored}{list(right)}) {{ return y = a @ b }}",
        {"a": left, "b": right},
        lambda a, b: rounded(a) @ rounded(b),
        lambda torch, a, b: torch.matmul(a, b),
        stored_bytes(stored) * batch * (rows * inner + inner * columns + rows * columns),
        2 * batch * rows * inner * columns,
        "matmul",
        ("a", "b") if batch > 1 else ("a",),
        precision=precision,
    )


def gelu_matmul(rows: int, inner: int, columns: int, precision: str = "f32") -> Case:
    """A linear layer with a bias and a gelu as its epilogue."""
    t, rounded = STORED[precision], rounding(precision)
    return Case(
        f"linear + gelu {rows}x{inner}x{columns}{suffix(precision)}",
        f"graph g(x: {t}[{rows}, {inner}], w: {t}[{columns}, {inner}], b: {t}[{columns}]) "
        '{ return y = gelu(linear(x, w, b), approx = "tanh") }',
        {"x": (rows, inner), "w": (columns, inner), "b": (columns,)},
        lambda x, w, b: _gelu(rounded(x) @ rounded(w).T + b),
        lambda torch, x, w, b: torch.nn.functional.gelu(
            torch.nn.functional.linear(x, w, b), approximate="tanh"
        ),
        stored_bytes(t) * (rows * inner + inner * columns + columns + rows * columns),
        2 * rows * inner * columns,
        "matmul",
        ("x",),
        precision=precision,
    )


def suffix(precision: str) -> str:
    return "" if precision == "f32" else f" {precision}"


def stored_bytes(stored: str) -> int:
    return 2 if stored in ("bf16", "f16") else 4


def rounding(precision: str) -> Callable[[np.ndarray], np.ndarray]:
    """How operands of f64 are rounded on the way into a product."""
    return round_to_tf32 if precision == "tf32" else lambda x: x


def _gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def chain(rows: int, columns: int) -> Case:
    """Six elementwise operations: `silu(a * 0.5 + b) * tanh(c)`."""
    shape = (rows, columns)
    return Case(
        f"elementwise chain {rows}x{columns}",
        f"graph g(a: f32[{rows}, {columns}], b: f32[{rows}, {columns}], c: f32[{rows}, {columns}]) "
        "{ return y = silu(a * 0.5 + b) * tanh(c) }",
        {"a": shape, "b": shape, "c": shape},
        lambda a, b, c: (t := a * 0.5 + b) / (1 + np.exp(-t)) * np.tanh(c),
        lambda torch, a, b, c: torch.nn.functional.silu(a * 0.5 + b) * torch.tanh(c),
        4 * 4 * rows * columns,
        6 * rows * columns,
        "copy",
        ("a", "b", "c"),
    )


def residual(rows: int, columns: int) -> Case:
    """`relu(a + b)`: nothing but memory."""
    shape = (rows, columns)
    return Case(
        f"add + relu {rows}x{columns}",
        f"graph g(a: f32[{rows}, {columns}], b: f32[{rows}, {columns}]) "
        "{ return y = relu(a + b) }",
        {"a": shape, "b": shape},
        lambda a, b: np.maximum(a + b, 0),
        lambda torch, a, b: torch.relu(a + b),
        3 * 4 * rows * columns,
        2 * rows * columns,
        "copy",
        ("a", "b"),
    )


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def softmax(rows: int, columns: int) -> Case:
    """Softmax over rows."""
    return Case(
        f"softmax {rows}x{columns}",
        f"graph g(x: f32[{rows}, {columns}]) {{ return y = softmax(x) }}",
        {"x": (rows, columns)},
        _softmax,
        lambda torch, x: torch.softmax(x, -1),
        2 * 4 * rows * columns,
        5 * rows * columns,
        "copy",
        ("x",),
    )


def _layer_norm(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * w + b


def layer_norm(rows: int, columns: int) -> Case:
    """Layer norm over rows."""
    return Case(
        f"layer_norm {rows}x{columns}",
        f"graph g(x: f32[{rows}, {columns}], w: f32[{columns}], b: f32[{columns}]) "
        "{ return y = layer_norm(x, w, b, eps = 1e-5) }",
        {"x": (rows, columns), "w": (columns,), "b": (columns,)},
        _layer_norm,
        lambda torch, x, w, b: torch.nn.functional.layer_norm(x, w.shape, w, b),
        2 * 4 * rows * columns,
        7 * rows * columns,
        "copy",
        ("x",),
    )


def attention(batch: int, heads: int, rows: int, size: int, precision: str = "f32") -> Case:
    """Causal attention; half of the scores are counted."""
    width = heads * size
    shape = (batch, rows, width)
    stored, rounded = STORED[precision], rounding(precision)
    operand = f"{stored}[{batch}, {rows}, {width}]"
    return Case(
        f"causal attention {batch}x{heads}x{rows}x{size}{suffix(precision)}",
        f"graph g(q: {operand}, k: {operand}, v: {operand}) "
        f"{{ return y = attention(q, k, v, heads = {heads}, causal = true) }}",
        {"q": shape, "k": shape, "v": shape},
        lambda q, k, v: _merged(
            _attention(*(split_heads(rounded(x), heads).swapaxes(1, 2) for x in (q, k, v)))
        ),
        lambda torch, q, k, v: torch.nn.functional.scaled_dot_product_attention(
            *(split_heads(x, heads).transpose(1, 2) for x in (q, k, v)), is_causal=True
        ).transpose(1, 2),
        4 * stored_bytes(stored) * batch * rows * width,
        2 * batch * rows * rows * width,
        "matmul",
        precision=precision,
    )


def spelled_attention(batch: int, heads: int, rows: int, size: int, precision: str = "f32") -> Case:
    """Attention without a mask, written out as two products and a softmax."""
    shape = (batch, heads, rows, size)
    operand, rounded = f"f32{list(shape)}", rounding(precision)
    return Case(
        f"softmax(q kT) v {batch}x{heads}x{rows}x{size}{suffix(precision)}",
        f"graph g(q: {operand}, k: {operand}, v: {operand}) "
        f"{{ return y = softmax(q @ k.T * {size**-0.5}) @ v }}",
        {"q": shape, "k": shape, "v": shape},
        lambda q, k, v: _attention(*(rounded(x) for x in (q, k, v)), causal=False),
        lambda torch, q, k, v: torch.softmax(q @ k.transpose(-2, -1) * size**-0.5, -1) @ v,
        4 * 4 * batch * heads * rows * size,
        4 * batch * heads * rows * rows * size,
        "matmul",
        precision=precision,
    )


def decoding(heads: int, keys: int, size: int, precision: str = "f32") -> Case:
    """One query of each head over a long cache, which is what has to be read."""
    width = heads * size
    stored, rounded = STORED[precision], rounding(precision)
    cache = f"{stored}[1, {keys}, {width}]"
    return Case(
        f"decoding 1x{heads}x{keys}x{size}{suffix(precision)}",
        f"graph g(q: {stored}[1, 1, {width}], k: {cache}, v: {cache}) "
        f"{{ return y = attention(q, k, v, heads = {heads}) }}",
        {"q": (1, 1, width), "k": (1, keys, width), "v": (1, keys, width)},
        lambda q, k, v: _merged(
            _attention(*(split_heads(rounded(x), heads).swapaxes(1, 2) for x in (q, k, v)), False)
        ),
        lambda torch, q, k, v: torch.nn.functional.scaled_dot_product_attention(
            *(split_heads(x, heads).transpose(1, 2) for x in (q, k, v))
        ).transpose(1, 2),
        2 * stored_bytes(stored) * (keys + 1) * width,
        4 * keys * width,
        "copy",
        precision=precision,
    )


def split_heads(x: Any, heads: int) -> Any:
    """`[batch, rows, heads * size]` as `[batch, rows, heads, size]`, of any library."""
    return x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads)


def _merged(x: np.ndarray) -> np.ndarray:
    rows = x.swapaxes(1, 2)
    return rows.reshape(*rows.shape[:2], -1)


def _attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool = True) -> np.ndarray:
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])
    unseen = np.triu(np.full(scores.shape[-2:], causal), 1)
    return _softmax(np.where(unseen, -np.inf, scores)) @ v
