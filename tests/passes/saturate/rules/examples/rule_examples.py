"""Instances of rows that random types hardly ever make, for their shapes have to fit.

In: the name of a row and a random generator. Out: an `Instance`: types of the variables, values of
the attribute variables, constants, and the values of variables that a row looks at.
"""

import itertools
import math
import random
from collections.abc import Callable

import numpy as np

from mgn.dialects.types import tensor
from mgn.passes.saturate.rules.turned import TURNED
from mgn.testing.instances import Instance
from tests.passes.saturate.rules.examples import rule_examples_attention as attention
from tests.passes.saturate.rules.examples import rule_examples_turned as turned

Shape = tuple[int, ...]


def example_of(row: str, rng: random.Random, variables: list[str]) -> Instance | None:
    """An instance of a row; None where random types make enough of them."""
    for part, make in EXAMPLES.items():
        if part in row:
            return make(row, rng, variables)
    return None


def _kept(row: str, rng: random.Random, variables: list[str]) -> Instance:
    """A reduction, and the reduced axes put back as 1; elsewhere, too."""
    shape = rng.choice([(3, 4), (4, 4), (2, 3, 4), (2, 2, 2)])
    axes = tuple(sorted(rng.sample(range(len(shape)), rng.randint(1, len(shape)))))
    left = [size for axis, size in enumerate(shape) if axis not in axes]
    kept = [1 if axis in axes else size for axis, size in enumerate(shape)]
    if rng.random() < 0.2:
        kept = [*left, *(1,) * len(axes)]
    element = rng.choice(["f32", "f64", "i32"])
    return Instance([tensor(element, shape)], {"A": axes, "S": tuple(kept)})


def _put_back(row: str, rng: random.Random, variables: list[str]) -> Instance:
    """A value for each row beside the row's largest element, both with an axis of 1 somewhere."""
    shape = rng.choice([(3, 4), (4, 3), (3, 3)])
    axis = rng.choice([0, 1])
    rows = shape[1 - axis]
    shapes: dict[str, Shape] = {"x": rng.choice([(rows,), (1, rows)]), "y": shape}
    attributes = {"A": (axis,), "S": rng.choice([(rows, 1), (1, rows), (rows, 1, 1)])}
    return Instance([tensor("f32", shapes[name]) for name in variables], attributes)


def _merged_products(row: str, rng: random.Random, variables: list[str]) -> Instance:
    """Batches of both operands merged, from the same axes or from others."""
    turned = rng.random() < 0.5
    ends = {"a": (3, 3) if turned else (2, 3), "b": (3, 3) if turned else (3, 4)}
    batches = {"a": (2, 3), "b": rng.choice([(2, 3), (2, 3), (3, 2)])}
    shapes: dict[str, Shape] = {"c": (), **{name: (*batches[name], *ends[name]) for name in "ab"}}
    types = [tensor("f32", shapes[name]) for name in variables]
    attributes = {"S": (6, *ends["a"]), "R": (6, *ends["b"]), "M": turned, "N": turned}
    return Instance(types, attributes)


def _shifted(row: str, rng: random.Random, variables: list[str]) -> Instance:
    """A value in another shape, and what is added to it: one number, or several."""
    shapes: dict[str, Shape] = {"x": (3, 4), "c": rng.choice([(), (3, 1), (3, 1)])}
    element = rng.choice(["f32", "f16", "i32"])
    attributes: dict[str, object] = {"S": rng.choice([(2, 3, 2), (12,), (1, 3, 4)])}
    return Instance([tensor(element, shapes[name]) for name in variables], attributes)


def _merged_rows(row: str, rng: random.Random, variables: list[str]) -> Instance:
    """Batches of two axes merged, or their rows, and an axis of what comes of it."""
    shape = rng.choice([(6, 3, 3), (6, 3, 3), (2, 9, 3), (2, 3, 9)])
    return Instance([tensor("f32", (2, 3, 3, 3))], {"S": shape, "A": rng.choice([0, 1, 2, 2])})


def _merged_sum(row: str, rng: random.Random, variables: list[str]) -> Instance:
    """Matrices of two axes of batches, merged, or merged with their rows, and what is added."""
    wide = rng.choice([(2, 3, 3, 3), (3, 2, 1, 3), (3, 2, 3, 1)])
    shape = rng.choice([(6, *wide[2:]), (6, *wide[2:]), (2, 3 * wide[2], wide[3])])
    other = rng.choice([(6, 3, 3), (6, 1, 3), (1, 3, 3), (3, 3)])
    element = rng.choice(["f32", "f16", "i32"])
    return Instance([tensor(element, wide), tensor(element, other)], {"S": shape})


def _rows_of_several_axes(row: str, rng: random.Random, variables: list[str]) -> Instance:
    """Rows of two axes, merged for a product with one matrix for each batch, or turned; or axes
    merged that are none of a product's; or matrices of rows that differ.
    """
    turned, batch = rng.random() < 0.5, rng.choice([(), (2,), (2, 3)])
    size, columns = rng.choice([3, 4]), rng.choice([3, 4])
    rows = rng.choice([(2, 3), (3, 2), (2, 2)])
    end = (columns, size) if turned else (size, columns)
    if "turned" in row:
        other = rng.choice([1, 1, rows[0]])
        shapes: dict[str, Shape] = {"a": (*batch, *rows, size), "b": (*batch, other, *end)}
        perm = (*range(len(batch)), len(batch) + 1, len(batch), len(batch) + 2)
        if rng.random() < 0.2:
            perm = tuple(rng.sample(range(len(perm)), len(perm)))
        types = [tensor("f32", shapes[name]) for name in variables]
        return Instance(types, {"N": turned, "P": perm})
    shapes = {"a": (*batch, *rows, size), "b": (*batch, *end)}
    merged = (*batch, math.prod(rows), size)
    parts = rng.choice([rows, rows, rows[::-1]])
    attributes = {"N": turned, "S": merged, "R": (*batch, *parts, columns)}
    return Instance([tensor("f32", shapes[name]) for name in variables], attributes)


def _joined_rows(row: str, rng: random.Random, variables: list[str]) -> Instance:
    """Axes of rows made one or two; beside a matrix or a vector of all rows, or one of
    each of two batches.
    """
    turned, width, columns = rng.random() < 0.5, rng.choice([3, 4]), rng.choice([3, 4])
    given = rng.choice([(2, 3, width), (1, 3, width), (2, 2, 3, width), (2, 2, 3, width)])
    rows = math.prod(given[:-1])
    shape = rng.choice([(rows, width), (2, rows // 2, width)]) if rows % 2 == 0 else (rows, width)
    end: Shape = (columns, width) if turned else (width, columns)
    if row.removeprefix("wrong ").startswith("sum"):
        end = rng.choice([(width,), (width,), (1, width), (2, 1, width), (rows, width)])
    elif rng.random() < 0.4:
        end = (2, *end)
    shapes: dict[str, Shape] = {"a": given, "x": given, "b": end, "y": end}
    element = "f32" if "a" in variables else rng.choice(["f32", "f16", "i32"])
    types = [tensor(element, shapes[name]) for name in variables]
    attributes: dict[str, object] = {"S": shape, "N": turned}
    return Instance(types, attributes)


def _merged_axes(row: str, rng: random.Random, variables: list[str]) -> Instance:
    """Some axes side by side merged to one, or cut in another place, and all of them moved."""
    shape = rng.choice([(2, 3, 4), (3, 2, 2, 2), (2, 1, 3, 2)])
    first = rng.randrange(len(shape) - 1)
    merged = (*shape[:first], shape[first] * shape[first + 1], *shape[first + 2 :])
    if rng.random() < 0.2:
        merged = merged[::-1]
    perm = tuple(rng.sample(range(len(merged)), len(merged)))
    return Instance([tensor("f32", shape)], {"S": merged, "P": perm})


def _leading_ones(row: str, rng: random.Random, variables: list[str]) -> Instance:
    """An operand with axes of 1 put before its own; or behind."""
    shape = rng.choice([(3,), (2, 3), (4, 3)])
    axes = rng.choice([(1,), (1, 1)])
    moved = "y" if row.removeprefix("wrong ")[:3] in ("sub", "div") else "x"
    behind = rng.random() < 0.2
    wide = (*shape, *axes) if behind else (*axes, *shape)
    full = (3, 3, 3) if behind else (2, 2, *(4, 3)[: 2 - len(shape)], *shape)
    shapes = {"x": full, "y": full, moved: shape}
    element = rng.choice(["f32", "f64", "i32"]) if "div" not in row else "f32"
    return Instance([tensor(element, shapes[name]) for name in variables], {"S": wide})


def _divided_product(row: str, rng: random.Random, variables: list[str]) -> Instance:
    """Terms times a matrix, divided by their sums along an axis."""
    shape = rng.choice([(3, 3), (3, 3), (2, 3, 3), (1, 3)])
    axes = rng.choice([(len(shape) - 1,), (len(shape) - 1,), (0,), (0, 1)])
    shapes: dict[str, Shape] = {"x": shape, "y": (3, 3)}
    types = [tensor("f32", shapes[name]) for name in variables]
    return Instance(types, {"N": rng.random() < 0.5, "A": axes})


def _turned_product(row: str, rng: random.Random, variables: list[str]) -> Instance:
    """`(A B)` turned, times a matrix, or a matrix times it, where another order is less work."""
    sizes = [rng.choice([4, 5]), rng.choice([2, 3, 4]), rng.choice([4, 5]), rng.choice([1, 2])]
    flags = {name: rng.random() < 0.5 for name in "MNQ"}
    rows, depth, columns, thin = sizes
    plain: dict[str, Shape] = {"a": (rows, depth), "b": (depth, columns), "c": (rows, thin)}
    if "left" in row:  # a (b c) turned: its rows are the thin ones
        plain = {"a": (thin, columns), "b": (rows, depth), "c": (depth, columns)}
    return _three_matrices(plain, flags, variables)


def _three_matrices(
    plain: dict[str, Shape], flags: dict[str, bool], variables: list[str]
) -> Instance:
    """Matrices a, b and c, each of which lies transposed where its flag says so."""
    turned = dict(zip("abc", flags.values(), strict=True))
    shapes = {name: s[::-1] if turned[name] else s for name, s in plain.items()}
    return Instance([tensor("f32", shapes[name]) for name in variables], dict(flags))


def _ordered_products(row: str, rng: random.Random, variables: list[str]) -> Instance:
    """Three matrices in a row, of two sizes, so that some of them fit in another order, too."""
    sizes = [rng.choice([2, 5, rng.choice([1, 3])]) for _ in range(2)]
    ends = [rng.choice(sizes) for _ in range(4)]
    flags = {name: rng.random() < 0.4 for name in "MNQ"}
    plain = dict(zip("abc", itertools.pairwise(ends), strict=True))
    return _three_matrices(plain, flags, variables)


def _masked(row: str, rng: random.Random, variables: list[str]) -> Instance:
    """A masked value that is scaled by a constant."""
    element = rng.choice(["f32", "f64", "f16", "i32"])
    shapes: dict[str, Shape] = {"x": (3, 4), "y": rng.choice([(4,), (3, 4)]), "m": (3, 4)}
    types = {name: tensor(element, shapes.get(name, ())) for name in variables}
    types["m"] = tensor("bool", rng.choice([(3, 4), (4,)]))
    constants = {
        "f": rng.choice([-np.inf, -3e38, -1e9, 2.0, np.inf, 0.0]),
        "c": rng.choice([0.5, 2.0, -4.0, 0.0, 3.0]),
    }
    if element == "i32":
        constants = {"f": -7.0, "c": 2.0}
    if element == "f16":
        constants["f"] = max(constants["f"], -256.0)
    return Instance([types[name] for name in variables], {"A": rng.choice([0, 1])}, constants)


def _variance(row: str, rng: random.Random, variables: list[str]) -> Instance:
    """The mean of squares less the square of the mean, divided by the count or by another."""
    axes = rng.choice([(0,), (1,), (0, 1)])
    count = float(np.prod([(3, 4)[axis] for axis in axes]))
    shapes: dict[str, Shape] = {"x": (3, 4), "n": ()}
    types = [tensor("f32", shapes[name]) for name in variables]
    return Instance(types, {"A": axes}, {"n": rng.choice([count, count, 2.0])})


def _rows(row: str, rng: random.Random, variables: list[str]) -> Instance:
    """Rows, a statistic of theirs or a value of each column, and a scale of columns."""
    shapes: dict[str, Shape] = {"x": (3, 4), "r": rng.choice([(3, 1), (4,)]), "s": (4,)}
    attributes = {"A": rng.choice([0, 1]), "B": (rng.choice([0, 1, 1]),)}
    return Instance([tensor("f32", shapes[name]) for name in variables], attributes)


def _double(row: str, rng: random.Random, variables: list[str]) -> Instance:
    """Numbers of f64: the row names a root, which f32 rounds visibly."""
    shape = rng.choice([(3, 4), (4,), (), (2, 3, 4)])
    return Instance([tensor("f64", shape) for _ in variables], {})


def _normed(row: str, rng: random.Random, variables: list[str]) -> Instance:
    """A normed matrix before a weight, of four columns or turned; some norms are of columns, and
    some weights are square.
    """
    turned = rng.random() < 0.5
    columns = rng.choice([4, 5])
    shapes: dict[str, Shape] = {
        "a": rng.choice([(3, 4), (2, 3, 4), (4, 4)]),
        "s": (4,),
        "b": (columns, 4) if turned else (4, columns),
    }
    axis = rng.choice([len(shapes["a"]) - 1, len(shapes["a"]) - 1, 0])
    types = [tensor("f32", shapes.get(name, ())) for name in variables]
    constants = {"n": rng.choice([4.0, 4.0, 3.0]), "e": rng.choice([1e-5, 0.5])}
    return Instance(types, {"N": turned, "A": (axis,)}, constants)


def _broadcast_factors(row: str, rng: random.Random, variables: list[str]) -> Instance:
    """Two factors of which each axis is one's own or both's, and axes that are added up: mostly
    those of both, and mostly some of each kind.
    """
    kinds = ["rows", "columns", "shared", *rng.choices(["rows", "columns", "both", "one"], k=2)]
    rng.shuffle(kinds)
    sizes = [1 if kind == "one" else rng.choice([2, 3, 3]) for kind in kinds]
    shapes = {
        name: tuple(1 if kind == other else size for kind, size in zip(kinds, sizes, strict=True))
        for name, other in (("a", "columns"), ("b", "rows"))
    }
    axes = {axis for axis, kind in enumerate(kinds) if kind == "shared"}
    if rng.random() < 0.4:
        axes.add(rng.randrange(len(kinds)))
    if rng.random() < 0.3:
        name = rng.choice("ab")
        while shapes[name][:1] == (1,):
            shapes[name] = shapes[name][1:]
    types = [tensor("f32", shapes[name]) for name in variables]
    return Instance(types, {"A": tuple(sorted(axes)), "K": rng.random() < 0.5})


def _filters(row: str, rng: random.Random, variables: list[str]) -> Instance:
    """A convolution, and numbers of each of its filters; elsewhere, of all or of each place."""
    groups = rng.choice([1, 2, 3])
    axes, out = rng.choice([1, 2]), 3 * groups
    each = rng.choice([1, 2])
    ones = (1,) * axes
    shapes: dict[str, Shape] = {
        "x": (rng.choice([1, 2]), each * groups, *(rng.choice([3, 4]) for _ in range(axes))),
        "w": (out, each, *(rng.choice([1, 2, 3]) for _ in range(axes))),
    }
    shape: Shape = (out, *ones) if rng.random() < 0.9 else rng.choice([(), ones, (1, out, *ones)])
    shapes |= dict.fromkeys("mshc", shape)
    attributes: dict[str, object] = {
        "S": tuple(rng.choice([1, 2]) for _ in ones),
        "P": tuple((rng.choice([0, 1]), rng.choice([0, 2])) for _ in ones),
        "D": ones,
        "G": groups,
    }
    return Instance([tensor("f32", shapes[name]) for name in variables], attributes)


def _filtered_places(row: str, rng: random.Random, variables: list[str]) -> Instance:
    """A product with a column for each filter, and numbers of each of them; elsewhere, of all, of
    each row of places or of each place.
    """
    images, places, channels = rng.choice([1, 2]), rng.choice([2, 3]), rng.choice([1, 4])
    filters = rng.choice([2, 3])
    shape: Shape = (filters,) if rng.random() < 0.9 else rng.choice([(), (1,), (1, filters)])
    shapes: dict[str, Shape] = {
        "x": rng.choice([(images * places * 2, channels), (images, places * 2, channels)]),
        "w": (filters, channels),
        **dict.fromkeys("msh", shape),
    }
    last = (places, filters) if rng.random() < 0.9 else (filters, places)
    attributes: dict[str, object] = {"S": (images, 2, *last)}
    return Instance([tensor("f32", shapes[name]) for name in variables], attributes)


EXAMPLES: dict[str, Callable[[str, random.Random, list[str]], Instance]] = {
    "repeated-and-turned": turned.repeated,
    **{row.name: turned.turned for row in TURNED if row.name != "repeated-and-turned"},
    "unrounded": attention.unrounded,
    "sum-of-broadcast-factors": _broadcast_factors,
    "normalised-convolution": _filters,
    "normalised-product": _filtered_places,
    "erf-of-quotient": _double,
    "cubic-scaled-in-parts": _double,
    "slice-of-pairs": attention.pairs,
    "matmul-of-merged-rows": _rows_of_several_axes,
    "matmul-of-turned-rows": _rows_of_several_axes,
    "of-joined-rows": _joined_rows,
    "transpose-of-merged-axes": _merged_axes,
    "of-leading-axes": _leading_ones,
    "shares-before-product": _divided_product,
    "quotient-after-product": _divided_product,
    "turned-product": _turned_product,
    "product-from-the-": _ordered_products,
    "mul-of-seen": _masked,
    "mul-of-hidden": _masked,
    "div-of-seen": _masked,
    "div-of-hidden": _masked,
    "hidden-by-factor": attention.factors,
    "reshape-of-shift": _shifted,
    "softmax-of-merged-batches": _merged_rows,
    "sum-of-merged-batches": _merged_sum,
    "softmax-of-shifted": _rows,
    "biased-scores": attention.scores,
    "scores-": attention.scores,
    "shares-": attention.shares,
    "turned-rope": attention.turned_rope,
    "rope": attention.rotated,
    "causal-attention": attention.causal,
    "heads-as-batches": attention.in_batches,
    "gradient-of-shared-keys": attention.shared_gradients,
    "attention-of-queries": attention.scaled_operands,
    "attention-of-scaled": attention.scaled_operands,
    "attention-of-divided": attention.scaled_operands,
    "attention-of-merged-batches": attention.merged_batches,
    "matmul-of-merged-batches": _merged_products,
    "-then-kept": _kept,
    "logarithm-and-largest": _put_back,
    "variance-of-squares": _variance,
    "scale-of-rows": _rows,
    "scale-of-columns": _rows,
    "square-of-mean": _rows,
    "matmul-of-normed": _normed,
    "heads": attention.in_heads,
    "shared": attention.shared,
    "attention": attention.scores,
}
"""By a part of a row's name."""
