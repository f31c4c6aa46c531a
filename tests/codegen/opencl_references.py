"""What the rows of the OpenCL table compute, on NumPy arrays in exact or wider arithmetic."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from tests.support.opencl_fixture import DTYPES


def erf(values: np.ndarray) -> np.ndarray:
    from math import erf as scalar

    return np.array([scalar(value) for value in values])


def fused(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    triples = zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    return np.array([float(Fraction(x) * Fraction(y) + Fraction(z)) for x, y, z in triples])


def maximum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    zeros = np.where(np.signbit(a) & np.signbit(b), -0.0, 0.0)
    return np.where((a == 0) & (b == 0), zeros, np.maximum(a, b))


def minimum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return -maximum(-a, -b)


def divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Truncating division in Python's integers; 0 for a zero divisor; wrapping."""
    pairs = zip(a.tolist(), b.tolist(), strict=True)
    return wrap(
        [abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) if y else 0 for x, y in pairs], a
    )


def wrap(numbers: list[int], like: np.ndarray) -> np.ndarray:
    bits = like.dtype.itemsize * 8
    low = np.iinfo(like.dtype).min
    return np.array([(n - low) % (1 << bits) + low for n in numbers], dtype=like.dtype)


def remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    quotients = divide(a, b).tolist()
    triples = zip(a.tolist(), b.tolist(), quotients, strict=True)
    return wrap([x - q * y if y else 0 for x, y, q in triples], a)


def floor_divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return wrap([x // y if y else 0 for x, y in zip(a.tolist(), b.tolist(), strict=True)], a)


def ceil_divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return wrap([-(-x // y) if y else 0 for x, y in zip(a.tolist(), b.tolist(), strict=True)], a)


def power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    def one(x: int, n: int) -> int:
        if n >= 0:
            return pow(x, n, 1 << 64)
        return {1: 1, -1: -1 if n % 2 else 1}.get(x, 0)

    return wrap([one(x, n) for x, n in zip(a.tolist(), b.tolist(), strict=True)], a)


def shift(kind: str) -> Callable[..., np.ndarray]:
    def reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        bits = a.dtype.itemsize * 8
        counts = [int(n) % bits for n in b.tolist()]
        if kind == "left":
            return wrap([x << n for x, n in zip(a.tolist(), counts, strict=True)], a)
        values = a if kind == "signed" else a.view(f"u{a.dtype}")
        return wrap([x >> n for x, n in zip(values.tolist(), counts, strict=True)], a)

    return reference


def masked(reference: Callable[..., np.ndarray], limit: int) -> Callable[..., np.ndarray]:
    return lambda a, b: reference(a, b & limit)


def saturate(target: str, unsigned: bool) -> Callable[..., np.ndarray]:
    def reference(a: np.ndarray) -> np.ndarray:
        dtype = np.dtype(DTYPES[target])
        limits = np.iinfo(f"u{dtype}" if unsigned else dtype)

        def one(x: float) -> int:
            if np.isnan(x):
                return 0
            return limits.max if x >= limits.max else limits.min if x <= limits.min else int(x)

        return np.array([one(x) for x in a.tolist()], dtype=limits.dtype).view(dtype)

    return reference


def bits(function: Callable[[int, int], int]) -> Callable[..., np.ndarray]:
    def reference(a: np.ndarray) -> np.ndarray:
        width = a.dtype.itemsize * 8
        return np.array([function(x % (1 << width), width) for x in a.tolist()], dtype=a.dtype)

    return reference


def predicate(name: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    compare = {"eq": "equal", "ne": "not_equal", "gt": "greater", "ge": "greater_equal"}
    compare |= {"lt": "less", "le": "less_equal"}
    unordered = np.isnan(a) | np.isnan(b)
    if name in ("true", "false"):
        return np.full(a.shape, name == "true")
    if name in ("ord", "uno"):
        return unordered == (name == "uno")
    result = getattr(np, compare[name[1:]])(a, b)
    return (result & ~unordered) if name[0] == "o" else (result | unordered)


def integer_predicate(name: str) -> Callable[..., np.ndarray]:
    compare = {"eq": "equal", "ne": "not_equal", "gt": "greater", "ge": "greater_equal"}
    compare |= {"lt": "less", "le": "less_equal"}

    def reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if name[0] == "u" and a.dtype != np.bool_:
            a, b = a.view(f"u{a.dtype}"), b.view(f"u{b.dtype}")
        if name[0] == "s" and a.dtype == np.bool_:
            a, b = -a.astype(np.int8), -b.astype(np.int8)
        return getattr(np, compare[name if name in ("eq", "ne") else name[1:]])(a, b)

    return reference
