"""Programs whose scales, orders and roundings matter, with data on which they do.

In: nothing. Out: `HARD` by name: the program, its inputs and parameters, and what an error is
measured by: each element, or, where sums cancel, the largest of a row. `ROUNDING` names those that
round on purpose, which f64 does not.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

Array = np.ndarray
FAR = np.float32(-3.4028235e38)


@dataclass(frozen=True)
class Hard:
    """A program as it stands, finite on its data."""

    text: str
    inputs: dict[str, Array]
    parameters: dict[str, Array] = field(default_factory=dict[str, Array])
    by_row: bool = False


def _normal(*shape: int, scale: float = 1.0, seed: int = 0) -> Array:
    rng = np.random.default_rng([seed, *shape])
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def _positive(*shape: int, scale: float = 1.0, seed: int = 0) -> Array:
    return np.abs(_normal(*shape, scale=scale, seed=seed)) + np.float32(scale) / 8


def _one(shape: str, body: str) -> str:
    return f"graph g(x: f32[{shape}]) {{\n{body}\nreturn y }}"


def _product(left: str, right: str, scale: float, other: float) -> Hard:
    """A product of one or two scaled matrices."""
    text = f"graph g(a: f32[8, 16], b: f32[16, 8]) {{ return y = ({left}) @ ({right}) }}"
    inputs = {"a": _normal(8, 16, scale=scale), "b": _normal(16, 8, scale=other, seed=1)}
    return Hard(text, inputs, by_row=True)


def _masses() -> Hard:
    text = """graph g(m: f32[4, 64], p: f32[64, 3]) {
      return y = (m / sum(m, axis = 1, keepdims = true)) @ p }"""
    return Hard(
        text, {"m": _positive(4, 64, scale=2e30), "p": _normal(64, 3, scale=1.5e11)}, by_row=True
    )


def _masked_rows(product: str = "(x * s) @ w") -> Hard:
    text = f"graph g(x: f32[6, 8], s: f32[6, 1], w: f32[8, 8]) {{ return y = {product} }}"
    x, s = _normal(6, 8), np.ones((6, 1), np.float32)
    x[2:4], s[2:4] = FAR, 0
    return Hard(text, {"x": x, "s": s, "w": _normal(8, 8, scale=4.0)}, by_row=True)


def _masked_columns() -> Hard:
    text = "graph g(a: f32[8, 6], x: f32[6, 8], s: f32[8]) { return y = a @ (x * s) }"
    x, s = _normal(6, 8), np.ones(8, np.float32)
    x[:, 3:5], s[3:5] = FAR, 0
    return Hard(text, {"a": _normal(8, 6, scale=4.0), "x": x, "s": s}, by_row=True)


def _differences(brackets: str = "(d @ p) @ w") -> Hard:
    """Differences of prices that are nearly equal, weighted."""
    text = f"graph g(d: f32[63, 64], p: f32[64, 8], w: f32[8, 2]) {{ return y = {brackets} }}"
    d = np.eye(63, 64, 1, dtype=np.float32) - np.eye(63, 64, dtype=np.float32)
    p = (1e4 + np.cumsum(_normal(64, 8, scale=0.01), axis=0)).astype(np.float32)
    return Hard(text, {"d": d, "p": p, "w": _normal(8, 2)}, by_row=True)


def _turned_differences() -> Hard:
    found = _differences("(p @ d) @ w")
    turned = {"d": found.inputs["d"].T.copy(), "p": found.inputs["p"].T.copy()}
    text = "graph g(w: f32[2, 8], p: f32[8, 64], d: f32[64, 63]) { return y = w @ (p @ d) }"
    return Hard(text, {**turned, "w": _normal(2, 8)}, by_row=True)


def _padded_table(parameters: bool) -> Hard:
    """A table whose padding is the largest number, of which one-hot rows select others."""
    chosen = np.eye(512, dtype=np.float32)[np.arange(512) % 32]
    table, weights = _normal(512, 64), _normal(64, 4, scale=8.0)
    table[32:] = -FAR
    x, t, w = "x: f32[512, 512]", "t: f32[512, 64]", "w: f32[64, 4]"
    if not parameters:
        text = f"graph g({x}, {t}, {w}) {{ return y = (x @ t) @ w }}"
        return Hard(text, {"x": chosen, "t": table, "w": weights}, by_row=True)
    text = f"graph g({x}) {{ param {t}\nparam {w}\nreturn y = (x @ t) @ w }}"
    return Hard(text, {"x": chosen}, {"t": table, "w": weights}, by_row=True)


def _elements(text: str, values: Array, **others: Array) -> Hard:
    return Hard(text, {"x": values, **others})


def _three(expression: str, a: float, b: float, c: float) -> Hard:
    """An expression of three arrays of some size."""
    text = f"graph g(a: f32[64], b: f32[64], c: f32[64]) {{ return y = {expression} }}"
    sizes = (a, b, c)
    inputs = {
        n: _positive(64, scale=s, seed=i) for i, (n, s) in enumerate(zip("abc", sizes, strict=True))
    }
    return Hard(text, inputs)


def _near_the_largest(expression: str) -> Hard:
    """Small numbers, and two scales of their rows whose sum is more than the largest number."""
    text = f"graph g(a: f32[64, 64], b: f32[64, 1], c: f32[64, 1]) {{ return y = {expression} }}"
    large = np.linspace(2e38, 3e38, 64, dtype=np.float32)[:, None]
    return Hard(text, {"a": _normal(64, 64, scale=1e-20), "b": large, "c": large})


def _rows(expression: str, x: float, r: float, s: float) -> Hard:
    text = f"graph g(x: f32[8, 64], r: f32[8, 1], s: f32[64]) {{ return y = {expression} }}"
    inputs = {"x": _normal(8, 64, scale=x), "r": _positive(8, 1, scale=r)}
    return Hard(text, {**inputs, "s": _positive(64, scale=s)})


def _attention(scores: str, q: float, k: float, v: float = 1.0, more: str = "") -> Hard:
    text = f"graph g(q: f32[8, 16], k: f32[8, 16], v: f32[8, 16]{more}) {{\n{scores}\n}}"
    inputs = {"q": _normal(8, 16, scale=q), "k": _normal(8, 16, scale=k, seed=1)}
    return Hard(text, {**inputs, "v": _normal(8, 16, scale=v, seed=2)}, by_row=True)


def _hidden_far() -> Hard:
    """Every score is below the number that is to hide some."""
    m = "tril(full([8, 8], 1.0, T = bool))"
    found = _attention(f"return y = softmax(where({m}, q @ k.T, -1e9)) @ v", 1e5, 1e5)
    same = {"q": _positive(8, 16, scale=1e5), "k": -_positive(8, 16, scale=1e5)}
    return Hard(found.text, {**found.inputs, **same}, by_row=True)


def _temperature(small: float) -> Hard:
    found = _attention("return y = softmax(q @ k.T / t) @ v", 1e10, small, more=", t: f32[]")
    return Hard(found.text, {**found.inputs, "t": np.float32(1e-30)}, by_row=True)


def _norm(lines: str, x: float, s: float) -> Hard:
    text = f"graph g(x: f32[8, 64]) {{ param s: f32[64]\nparam w: f32[64, 8]\n{lines} }}"
    parameters = {"s": _normal(64, scale=s), "w": _normal(64, 8)}
    return Hard(text, {"x": _normal(8, 64, scale=x)}, parameters, by_row=True)


def _no_norm() -> Hard:
    """What looks like a norm, whose rows are scaled to another size before the product."""
    text = """graph g(x: f32[8, 64], r: f32[8, 1]) {
      param s: f32[64]
      param w: f32[64, 8]
      return y = (x * r * s) @ w }"""
    parameters = {"s": _normal(64, scale=1e4), "w": _normal(64, 8, scale=1e4)}
    inputs = {"x": _normal(8, 64, scale=1e36), "r": _positive(8, 1, scale=1e-30)}
    return Hard(text, inputs, parameters, by_row=True)


def _thin_update() -> Hard:
    """A matrix less the product of two thin ones, which it nearly is."""
    text = """graph g(x: f32[4, 256], u: f32[256, 2], d: f32[2, 256], b: f32[256, 256]) {
      return y = x @ (b + u @ d) }"""
    u, d = _normal(256, 2, scale=1e4).round(), _normal(2, 256, scale=8.0).round()
    b = (_normal(256, 256).round() - u @ d).astype(np.float32)
    return Hard(text, {"x": _normal(4, 256), "u": u, "d": d, "b": b}, by_row=True)


SHARE = "sigmoid(2.0 * 0.7978845608 * (x + 0.044715 * x * x * x))"
LINE = np.linspace(-6, 6, 97, dtype=np.float32)
NEAR = (np.float32(10) ** np.linspace(-9, -2, 64, dtype=np.float32)).astype(np.float32)

HARD: dict[str, Callable[[], Hard]] = {
    "a scale before a product": lambda: _product("a * 1e-20", "b", 1e20, 1e20),
    "a scale of the right operand": lambda: _product("a", "b * 1e-20", 1e20, 1e20),
    "a quotient before a product": lambda: _product("a / 1e20", "b", 1e20, 1e20),
    "scales of both operands": lambda: _product("a * 1e-12", "b * 1e-12", 1e25, 1e25),
    "a scale that keeps a product normal": lambda: _product("a * 1e20", "b", 1e-25, 1e-25),
    "shares of masses and their places": _masses,
    "a common factor": lambda: _near_the_largest("a * b + a * c"),
    "a common factor of a difference": lambda: _near_the_largest("a * b - a * -c"),
    "rows that a mask hides": _masked_rows,
    "rows that a quotient scales": lambda: _masked_rows("(x / (1.0 / s)) @ w"),
    "columns that a mask hides": _masked_columns,
    "differences, weighted": _differences,
    "differences of columns, weighted": _turned_differences,
    "a padded table": lambda: _padded_table(False),
    "a padded table of parameters": lambda: _padded_table(True),
    "rounding by a large number": lambda: _elements(
        _one("97", "y = (x + 12582912.0) + (-12582912.0)"), LINE
    ),
    "rounding by a large number taken off": lambda: _elements(
        _one("97", "y = (x + 12582912.0) - 12582912.0"), LINE
    ),
    "rounding down first": lambda: _elements(_one("97", "y = (x - 12582912.0) + 12582912.0"), LINE),
    "rounding to quarters": lambda: _elements(
        _one("97", "y = (x * 4.0 + 12582912.0) * 0.25 - 3145728.0"), LINE
    ),
    "rounding to thirds": lambda: _elements(
        _one("97", "y = (x * 3.0 + 12582912.0) * 3.0 - 37748736.0"), LINE
    ),
    "the rest of a rounding": lambda: _elements(
        _one("97", "y = x - ((x + 12582912.0) - 12582912.0)"), LINE
    ),
    "halves of a number": lambda: _elements(
        _one("97", "t = x * 4097.0\ny = x - (t - (t - x))"), (LINE * np.float32(np.pi)) + 10
    ),
    "a logarithm near 1": lambda: _elements(
        _one("64", "u = 1.0 + x\ny = where(u == 1.0, x, log(u) * x / (u - 1.0))"), NEAR
    ),
    "an exponential near 0": lambda: _elements(
        _one("64", "u = exp(x)\ny = where(u == 1.0, x, (u - 1.0) * x / log(u))"), NEAR
    ),
    "gelu by sigmoid": lambda: _elements(_one("97", f"y = x * {SHARE}"), LINE),
    "gelu by exp": lambda: _elements(
        _one("97", "y = x / (1.0 + exp(-1.59576912 * (x + 0.044715 * x ** 3.0)))"), LINE
    ),
    "a share of a small number's product": lambda: _elements(
        _one("97", "y = (x * -3.03e38) * (0.5 * (erf(x * 0.70710677) + 1.0))"), LINE * 1e-40
    ),
    "a share of a product": lambda: _three("a * b * (0.5 * (1.0 + erf(-c)))", 4e18, 4e18, 2.0),
    "half a product": lambda: _elements(
        _one("97", "y = (0.5 * x * 2.2e19) * (1.0 + tanh(x * -1e-19))"),
        np.linspace(1.8e19, 2.8e19, 97, dtype=np.float32),
    ),
    "a scale within a square": lambda: _three("(a * 1e-20) * a + b * c", 1e20, 1.0, 1.0),
    "a large scale within a square": lambda: _elements(
        _one("64", "y = (x * 1e20) * x"), _positive(64, scale=1e-25)
    ),
    "a small cube": lambda: _elements(
        _one("64", "y = x * (x * x * 1e-30 + 2.0)"), _positive(64, scale=1e15)
    ),
    "a shift scaled up": lambda: _elements(
        _one("64", "y = (x * 2.0 + 1.5e38) * 4.0"), -_positive(64, scale=1e35) - 7e37
    ),
    "scales of two sizes": lambda: _rows("x * (r * s)", 1e30, 1e30, 1e-30),
    "scales of two sizes, one by one": lambda: _rows("x * s * r", 1e30, 1e20, 1e-30),
    "a shift of far means": lambda: _rows("x * s + (s - r * s)", 2e38 / 4, 3e38 / 4, 1e-20),
    "sums of products": lambda: Hard(
        "graph g(a: f32[8, 8], b: f32[8, 8], c: f32[8, 8]) { return y = a @ b + a @ c }",
        {
            "a": _normal(8, 8, scale=1e-20),
            "b": _positive(8, 8, scale=8e37),
            "c": _positive(8, 8, scale=8e37),
        },
        by_row=True,
    ),
    "a product of a thin update": _thin_update,
    "scores of scaled queries": lambda: _attention(
        "return y = softmax((q * 1e-12) @ (k * 1e-12).T) @ v", 1e21, 1e21
    ),
    "scores of queries scaled a little": lambda: _attention(
        "return y = softmax((q * 0.125) @ k.T) @ v", 2e19, 8e18
    ),
    "scores of keys divided": lambda: _attention(
        "return y = softmax(q @ (k / 64.0).T) @ v", 2e19, 2e19
    ),
    "scores below what hides them": _hidden_far,
    "scores by a small temperature": lambda: _temperature(1e-38),
    "weights that add up to little": lambda: Hard(
        "graph g(x: f32[4, 8], p: f32[8, 3]) {"
        " return y = (x @ p) / sum(x, axis = 1, keepdims = true) }",
        {"x": _positive(4, 8, scale=1e-30), "p": _normal(8, 3, scale=1e30)},
        by_row=True,
    ),
    "a norm of large rows": lambda: _norm("return y = rms_norm(x, s) @ w", 1e18, 1.0),
    "a norm with a large scale": lambda: _norm("return y = rms_norm(x, s) @ w", 1e18, 1e30),
    "a norm without a floor": lambda: _norm(
        "r = rsqrt(mean(x * x, axis = 1, keepdims = true))\nreturn y = (x * r * s * 1e-30) @ w",
        1e-18,
        1e30,
    ),
    "what is no norm": _no_norm,
    "a logarithm of a quotient": lambda: _elements(
        _one("97", "y = log(exp(x) / 5.5e34)"), np.linspace(79, 81, 97, dtype=np.float32)
    ),
    "a shift by a sum and a maximum": lambda: Hard(
        "graph g(x: f32[4, 8], z: f32[4, 1]) {"
        " return y = x - (z + max_reduce(x, axis = 1, keepdims = true)) }",
        {
            "x": np.sign(_normal(4, 8)) * np.float32(3e38),
            "z": np.full((4, 1), -3e38, np.float32),
        },
    ),
}

ROUNDING = [
    *("rounding by a large number", "rounding by a large number taken off", "rounding down first"),
    *("rounding to quarters", "rounding to thirds", "the rest of a rounding"),
    "halves of a number",
]
