"""Axes as calls name them, drawn at random.

In: a generator and a rank. Out: an axis, or what a reduction takes for its axes.
"""

import random
from typing import Any


def axis_of(rng: random.Random, rank: int) -> int:
    """An axis, counted from the front or from the back."""
    axis = rng.randrange(rank)
    return axis - rank if rng.random() < 0.4 else axis


def axes_of(rng: random.Random, rank: int) -> Any:
    """Some axes as reductions take them: one, several, or all."""
    if rng.random() < 0.2:
        return None
    if rank == 0 or rng.random() < 0.05:
        return []
    if rng.random() < 0.6:
        return axis_of(rng, rank)
    chosen = rng.sample(range(rank), rng.randint(1, rank))
    return [axis - rank if rng.random() < 0.3 else axis for axis in chosen]
