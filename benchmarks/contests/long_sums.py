"""Forms of long sums: programs that add up many terms, and what NumPy makes of the same.

In: how many elements a form may read. Out: its program with inputs of one sign, so that an error
relative to the result is one relative to the sum of magnitudes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray


CORRELATION = "mean(layer_norm(x, eps = 0.0) * x)"


@dataclass(frozen=True)
class Form:
    """A program of a graph with inputs of some shapes, and its NumPy function, in any precision.

    `terms` is how many terms the longest of its sums has; `spreads` says that the result measures
    how far inputs are from each other, and so is nothing where they are equal.
    """

    name: str
    inputs: dict[str, tuple[int, ...]]
    expression: str
    numpy: Callable[..., Any]
    terms: int
    element: str = "f32"
    spreads: bool = False

    @property
    def program(self) -> str:
        """Its text."""
        inputs = ", ".join(
            f"{name}: {self.element}[{', '.join(map(str, shape))}]"
            for name, shape in self.inputs.items()
        )
        return f"graph g({inputs}) {{ return y = {self.expression} }}"

    def arrays(self, draw: Callable[[tuple[int, ...], int], Array]) -> dict[str, Array]:
        """Inputs."""
        dtype = np.float16 if self.element == "f16" else np.float32
        return {
            name: draw(shape, number).astype(dtype, copy=False)
            for number, (name, shape) in enumerate(self.inputs.items())
        }


def random(shape: tuple[int, ...], number: int) -> Array:
    """Numbers above 0, up to 1."""
    return 1 - np.random.default_rng(number).random(shape, np.float32)


def constant(shape: tuple[int, ...], number: int) -> Array:
    """One number everywhere, whose additions all round alike."""
    return np.full(shape, 0.1 + number, np.float32)


def forms(elements: int) -> list[Form]:
    """All forms, of about so many elements."""
    n = elements
    row, column, deep = {"x": (n,)}, {"x": (n // 3, 3)}, {"x": (4, n // 40, 10)}
    outer = {"x": (n // 30, 3, 10)}
    k, keys = n // 10, n // 64
    return [
        Form("sum", row, "sum(x)", np.sum, n),
        Form("mean", row, "mean(x)", np.mean, n),
        Form("sum of 4 rows", {"x": (4, n // 4)}, "sum(x, axis = 1)", _over(1), n // 4),
        Form("sum of 3 columns", column, "sum(x, axis = 0)", _over(0), n // 3),
        Form("middle axis", deep, "sum(x, axis = 1)", _over(1), n // 40),
        Form("first two axes", deep, "sum(x, axis = [0, 1])", _over((0, 1)), n // 10),
        Form("outer two axes", outer, "sum(x, axis = [0, 2])", _over((0, 2)), n // 3),
        Form("turned", deep, "sum(transpose(x, perm = [2, 1, 0]), axis = [1, 2])", _turned, n // 4),
        Form("sum of powers", row, "sum(exp(x) * 0.5)", _half_powers, n),
        Form("half precision", row, "sum(cast(x, T = f32))", np.sum, n, "f16"),
        Form("var", row, "var(x)", np.var, n, spreads=True),
        Form("logsumexp", row, "exp(logsumexp(x))", lambda x: np.sum(np.exp(x)), n),
        Form("softmax", row, "softmax(x)", lambda x: np.exp(x) / np.sum(np.exp(x)), n),
        Form("rms_norm", row, "rms_norm(x, eps = 0.0)", _rms, n),
        Form("layer_norm", row, CORRELATION, _correlation, n, spreads=True),
        Form("mse", {"x": (n,), "t": (n,)}, "mse(x, t + 1.0)", _mse, n),
        Form("cumsum", row, "cumsum(x)", np.cumsum, n),
        Form("cumsum down columns", column, "cumsum(x, axis = 0)", _down, n // 3),
        Form("dot", {"a": (n,), "b": (n,)}, "a @ b", np.matmul, n),
        _product("row by matrix", 1, k, 5),
        _product("matrix by column", 5, k, 1),
        _product("few rows", 3, k, 8),
        _product("many rows", 9, k, 8),
        _product("linear, one row", 1, k, 5, turned=True),
        _product("linear, many rows", 9, k, 8, turned=True),
        Form(
            "einsum",
            {"a": (2, k // 2, 3), "b": (k // 2, 3, 4)},
            'einsum("bkn,knm->bm", a, b)',
            lambda a, b: np.einsum("bkn,knm->bm", a, b, optimize=True),
            3 * (k // 2),
        ),
        Form(
            "attention",
            {"q": (3, 16), "k": (keys, 16), "v": (keys, 16)},
            "attention(q, k, v, heads = 1, kv_heads = 1)",
            _attention,
            keys,
        ),
    ]  # fmt: skip


def _product(name: str, rows: int, depth: int, columns: int, turned: bool = False) -> Form:
    right = (columns, depth) if turned else (depth, columns)
    inputs = {"a": (rows, depth), "b": right}
    if turned:
        return Form(name, inputs, "linear(a, b)", lambda a, b: a @ b.T, depth)
    return Form(name, inputs, "a @ b", np.matmul, depth)


def _over(axis: int | tuple[int, ...]) -> Callable[[Array], Any]:
    return lambda x: np.sum(x, axis=axis)


def _turned(x: Array) -> Any:
    return np.sum(x.T, axis=(1, 2))


def _half_powers(x: Array) -> Any:
    return np.sum(np.exp(x) * x.dtype.type(0.5))


def _down(x: Array) -> Any:
    return np.cumsum(x, axis=0)


def _rms(x: Array) -> Any:
    return x / np.sqrt(np.mean(x * x))


def _correlation(x: Array) -> Any:
    return np.mean((x - np.mean(x)) / np.std(x) * x)


def _mse(x: Array, t: Array) -> Any:
    difference = x - (t + x.dtype.type(1))
    return np.mean(difference * difference)


def _attention(q: Array, k: Array, v: Array) -> Any:
    scores = q @ k.T * q.dtype.type(0.25)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights @ v / weights.sum(-1, keepdims=True)


def error(got: Any, want: Any) -> float:
    """The largest error relative to the value that should be there."""
    exact = np.asarray(want, np.float64)
    return float(np.max(np.abs(np.asarray(got, np.float64) - exact) / np.abs(exact)))
