"""How the fuzzer draws operations that give random numbers: each with a key of its own.

In: a draw. Out: the number of the value that was added.
"""

from collections.abc import Callable

import numpy as np

from mgn.dialects.mgn.operation import FLOATS
from tests.fuzz.draw import Draw, draw_shape


def words(draw: Draw, *shape: int) -> int:
    """A leaf of random words."""
    return draw.given(draw.arrays.integers(0, 1 << 32, shape).astype(np.uint32))


def philox(draw: Draw) -> int:
    shape = draw_shape(draw.rng, draw.size)
    counter = [words(draw, *shape), *(words(draw) for _ in range(3))]
    key = [words(draw), words(draw)]
    return draw.step("philox", *counter, *key, word=draw.rng.randrange(4))


def uniform(draw: Draw) -> int:
    shape = draw_shape(draw.rng, draw.size)
    element = draw.rng.choice(("f32", "f32", "f64", "f16", "bf16"))
    low, high = sorted(draw.rng.choice((-2.0, 0.0, 0.5, 1.0, 3.0)) for _ in range(2))
    values = {"shape": list(shape), "low": low, "high": high, "T": element}
    return draw.step("uniform", words(draw, 3), site=draw.rng.randrange(9), **values)


def normal(draw: Draw) -> int:
    shape = draw_shape(draw.rng, draw.size)
    values = {"shape": list(shape), "T": draw.rng.choice(("f32", "f32", "f64", "f16"))}
    if draw.rng.random() < 0.5:
        values |= {"mean": 1.5, "std": draw.rng.choice((0.0, 0.25, 3.0))}
    return draw.step("normal", words(draw, 3), site=draw.rng.randrange(9), **values)


def categorical(draw: Draw) -> int:
    logits = draw.among(FLOATS, 1)
    return draw.step("categorical", logits, words(draw, 3), site=draw.rng.randrange(9))


def dropout(draw: Draw) -> int:
    return draw.step("dropout", draw.among(FLOATS), p=draw.rng.choice((0.0, 0.1, 1.0)))


RANDOMS: dict[str, Callable[[Draw], int]] = {
    "philox": philox,
    "uniform": uniform,
    "normal": normal,
    "categorical": categorical,
    "dropout": dropout,
}
"""The maker of each operation that gives random numbers."""
