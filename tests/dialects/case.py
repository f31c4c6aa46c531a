"""A case of an operation: arguments from a source of random arrays, and the value by NumPy."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray


class Source:
    """Random arrays: `f` floats in the type under test, `i` integers, `b` bools."""

    def __init__(self, dtype: Any, seed: int = 0) -> None:
        self.dtype = np.dtype(dtype)
        self.random = np.random.default_rng(seed)

    def f(self, *shape: int, low: float = -2.0, high: float = 2.0) -> Array:
        return np.asarray(self.random.uniform(low, high, shape)).astype(self.dtype)

    def i(self, *shape: int, low: int = -9, high: int = 9, dtype: Any = np.int32) -> Array:
        return np.asarray(self.random.integers(low, high, shape), dtype)

    def b(self, *shape: int) -> Array:
        return np.asarray(self.random.integers(0, 2, shape), np.bool_)


@dataclass(frozen=True)
class Case:
    """`arguments(source)` are given to the operation and, floats as f64, to `reference`."""

    name: str
    arguments: Callable[[Source], tuple[Any, ...]]
    reference: Callable[..., Any]
    keywords: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        return "-".join([self.name, *(f"{key}={value}" for key, value in self.keywords)])


def case(
    name: str,
    arguments: Callable[[Source], tuple[Any, ...]],
    reference: Callable[..., Any],
    **keywords: Any,
) -> Case:
    return Case(name, arguments, reference, tuple(keywords.items()))
