"""Instances of the rows of what is computed of turned values.

In: the name of a row, a random generator, its variables. Out: an `Instance`.
"""

import math
import random

from mgn.dialects.types import tensor
from mgn.testing.instances import Instance

Shape = tuple[int, ...]


def _turns(rng: random.Random, rank: int) -> Shape:
    """A permutation, mostly of other axes than the last."""
    if rng.random() < 0.2:
        return tuple(rng.sample(range(rank), rank))
    return (*rng.sample(range(rank - 1), rank - 1), rank - 1)


def _turned(shape: Shape, perm: Shape) -> Shape:
    return tuple(shape[axis] for axis in perm)


def _cut(rng: random.Random, size: int) -> tuple[int, int, int]:
    """Where a slice of an axis begins and ends, and its steps: all of it, or one element."""
    start = rng.randrange(size - 1)
    return rng.choice([(0, size, 1), (start, start + 2, 4)])


def turned(row: str, rng: random.Random, variables: list[str]) -> Instance:
    """Values that are turned, alike or with another one beside them: of the same shape, with axes
    of 1, or of fewer axes.
    """
    shapes_of_x: list[Shape] = [(2, 3, 4), (2, 3, 3, 2), (2, 2, 3, 4), (3, 3, 3)]
    shape = rng.choice(shapes_of_x)
    perm = _turns(rng, len(shape))
    result = _turned(shape, perm)
    shapes: dict[str, Shape] = {"x": shape, "y": shape}
    if "both" in row:
        shapes["y"] = tuple(1 if rng.random() < 0.3 else size for size in shape)
    else:
        thin = tuple(1 if rng.random() < 0.5 else size for size in result)
        one = (*(1,) * (len(result) - 1), result[-1])
        shapes["y"] = rng.choice([thin, thin, one, result, result[-1:], result[-2:]])
    attributes: dict[str, object] = {"P": perm}
    if row.removeprefix("wrong ").startswith("sum"):
        axes = rng.sample(range(len(shape)), rng.choice([1, 1, 2]))
        attributes["A"] = tuple(sorted(axes))
    if "slice" in row:
        cuts = [_cut(rng, size) for size in result]
        cuts[0] = (0, 2, 4) if all(step == 1 for *_, step in cuts) else cuts[0]
        attributes |= dict(zip("ABC", zip(*cuts, strict=True), strict=True))
    element = rng.choice(["f32", "f32", "f64", "f16"])
    return Instance([tensor(element, shapes[name]) for name in variables], attributes)


def repeated(row: str, rng: random.Random, variables: list[str]) -> Instance:
    """Heads that are repeated for a group and turned inward; or other axes repeated or moved."""
    heads, group, keys, size = (rng.choice([2, 3]) for _ in range(4))
    batch = rng.choice([(), (2,), (1, 2)])
    single, wide = (*batch, heads, 1, keys, size), (*batch, heads, group, keys, size)
    if rng.random() < 0.2:
        single, wide = (*batch, 1, heads, keys, size), (*batch, group, heads, keys, size)
    first = len(batch)
    perm = (*range(first), first + 2, first, first + 1, first + 3)
    if rng.random() < 0.2:
        perm = _turns(rng, len(wide))
    flat = (math.prod((*batch, heads)), keys, size)
    given = rng.choice([single, (*batch, heads, keys, size), flat])
    attributes: dict[str, object] = {"D": single, "E": wide, "P": perm}
    element = rng.choice(["f32", "i32", "bool"])
    return Instance([tensor(element, given)], attributes)
