"""How attention's operands lie in memory, for the rows that recognise it: shapes and permutations.

In: matched values or their shapes. Out: attribute values of right sides; ShapeError where a layout
is not one of those below. In *one head* each leading axis is a batch: `[…, S, d]`. *Split*, axes of
heads stand before the positions: `[…, heads, S, d]`, two of them where groups of heads share keys.
*Merged*, heads are part of the last axis: `[…, S, heads * d]`.
"""

import math
from typing import Any

import numpy as np

from mgn.dialects.shapes import Shape, ShapeError
from mgn.passes.saturate.encoding.definitions import Definition

FAR = -1e9
"""A score that weighs nothing beside one that is seen: its exponential is 0 in f32 and f64."""

FARTHEST = -1e30
"""A score in which any other is lost that is added to it."""

THIN = 32
"""Rows of a batch below which the rows of several are worth a matrix of their own."""


def shape_of(x: Any) -> Shape:
    """The shape of a matched value; a shape is its own."""
    return x if isinstance(x, tuple) else x.shape  # pyright: ignore[reportUnknownVariableType]


def single(q: Any, k: Any, v: Any) -> bool:
    """Whether the last leading axis is of size 1 everywhere: a head that stands alone already."""
    shapes = [shape_of(x) for x in (q, k, v)]
    return all(len(shape) > 2 and shape[-3] == 1 for shape in shapes)


def one_head(x: Any, q: Any, k: Any, v: Any) -> Shape:
    """The shape of q, k or v in one head: without an axis of heads that is 1."""
    shape = shape_of(x)
    return (*shape[:-3], *shape[-2:]) if single(q, k, v) else shape


def one_head_bias(*given: Any) -> Shape:
    """The shape of a bias of `[…, S, T]` as one of `[…, 1, S, T]`. The last three of what is given
    are q, k and v; what stands before them is broadcast to the bias.
    """
    *parts, q, k, v = given
    shape = np.broadcast_shapes(*map(shape_of, parts))
    if len(shape) < 3 or single(q, k, v):
        return shape
    return (*shape[:-2], 1, *shape[-2:])


def keys_last(k: Any, turned: bool) -> Shape:
    """The permutation that makes keys `[…, T, d]`: they are `[…, d, T]` unless turned."""
    rank = len(shape_of(k))
    if rank < 2:
        raise ShapeError("keys have no positions")
    last = (rank - 2, rank - 1) if turned else (rank - 1, rank - 2)
    return (*range(rank - 2), *last)


def heads_inward(x: Any, axes: int) -> Shape:
    """The permutation from `[…, heads, S, d]` to `[…, S, heads, d]`."""
    rank = len(shape_of(x))
    first = rank - 2 - axes
    if first < 0:
        raise ShapeError("there are no axes of heads")
    return (*range(first), rank - 2, *range(first, rank - 2), rank - 1)


def heads_outward(shape: Shape, axes: int) -> Shape:
    """The permutation from `[…, S, heads, d]` to `[…, heads, S, d]`, of which this is the shape."""
    order = heads_inward(shape, axes)
    return tuple(order.index(axis) for axis in range(len(order)))


def merged(x: Any, axes: int) -> Shape:
    """The merged shape of a split value."""
    shape = shape_of(x)
    first = len(shape) - 2 - axes
    return (*shape[:first], shape[-2], math.prod(shape[first:-2]) * shape[-1])


def unmerged(shape: Shape, axes: int) -> Shape:
    """The shape `[…, S, heads, d]` of a value whose split shape is given."""
    return tuple(shape[axis] for axis in heads_inward(shape, axes))


def share_keys(heads: int, kv_heads: int) -> bool:
    """Whether there are more heads than heads of keys."""
    return heads > kv_heads


FEW_HEADS = range(2, 5)
"""So many heads that share keys are added up as what follows is computed."""


def keys_shared_by(heads: int, kv_heads: int, count: int) -> bool:
    """Whether as many heads share each head of keys; 0 is for more than a few."""
    group = heads // kv_heads
    return group == count if count else group > FEW_HEADS[-1]


def in_groups(x: Any, heads: int, kv_heads: int) -> Shape:
    """The shape `[…, S, kv_heads, group, d]` of a merged value: its heads in groups that share
    keys. The keys' own heads are groups of one.
    """
    *leading, width = shape_of(x)
    return (*leading, kv_heads, heads // kv_heads, width // heads)


def groups_outward(x: Any, heads: int, kv_heads: int) -> Shape:
    """The permutation from `in_groups` to `[group, …, S, kv_heads, d]`."""
    rank = len(in_groups(x, heads, kv_heads))
    return (rank - 2, *range(rank - 2), rank - 1)


def each_of_group(x: Any, heads: int, kv_heads: int) -> Shape:
    """The shape `[group, …, S, kv_heads * d]` of a merged value of as many heads as keys have, for
    each that shares them.
    """
    *leading, width = shape_of(x)
    group = heads // kv_heads
    return (group, *leading, width // group)


def line_start(shape: Shape, number: int) -> Shape:
    """Where a slice of a stack of values of one shape begins that takes one of them."""
    return (number, *(0 for _ in shape))


def line_stop(shape: Shape, number: int) -> Shape:
    """Where such a slice ends."""
    return (number + 1, *shape)


def line_steps(shape: Shape) -> Shape:
    """The steps of such a slice."""
    return (1, *(1 for _ in shape))


def bias_in_groups(m: Any, heads: int, kv_heads: int) -> Shape:
    """The shape of a bias that broadcasts to `[…, heads, S, T]` where each head is a batch: `[…,
    kv_heads, group, 1, S, T]`.
    """
    shape = shape_of(m)
    if len(shape) < 3:
        return shape
    axes = (kv_heads, heads // kv_heads) if shape[-3] == heads else (1, 1)
    return (*shape[:-3], *axes, 1, *shape[-2:])


def merged_bias(m: Any, q: Any, axes: int) -> Shape:
    """The shape of a one-head bias `[…, 1, S, T]` beside merged heads, `[…, heads, S, T]`."""
    shape = shape_of(m)
    if len(shape) < 3:
        return shape
    leading = shape_of(q)[:-2]
    given = (*(1,) * (len(leading) + 3 - len(shape)), *shape[:-3])
    batch, heads = given[: len(given) - axes], given[len(given) - axes :]
    if heads not in (leading[len(leading) - axes :], (1,) * axes):
        raise ShapeError("a bias that is shared by some heads only")
    return (*batch, math.prod(heads), *shape[-2:])


def scaled_by(scale: float, c: Any, q: Any, heads: int) -> float:
    """A scale times a constant: 1 / sqrt(d) before it was rounded, where it is that."""
    usual = 1.0 / math.sqrt(max(shape_of(q)[-1] // heads, 1))
    rounded = scale == 1.0 and float(c.element.dtype.type(usual)) == c.constant
    return usual if rounded else scale * c.constant


def heads_of(x: Any, axes: int) -> int:
    """The number of heads of a split value."""
    return math.prod(shape_of(x)[-2 - axes : -2])


def splits(q: Any, k: Any, v: Any, axes: int) -> bool:
    """Whether the last leading axes can be axes of heads: of q alone, the last may be shared."""
    leading = [shape_of(x)[:-2] for x in (q, k, v)]
    rank = len(leading[0])
    if rank < axes or any(len(shape) != rank for shape in leading) or leading[1] != leading[2]:
        return False
    shared = leading[0][:-1] == leading[1][:-1] and leading[1][-1] == 1 < leading[0][-1]
    return (shared and rank < 3) or leading[0] == leading[1] if axes == 1 else shared


def without_group(shape: Shape, axis: int) -> Shape:
    """The shape before a value was repeated along a new axis of size 1, counted from the back."""
    return (*shape[: len(shape) + axis], *shape[len(shape) + axis + 1 :])


def repeats(single: Shape, wide: Shape, result: Shape, axis: int) -> bool:
    """Whether `reshape(broadcast_to(reshape(x, single), wide), result)` repeats each element of the
    axis before this one, counted from the back, and nothing else.
    """
    at = len(single) + axis
    if at < 1 or len(wide) != len(single) or single[at] != 1:
        return False
    same = wide[:at] == single[:at] and wide[at + 1 :] == single[at + 1 :]
    return same and result == (*wide[: at - 1], wide[at - 1] * wide[at], *wide[at + 1 :])


def repeats_heads(single: Shape, wide: Shape, perm: Shape) -> bool:
    """Whether `[…, heads, 1, T, d]` becomes `[…, heads, group, T, d]` by repeating each head, and
    a permutation turns that to `[…, T, heads, group, d]`.
    """
    if len(single) < 4 or len(wide) != len(single) or single[-3] != 1:
        return False
    return without_group(wide, -3) == without_group(single, -3) and perm == heads_inward(wide, 2)


def repeats_merged(single: Shape, wide: Shape, result: Shape, heads: int) -> bool:
    """Whether `[…, T, kv_heads, 1, d]` becomes `[…, T, heads * d]` by repeating each head."""
    if len(single) < 4 or len(wide) != len(single) or single[-2] != 1:
        return False
    same = (*wide[:-2], wide[-1]) == (*single[:-2], single[-1])
    whole = wide[-3] * wide[-2] == heads
    return same and whole and result == (*wide[:-3], heads * wide[-1])


def merged_keys(single: Shape) -> Shape:
    """`[…, T, kv_heads, 1, d]` as `[…, T, kv_heads * d]`."""
    return (*single[:-3], single[-3] * single[-1])


def merges_batches(x: Any, shape: Shape) -> bool:
    """Whether a reshape makes fewer leading axes of several, and leaves the last two."""
    given = shape_of(x)
    return len(given) > len(shape) > 2 and given[-2:] == shape[-2:]


def merges_rows(a: Any, shape: Shape, result: Shape, b: Any) -> bool:
    """Whether a reshape makes one axis of two of rows, of products with one matrix for each batch,
    and another makes two of the product's again.
    """
    given, right = shape_of(a), shape_of(b)
    if len(given) < 4 or len(right) != len(given) - 1:
        return False
    *batch, outer, inner, width = given
    one = tuple(batch) == right[:-2] and shape == (*batch, outer * inner, width)
    return one and len(result) == len(given) and result[:-1] == given[:-1]


def joins_rows(x: Any, shape: Shape, y: Any) -> bool:
    """Whether a reshape makes one axis of two of rows, beside a value of two axes or less."""
    given = shape_of(x)
    joined = len(given) == 3 and len(shape) == 2 and given[-1] == shape[-1]
    return joined and len(shape_of(y)) <= 2


def joins_long_rows(x: Any, shape: Shape, y: Any) -> bool:
    """The same, but not where the rows of several batches are worth a matrix of their own, which
    the reshape makes of them.
    """
    batches, rows, _ = shape_of(x) if joins_rows(x, shape, y) else (0, 0, 0)
    return batches == 1 or rows >= THIN


def turns_rows(perm: Shape, b: Any) -> bool:
    """Whether a permutation moves axes that a right operand broadcasts over, and rows."""
    shape = shape_of(b)
    if len(shape) != len(perm) or len(perm) < 3 or perm[-1] != len(perm) - 1:
        return False
    return all(shape[axis] == 1 for axis in range(len(perm) - 2) if perm[axis] != axis)


def keeps_last(perm: Shape) -> bool:
    """Whether a permutation moves other axes than the last."""
    return bool(perm) and perm[-1] == len(perm) - 1


def inverse(perm: Shape) -> Shape:
    """The permutation that undoes another."""
    return tuple(perm.index(axis) for axis in range(len(perm)))


def moved(sizes: Shape, perm: Shape) -> Shape:
    """What each axis of a value has, given what each axis of the turned value has."""
    return tuple(sizes[place] for place in inverse(perm))


def lifted(x: Any, perm: Shape) -> Shape:
    """The shape of x with leading axes of 1, beside a value of as many axes as a permutation."""
    shape = shape_of(x)
    if len(shape) > len(perm):
        raise ShapeError("more axes than the other")
    return (*(1,) * (len(perm) - len(shape)), *shape)


def stays_in_order(x: Any, perm: Shape) -> bool:
    """Whether the axes of x that are not 1 keep their order as a permutation is undone."""
    if not 1 <= len(shape_of(x)) <= len(perm):
        return False
    whole = lifted(x, perm)
    kept = [axis for axis in inverse(perm) if whole[axis] != 1]
    return kept == sorted(kept)


def merges_axes(x: Any, shape: Shape) -> bool:
    """Whether a reshape makes fewer axes of several, each of axes side by side."""
    return bool(_runs(shape_of(x), shape))


def together(x: Any, shape: Shape, perm: Shape) -> Shape:
    """The permutation of the axes of x that moves its merged axes by another."""
    runs = _runs(shape_of(x), shape)
    return tuple(axis for moved in perm for axis in runs[moved])


def comes_back(x: Any, perm: Shape, shape: Shape, then: Shape) -> bool:
    """Whether a permutation, a reshape that only adds or takes away axes of 1, and a permutation
    leave the other axes of x in their order.
    """
    sizes = shape_of(x)
    moved = [axis for axis in perm if sizes[axis] != 1]
    kept = [place for place, size in enumerate(shape) if size != 1]
    if [sizes[axis] for axis in moved] != [shape[place] for place in kept]:
        return False
    axis_at = dict(zip(kept, moved, strict=True))
    found = [axis_at[place] for place in then if place in axis_at]
    return found == sorted(found)


def _runs(given: Shape, shape: Shape) -> list[range]:
    """Which axes each axis of a reshape merges; none where it does not merge."""
    runs, end = list[range](), 0
    for size in shape:
        first, total = end, 1
        while end < len(given) and (end == first or total < size):
            total *= given[end]
            end += 1
        if total != size:
            return []
        runs.append(range(first, end))
    return runs if end == len(given) > len(shape) else []


def sees_a_key(m: Any) -> bool:
    """Whether a mask is known and hides no row altogether."""
    array = _known(m)
    return array is not None and array.ndim > 0 and bool(array.astype(bool).any(axis=-1).all())


def leaves_a_key(m: Any) -> bool:
    """Whether the complement of a mask is known and hides no row altogether."""
    array = _known(m)
    return array is not None and array.ndim > 0 and not bool(array.astype(bool).all(axis=-1).any())


def hides(b: Any, m: Any, sign: float) -> bool:
    """Whether a factor is known to be 1 at some keys of each row, where a bias is 0, and is 0 at
    all others, where the bias hides a score; the bias has a sign.
    """
    factor, bias = _known(b), _known(m)
    if factor is None or bias is None:
        return False
    factor, bias = np.broadcast_arrays(factor, bias)
    seen = (factor == 1) & (bias == 0)
    hidden = (factor == 0) & (sign * bias <= FAR)
    return factor.ndim > 0 and bool((seen | hidden).all() and seen.any(axis=-1).all())


def is_window(m: Any, far: float = FARTHEST) -> bool:
    """Whether a bias is known to be attention's own mask: 0 at the keys that are seen, else -inf.

    Where every row sees a key, a bias of `far` or less hides one as well.
    """
    return _window(m, far) is not None


def window_of(m: Any) -> int:
    """The size of the window that a bias leaves, 0 where it is open to the left."""
    found = _window(m, FAR)
    if found is None:
        raise ShapeError("the bias is no mask")
    return found


def _window(m: Any, far: float) -> int | None:
    array = _known(m)
    if array is None or array.ndim < 2 or math.prod(array.shape[:-2]) != 1:
        return None
    rows, keys = int(array.shape[-2]), int(array.shape[-1])
    bias = array.reshape(rows, keys).astype(np.float64)
    visible = bias == 0
    hidden = bias == -np.inf
    if visible.any(axis=-1).all():
        hidden = bias <= far
    distance = np.arange(keys)[None, :] - np.arange(rows)[:, None] - (keys - rows)
    if not (visible | hidden).all() or (visible & (distance > 0)).any() or rows * keys < 2:
        return None
    if (visible == (distance <= 0)).all():
        return 0
    window = 1 - int(distance[visible].min(initial=0))
    near = (distance <= 0) & (distance > -window)
    return window if (visible == near).all() else None


def _known(x: Any) -> np.ndarray | None:
    definition: Definition | None = x.definition
    return None if definition is None else definition.array
