"""Random arrays of inputs, each from a stream of its own.

In: a name, a type and a seed. Out: an array, and a line that says what it was drawn from. No part
of the compiler is imported: packages are run on such arrays too.
"""

import hashlib
from dataclasses import dataclass

import numpy as np

from mgn.runtime.host_arrays import DTYPES, spelling

ANY_INTEGER = 100
"""Integers that index nothing are drawn below this."""

FLOATS = ("f64", "f32", "f16", "bf16")


@dataclass(frozen=True)
class Sample:
    """A random input and what it was drawn from."""

    array: np.ndarray
    description: str


def stream(name: str, seed: int) -> np.random.Generator:
    """The random stream of a name."""
    digest = hashlib.sha256(name.encode()).digest()
    words = np.frombuffer(digest, "<u4").tolist()
    return np.random.default_rng([seed, *words])


def sample_array(
    name: str, element: str, shape: tuple[int, ...], seed: int, bound: int | None = None
) -> Sample:
    """A random array of an input; integers lie below the `bound` of the axis that they index."""
    dtype = DTYPES[element]
    random = stream(f"input {name}", seed)
    type = f"{name}: {spelling(element, shape)}"
    if element in FLOATS:
        array = random.standard_normal(shape, np.float32).astype(dtype)
        return Sample(array, f"{type} from normal(0, 1)")
    if element == "bool":
        array = random.random(shape) < 0.5
        return Sample(array, f"{type} from false and true")
    limit = ANY_INTEGER if bound is None else bound
    limit = min(limit, int(np.iinfo(dtype).max) + 1)
    why = "" if bound is None else ", the axis that it indexes"
    array = random.integers(0, max(limit, 1), shape).astype(dtype)
    return Sample(array, f"{type} from the integers below {limit}{why}")
