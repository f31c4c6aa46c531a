"""Draws the first values of parameters and states.

In: the name, type and initialiser, and a seed. Out: an array. Each has a random
stream of its own, made from the seed and its name, so the order in which they are drawn is of no
matter.

Weights are laid out `[out, in, …]`; a trailing window counts into both fans (Glorot and Bengio
2010; He et al. 2015).
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects.builtin import TensorType

from mgn.dialects.mgn.build import RANDOM_STATE
from mgn.dialects.mgn.declared import DeclaredOp
from mgn.dialects.mgn.initialiser import InitialiserAttr
from mgn.dialects.mgn.operations.elements.elementwise import saturating_cast
from mgn.dialects.mgn.philox import key_of
from mgn.dialects.mgn.states import StateOp
from mgn.dialects.types import Family, element_of
from mgn.modules.random_arrays import stream

Array = np.ndarray
Draw = Callable[[np.random.Generator, Sequence[int], np.dtype, tuple[float, ...]], Array]

FALLBACK = InitialiserAttr.of("normal", 0.0, 0.02)
"""What `mgn-run` uses for a parameter that has neither a value nor an initialiser."""


ZEROS = InitialiserAttr.of("zeros")
"""What a state without an initialiser begins with."""


def initial_value(parameter: DeclaredOp, seed: int) -> Array:
    """The first value of a parameter by its initialiser, or by `FALLBACK` where it has none; that
    of a state by its initialiser, or zeros; that of random numbers is the seed. A parameter of a
    block format is drawn in f32. Of what its type cannot hold, integers are the nearest that it
    can, as casts of the language give, and floats infinite.
    """
    if isinstance(parameter, StateOp) and parameter.sym_name.data == RANDOM_STATE:
        return key_of(seed)
    fallback = ZEROS if isinstance(parameter, StateOp) else FALLBACK
    initialiser = parameter.initialiser or fallback
    type = parameter.type
    assert isinstance(type, TensorType)
    element = element_of(type)
    dtype = np.dtype(np.float32) if element.dtype is None else element.dtype
    name = parameter.sym_name.data
    narrow = (element.is_float and element.bits <= 32) or element.family is Family.BLOCK
    wide = np.dtype(np.float32 if narrow else np.float64)
    draw = INITIALISERS[initialiser.function.data]
    with np.errstate(over="ignore", under="ignore"):
        value = draw(stream(name, seed), type.get_shape(), wide, initialiser.values)
        if np.issubdtype(dtype, np.integer):
            return saturating_cast(value, dtype)
        return value.astype(dtype, copy=False)


def _fans(shape: Sequence[int]) -> tuple[int, int]:
    """Inputs and outputs that one weight connects; at least one of each."""
    if len(shape) < 2:
        size = max(math.prod(shape), 1)
        return size, size
    window = math.prod(shape[2:])
    return max(shape[1] * window, 1), max(shape[0] * window, 1)


def _constant(
    random: np.random.Generator, shape: Sequence[int], dtype: np.dtype, values: tuple[float, ...]
) -> Array:
    return np.full(shape, values[0], dtype)


def _uniform(
    random: np.random.Generator, shape: Sequence[int], dtype: np.dtype, values: tuple[float, ...]
) -> Array:
    low, high = values
    drawn = random.random(tuple(shape), dtype.type)
    # halves of the limits: their difference may be more than the type holds
    drawn *= dtype.type(high / 2.0 - low / 2.0)
    drawn += dtype.type(low / 2.0)
    drawn *= dtype.type(2.0)
    return drawn


def _normal(
    random: np.random.Generator, shape: Sequence[int], dtype: np.dtype, values: tuple[float, ...]
) -> Array:
    mean, std = values
    drawn = random.standard_normal(tuple(shape), dtype.type)
    drawn *= dtype.type(std)
    if mean:
        drawn += dtype.type(mean)
    return drawn


def _scaled(draw: Draw, limits: Callable[[int, int], tuple[float, float]]) -> Draw:
    """A draw whose two figures come from the fans of the shape."""

    def scaled(
        random: np.random.Generator,
        shape: Sequence[int],
        dtype: np.dtype,
        values: tuple[float, ...],
    ) -> Array:
        return draw(random, shape, dtype, limits(*_fans(shape)))

    return scaled


def _symmetric(limit: float) -> tuple[float, float]:
    return -limit, limit


INITIALISERS: dict[str, Draw] = {
    "zeros": lambda random, shape, dtype, values: np.zeros(shape, dtype),
    "ones": lambda random, shape, dtype, values: np.ones(shape, dtype),
    "constant": _constant,
    "uniform": _uniform,
    "normal": _normal,
    "glorot_uniform": _scaled(_uniform, lambda i, o: _symmetric(math.sqrt(6.0 / (i + o)))),
    "glorot_normal": _scaled(_normal, lambda i, o: (0.0, math.sqrt(2.0 / (i + o)))),
    "he_uniform": _scaled(_uniform, lambda i, o: _symmetric(math.sqrt(6.0 / i))),
    "he_normal": _scaled(_normal, lambda i, o: (0.0, math.sqrt(2.0 / i))),
}
"""Initialisers by name; a test holds it against the dialect's table."""
