"""Instances of rows of attention and rotary embeddings, which random types hardly ever make.

In: the name of a row, a random generator, and the row's variables. Out: an `Instance`.
"""

import math
import random

import numpy as np

from mgn.dialects.types import ELEMENT_TYPES, tensor
from mgn.testing.instances import Instance

Shape = tuple[int, ...]


def scores(row: str, rng: random.Random, variables: list[str]) -> Instance:
    """q kᵀ, scaled, capped, masked; some masks hide whole rows, and some axes are not the last.
    The inverse of what divides scores is rounded: visibly, were it to f32.
    """
    batch = rng.choice([(), (2,), (3, 2), (2, 1), (1,)])
    rows, keys, size, width = (rng.choice([2, 3, 4]) for _ in range(4))
    turned = rng.random() < 0.6
    shapes: dict[str, Shape] = {
        "q": (*batch, rows, size),
        "k": (*batch, keys, size) if turned else (*batch, size, keys),
        "v": (*batch, keys, width),
        "c": (),
        "f": (),
        "z": (),
        "m": rng.choice([(rows, keys), (*batch, rows, keys), (keys,)]),
        "b": rng.choice([(rows, keys), (rows, 1)]),
        "y": rng.choice([(rows, keys), (*batch, rows, keys), (keys,), ()]),
    }
    if "r" in variables:
        shapes["r"] = rng.choice([(), (rows, 1), (*batch, 1, 1), (keys,)])
    axis = len(batch) + (1 if rng.random() < 0.65 else 0)
    if not batch and rng.random() < 0.3:
        shapes["q"], axis = (size,), 0
    known: dict[str, np.ndarray] = {}
    if "seen" in row or "hidden" in row:
        mask = np.array([[rng.random() < 0.6 for _ in range(keys)] for _ in range(rows)])
        may_hide_all = "far" in row or "nothing" in row
        if not may_hide_all or rng.random() < 0.5:
            mask[:, 0] = True
        else:
            mask[0] = False
        known["m"] = np.broadcast_to(mask if len(shapes["m"]) > 1 else mask[0], shapes["m"])
        if "hidden" in row:
            known["m"] = ~known["m"]
    constants = {
        "c": rng.choice([0.5, 2.0, 0.1]),
        "f": rng.choice([-1e9, -3e38, -np.inf, -2.0]),
        "z": rng.choice([0.5, 1.25, 3.0, 3.0, -1.25, 0.0]),
    }
    element = "f64" if "divided" in row else "f32"
    types = [tensor(element, shapes[name]) for name in variables]
    return Instance(types, {"N": turned, "A": axis}, constants, known)


def _attention(rng: random.Random) -> dict[str, object]:
    return {**_scoring(rng), "R": rng.random() < 0.3}


def _scoring(rng: random.Random) -> dict[str, object]:
    return {
        "C": rng.random() < 0.5,
        "W": rng.choice([0, 0, 2]),
        "S": rng.choice([0.5, 1.0, 0.3]),
        "Z": rng.choice([0.0, 0.0, 2.0]),
    }


def scaled_operands(row: str, rng: random.Random, variables: list[str]) -> Instance:
    """Merged heads, of which queries or keys are scaled by a constant, or by 0 or infinity; or by
    one near 1.
    """
    rows, keys, heads, size = rng.choice([2, 3]), 3, rng.choice([1, 2]), rng.choice([2, 3, 4])
    shared = rng.choice([1, heads])
    shapes: dict[str, Shape] = {
        "q": (2, rows, heads * size),
        "k": (2, keys, shared * size),
        "v": (2, keys, shared * 3),
        "m": (rows, keys),
        "c": (),
    }
    usual = math.sqrt(size) if "divided" in row else 1.0 / math.sqrt(size)
    constants = {"c": rng.choice([usual, 0.1, -3.0, -0.5, 0.0, math.inf])}
    attributes = {**_scoring(rng), "X": heads, "Y": shared}
    return Instance([tensor("f64", shapes[name]) for name in variables], attributes, constants)


def in_batches(row: str, rng: random.Random, variables: list[str]) -> Instance:
    """Merged heads, keys of some for several, a bias for all heads or for each."""
    rows, keys, size, width = (rng.choice([2, 3]) for _ in range(4))
    heads, shared = rng.choice([(2, 1), (4, 2), (6, 2), (6, 3), (4, 1)])
    batch = rng.choice([(), (2,)])
    masks = [(rows, keys), (*batch, heads, rows, keys), (1, rows, keys), (keys,)]
    shapes: dict[str, Shape] = {
        "q": (*batch, rows, heads * size),
        "k": (*batch, keys, shared * size),
        "v": (*batch, keys, shared * width),
        "m": rng.choice([*masks, (*batch, 1, rows, keys), (heads, 1, keys)]),
    }
    attributes = {**_attention(rng), "X": heads, "Y": shared}
    return Instance([tensor("f32", shapes[name]) for name in variables], attributes)


def shared_gradients(row: str, rng: random.Random, variables: list[str]) -> Instance:
    """Heads that share keys, as many as the row says or one more; keys of some batches for all."""
    rows, keys, size, width, shared = (rng.choice([1, 2, 3]) for _ in range(5))
    *_, count = row.split("-")
    group = int(count) if count.isdigit() else 5
    heads = shared * (group if rng.random() < 0.8 else group + 1)
    batch = rng.choice([(), (2,)])
    of_keys = rng.choice([(), batch])
    shapes: dict[str, Shape] = {
        "q": (*batch, rows, heads * size),
        "k": (*of_keys, keys, shared * size),
        "v": (*of_keys, keys, shared * width),
        "g": (*batch, rows, heads * width),
        "l": (*batch, rows, heads),
        "o": (*batch, rows, heads),
    }
    attributes = {**_scoring(rng), "X": heads, "Y": shared}
    return Instance([tensor("f32", shapes[name]) for name in variables], attributes)


def in_heads(row: str, rng: random.Random, variables: list[str]) -> Instance:
    """Axes of heads before the positions; keys of one head, or of a group, for several."""
    rows, keys, size, width = (rng.choice([2, 3]) for _ in range(4))
    batch = rng.choice([(), (2,)])
    heads, shared = ((2,), (rng.choice([1, 2]),))
    if "grouped" in row:
        heads, shared = (2, 3), (2, rng.choice([1, 1, 3]))
    shapes: dict[str, Shape] = {
        "q": (*batch, *heads, rows, size),
        "k": (*batch, *shared, keys, size),
        "v": (*batch, *shared, keys, width),
        "m": rng.choice([(rows, keys), (*batch, *heads, 1, rows, keys), (1, 1, keys)]),
    }
    return Instance([tensor("f32", shapes[name]) for name in variables], _attention(rng))


def shared(row: str, rng: random.Random, variables: list[str]) -> Instance:
    """Keys repeated for the heads of a group: split, within the last axis, or otherwise."""
    rows, keys, size, width = (rng.choice([2, 3]) for _ in range(4))
    batch = rng.choice([(), (2,)])
    shared, group = rng.choice([(2, 2), (2, 3), (1, 2)])
    tiled = rng.random() < 0.3
    attributes = _attention(rng)
    shapes: dict[str, Shape] = {"m": (rows, keys)}
    for name, length, letters in (("k", size, "DEF"), ("v", width, "GHI")):
        if "merged" in row:
            single: Shape = (*batch, keys, shared, 1, length)
            wide: Shape = (*batch, keys, shared, group, length)
            result: Shape = (*batch, keys, shared * group * length)
            if rng.random() < 0.2:
                middle = rng.choice([(keys, 1, group), (1, shared, 1), (keys, shared, group)])
                single = (*batch, *middle, length)
        else:
            pair = (1, shared) if tiled else (shared, 1)
            repeated = (group, shared) if tiled else (shared, group)
            single, wide = (*batch, *pair, keys, length), (*batch, *repeated, keys, length)
            result = (*batch, shared * group, keys, length)
        shapes[name] = tuple(n for n in single if n != 1) if rng.random() < 0.5 else single
        attributes |= dict(zip(letters, (single, wide, result), strict=True))
    heads = shared * group
    q: Shape = (*batch, rows, heads * size) if "merged" in row else (*batch, heads, rows, size)
    shapes["q"] = q
    attributes |= {"X": heads, "Y": heads}
    return Instance([tensor("f32", shapes[name]) for name in variables], attributes)


def merged_batches(row: str, rng: random.Random, variables: list[str]) -> Instance:
    rows, keys, size, width = (rng.choice([2, 3]) for _ in range(4))
    ends = {"q": (rows, size), "k": (keys, size), "v": (keys, width)}
    attributes = _attention(rng)
    for name, letter in zip("qkv", "DEF", strict=True):
        attributes[letter] = (6, *ends[name])
    other = rng.choice([(2, 3), (3, 2)])
    shapes: dict[str, Shape] = {name: (2, 3, *ends[name]) for name in "qv"}
    shapes["k"] = (*other, *ends["k"])
    return Instance([tensor("f32", shapes[name]) for name in variables], attributes)


def causal(row: str, rng: random.Random, variables: list[str]) -> Instance:
    """Masks of every window, of all, or of one key too many; for all rows, or for one."""
    rows, keys, heads = rng.choice([1, 3, 4]), rng.choice([3, 4]), rng.choice([1, 2])
    distance = np.arange(keys) - np.arange(rows)[:, None] - (keys - rows)
    window = rng.choice([1, 2, 9])
    seen = (distance <= rng.choice([0, 0, 0, 1])) & (distance > -window)
    if rng.random() < 0.2:
        seen = np.ones((1, keys), bool)
    hidden = rng.choice([-np.inf, -1e9, -2.0])
    bias = np.where(seen, 0.0, hidden).astype(np.float32)
    bias = bias.reshape(rng.choice([bias.shape, (1, *bias.shape)]))
    shapes: dict[str, Shape] = {
        "q": (2, rows, heads * 2),
        "k": (2, keys, heads * 2),
        "v": (2, keys, heads * 3),
        "m": bias.shape,
    }
    attributes = {**_attention(rng), "X": heads, "Y": heads}
    return Instance(
        [tensor("f32", shapes[name]) for name in variables], attributes, {}, {"m": bias}
    )


def factors(row: str, rng: random.Random, variables: list[str]) -> Instance:
    """Scores times 0 or 1, and a bias where that is 0; some bias hides nothing, or elsewhere, some
    rows are hidden altogether, and some factors are others.
    """
    seen = np.array([[rng.random() < 0.5 for _ in range(4)] for _ in range(3)])
    seen[:, 0] |= rng.random() < 0.7
    factor = np.where(seen, 1.0, rng.choice([0.0, 0.0, 0.0, 0.5]))
    hidden = rng.choice([-1e10, -1e10, -np.inf, -2.0]) * (1 if "add" in row else -1)
    bias = np.where(seen if rng.random() < 0.9 else ~seen, 0.0, hidden)
    known = {"b": factor.astype(np.float32), "m": bias.astype(np.float32)}
    types = {name: tensor("f32", (3, 4)) for name in variables}
    types["x"] = tensor("f32", rng.choice([(3, 4), (2, 3, 4)]))
    axis = rng.choice([1, 1, 0]) + (len(types["x"].get_shape()) - 2)
    return Instance([types[name] for name in variables], {"A": axis}, {}, known)


def shares(row: str, rng: random.Random, variables: list[str]) -> Instance:
    """Shares of square matrices along an axis, and what they weigh: of fewer columns, or turned."""
    batch = rng.choice([(), (2,), (3, 2)])
    shapes: dict[str, Shape] = {"s": (*batch, 3, 3), "v": (*batch, 3, rng.choice([3, 3, 2]))}
    if rng.random() < 0.2:
        shapes["v"] = shapes["v"][::-1]
    turned = rng.random() < 0.5
    types = [tensor("f32", shapes[name]) for name in variables]
    return Instance(types, {"A": rng.randrange(len(batch) + 2), "M": turned, "N": turned})


def unrounded(row: str, rng: random.Random, variables: list[str]) -> Instance:
    """Shares of square matrices, or of batches of two axes, of which some may be nothing, rounded
    to half precision or to what holds less.
    """
    merged = "merged" in row
    scores: Shape = (2, 3, 3, 3) if merged else (2, 3, 3)
    types = {
        "s": tensor("f32", scores),
        "m": tensor("bool", scores),
        "v": tensor("f32", (6, 3, 3) if merged else rng.choice([(2, 3, 3), (2, 3, 2), (3, 3)])),
    }
    attributes: dict[str, object] = {
        "A": rng.choice([1, 2]),
        "B": (6, 3, 3),
        "M": rng.random() < 0.5,
        "N": rng.random() < 0.5,
        "U": rng.choice([ELEMENT_TYPES[name] for name in ("f16", "bf16", "i32")]),
        "V": ELEMENT_TYPES["f32"],
    }
    return Instance([types[name] for name in variables], attributes)


def _half(shape: Shape, which: int, paired: bool) -> tuple[Shape, Shape, Shape]:
    """Starts, stops and steps of the first or second elements of all pairs of the last axis."""
    start, end = (
        (which, shape[-1]) if paired else (which * shape[-1] // 2, shape[-1] // (2 - which))
    )
    zeros, ones = (0,) * (len(shape) - 1), (1,) * (len(shape) - 1)
    return (*zeros, start), (*shape[:-1], end), (*ones, 2 if paired else 1)


def rotated(row: str, rng: random.Random, variables: list[str]) -> Instance:
    """Heads and tables of their angles; or of other positions, one angle off, or pairs turned the
    other way.
    """
    rows, heads, size = rng.choice([2, 5]), rng.choice([1, 2]), rng.choice([2, 4, 8])
    after, paired = rng.random() < 0.5, "pairs" in row
    shape: Shape = (2, rows, heads, size) if after else (2, heads, rows, size)
    theta = rng.choice([10000.0, 500000.0, 100.0, 123.25])
    frequency = theta ** (-np.arange(0, size, 2) / size)
    if row.removeprefix("wrong ") in ("rope", "rope-of-whole-pairs"):
        other = rng.random() < 0.2
        frequency = np.repeat(frequency, 2) if paired != other else np.tile(frequency, 2)
    angle = (rng.choice([0, 0, 0, 1]) + np.arange(rows))[:, None] * frequency
    angle[-1, -1] += rng.choice([0.0, 0.0, 0.0, 0.125])
    if after or rng.random() < 0.5:
        angle = angle.reshape((rows, 1, -1) if after else (1, rows, angle.shape[-1]))
    order = rng.choice([(0, 1), (0, 1), (0, 1), (1, 0), (0, 0), (1, 1)])
    parts = [_half(shape, which, paired) for which in order]
    stacked = (*shape[:-1], size // 2, 1)
    attributes: dict[str, object] = dict(zip("ABCDEF", (*parts[0], *parts[1]), strict=True))
    attributes |= {"P": stacked, "Q": stacked, "R": shape}
    attributes["G"] = len(shape) - (not paired) - (rng.random() < 0.2)
    known = {"c": np.cos(angle), "s": np.sin(angle)}
    shapes = {"x": shape, "c": angle.shape, "s": angle.shape}
    types = [tensor("f64", shapes[name]) for name in variables]
    return Instance(types, attributes, {}, known)


def pairs(row: str, rng: random.Random, variables: list[str]) -> Instance:
    """One of each pair; or one half of them."""
    shape = rng.choice([(3, 4), (2, 3, 4), (4,)])
    pairs = (*shape[:-1], 2, 2)
    which, zeros = rng.choice([0, 1]), (0,) * (len(shape) - 1)
    starts, stops = (*zeros, 0, which), (*pairs[:-1], which + 1)
    if rng.random() < 0.3:
        starts, stops = (*zeros, which, 0), (*shape[:-1], which + 1, 2)
    attributes = {"P": pairs, "A": starts, "B": stops, "C": (1,) * len(pairs)}
    attributes["Q"] = rng.choice([(*shape[:-1], 2), (math.prod(shape) // 2,)])
    return Instance([tensor("f32", shape)], attributes)


def turned_rope(row: str, rng: random.Random, variables: list[str]) -> Instance:
    """Heads whose positions come before them, or after them, or are batches."""
    types = {"x": tensor("f32", (2, 3, 4, 4)), "o": tensor("i32", ())}
    attributes = {
        "P": rng.choice([(0, 2, 1, 3), (0, 2, 1, 3), (1, 0, 2, 3), (2, 1, 0, 3)]),
        "D": rng.choice([4, 4, 2]),
        "T": rng.choice([100.0, 10000.0]),
        "I": rng.random() < 0.5,
    }
    return Instance([types[name] for name in variables], attributes)
