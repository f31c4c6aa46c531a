"""Tables of cosines and sines, for the rows that recognise rotary embeddings: whose angles they
hold, and where the pairs of a head lie.

In: matched values and attributes. Out: whether a row acts, and attribute values of its right side.
A table is known where constants alone decide it: positions times inverse frequencies, in any way
that a program computes them, or the numbers themselves.
"""

import math
from typing import Any

import numpy as np

from mgn.dialects.shapes import Shape, ShapeError
from mgn.passes.saturate.encoding.definitions import Definition

ROUNDINGS = 4
"""Roundings of an angle that a table may be away from the true one: of the frequency, and of its
product with the position.
"""

DIGITS = range(1, 10)
"""How many digits the base of a table may have, the fewest first."""


def is_half(x: Any, starts: Shape, stops: Shape, steps: Shape, which: int) -> bool:
    """Whether a slice is the first (0) or the second half (1) of the last axis, and all else."""
    half, rest = divmod(x.shape[-1], 2)
    wanted = ((*x.shape[:-1], half), (*x.shape[:-1], 2 * half))[which]
    begin = (*(0,) * (len(x.shape) - 1), which * half)
    return not rest and (starts, stops, steps) == (begin, wanted, (1,) * len(x.shape))


def is_every_other(x: Any, starts: Shape, stops: Shape, steps: Shape, which: int) -> bool:
    """Whether a slice is the even (0) or the odd elements (1) of the last axis, and all else."""
    leading = len(x.shape) - 1
    if x.shape[-1] % 2 or stops[:-1] != x.shape[:-1] or stops[-1] + 1 - which < x.shape[-1]:
        return False
    return starts == (*(0,) * leading, which) and steps == (*(1,) * leading, 2)


def takes_one_of_pairs(shape: Shape, starts: Shape, stops: Shape, steps: Shape) -> bool:
    """Whether a slice of `[…, n, 2]` takes one of each pair, and all else."""
    if len(shape) < 2 or shape[-1] != 2 or any(step != 1 for step in steps):
        return False
    return stops == (*shape[:-1], starts[-1] + 1) and not any(starts[:-1])


def stacks(shape: Shape, x: Any, axis: int) -> bool:
    """Whether halves of the last axis of this shape are put side by side along a new last axis."""
    return axis == len(x.shape) and shape == (*x.shape[:-1], x.shape[-1] // 2, 1)


def base_of(x: Any, c: Any, s: Any, width: int, interleaved: bool) -> float:
    """The theta of tables that hold, in rows of `width`, the cosines and sines of rope's angles.
    ShapeError where they hold others, or are not known.
    """
    size = x.shape[-1] if x.shape else 0
    fits = c.shape == s.shape and c.shape[-1:] == (width,) and size > 1 and size % 2 == 0
    if not fits or _axis_of_positions(x.shape, c.shape) is None:
        raise ShapeError("the tables do not fit the heads")
    known: dict[Any, float | None] = c.definition.facts.bases
    key = (c.definition.handle, s.definition.handle, size, interleaved)
    if key not in known:
        known[key] = _base(c, s, size, interleaved)
    base = known[key]
    if base is None:
        raise ShapeError("the tables are of no rotation that is known")
    return base


def in_rows(x: Any, c: Any) -> Shape:
    """The shape `[…, S, heads * d]` of a value whose positions are where the table has them."""
    axis = _axis_of_positions(x.shape, c.shape)
    if axis is None:
        raise ShapeError("the table has no axis of positions")
    return (*x.shape[: axis + 1], math.prod(x.shape[axis + 1 :]))


def turns_heads(x: Any, perm: Shape, head_dim: int) -> bool:
    """Whether a transpose takes `[…, S, heads, d]` to `[…, heads, S, d]`."""
    rank = len(x.shape)
    turned = (*range(rank - 3), rank - 2, rank - 3, rank - 1)
    return rank > 2 and perm == turned and x.shape[-1] == head_dim


def _axis_of_positions(x: Shape, table: Shape) -> int | None:
    """The one axis of x, but for the last, along which a table differs."""
    if not 2 <= len(table) <= len(x):
        return None
    padded = (*(1,) * (len(x) - len(table)), *table)
    axes = [axis for axis, size in enumerate(padded[:-1]) if size != 1]
    return axes[0] if len(axes) == 1 and padded[axes[0]] == x[axes[0]] else None


def _base(c: Any, s: Any, size: int, interleaved: bool) -> float | None:
    cosines, sines = (_table(item, c.shape[-1]) for item in (c, s))
    if cosines is None or sines is None:
        return None
    eps = float(np.finfo(c.element.dtype).eps)
    estimate = _estimate(cosines, sines, size, interleaved)
    for digits in DIGITS:
        theta = float(f"{estimate:.{digits - 1}e}")
        if _holds(cosines, sines, theta, size, interleaved, eps):
            return theta
    return None


def _table(x: Any, width: int) -> np.ndarray | None:
    definition: Definition | None = x.definition
    array = None if definition is None else definition.array
    return None if array is None else array.astype(np.float64).reshape(-1, width)


def _estimate(cosines: np.ndarray, sines: np.ndarray, size: int, interleaved: bool) -> float:
    """The base by the slowest pair's angle at position 1; any where there is one pair only, or one
    position at most.
    """
    slowest = size // 2 - 1
    if len(sines) < 2:
        return 10000.0
    column = -1 if cosines.shape[-1] < size or not interleaved else -2
    angle = math.atan2(sines[1, column], cosines[1, column])
    if slowest == 0 or not 0 < angle < 1:
        return 10000.0
    return angle ** (-size / (2 * slowest))


def _holds(
    cosines: np.ndarray, sines: np.ndarray, theta: float, size: int, interleaved: bool, eps: float
) -> bool:
    frequency = theta ** (-np.arange(0, size, 2) / size)
    if cosines.shape[-1] == size:
        frequency = np.repeat(frequency, 2) if interleaved else np.tile(frequency, 2)
    position = np.arange(len(cosines))[:, None]
    angle = position * frequency
    allowed = ROUNDINGS * eps * (1 + position)
    near = (abs(np.cos(angle) - cosines) <= allowed) & (abs(np.sin(angle) - sines) <= allowed)
    return bool(near.all())
