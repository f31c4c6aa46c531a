"""Gradients of movement: each element of the result goes back to where it was read.

What is read more than once is added up, what is not read gets 0.
"""

from collections.abc import Sequence
from itertools import accumulate

from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import element_type_of, shape_of
from mgn.dialects.mgn.gradients.rules import Gradients, Site, gradient, summed_to
from mgn.dialects.shapes import Shape
from mgn.dialects.spatial import Ints


@gradient("reshape", "expand_dims", "squeeze", "flatten")
def reshape(b: Emitter, at: Site) -> Gradients:
    """In the operand's shape."""
    return [b.reshape(at.g, shape_of(at.x))]


@gradient("transpose")
def transpose(b: Emitter, at: Site) -> Gradients:
    """The other way round."""
    perm = at.values["perm"]
    return [b.transpose(at.g, [perm.index(axis) for axis in range(len(perm))])]


@gradient("broadcast_to")
def broadcast_to(b: Emitter, at: Site) -> Gradients:
    """Summed over what was repeated."""
    return [summed_to(b, at.g, shape_of(at.x))]


@gradient("flip")
def flip(b: Emitter, at: Site) -> Gradients:
    """Turned back."""
    return [b.flip(at.g, axis=at.values["axis"])]


@gradient("slice")
def slice_of(b: Emitter, at: Site) -> Gradients:
    """With zeros around it, and between elements where there were steps."""
    values = at.values
    result = at.g
    for axis, (start, step) in enumerate(zip(values["starts"], values["steps"], strict=True)):
        result = placed(b, result, axis, start, step, shape_of(at.x)[axis])
    return [result]


def placed(b: Emitter, x: SSAValue, axis: int, start: int, step: int, size: int) -> SSAValue:
    """An axis as one of a given size, on which element i is at start + i·step, among zeros."""
    shape = shape_of(x)
    count = shape[axis]
    if not count:
        return b.full((*shape[:axis], size, *shape[axis + 1 :]), 0.0, T=element_type_of(x))
    if step > 1 and count > 1:
        x = b.reshape(x, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
        x = _padded(b, x, axis + 1, 0, step - 1)
        x = b.reshape(x, (*shape[:axis], count * step, *shape[axis + 1 :]))
        reached = (count - 1) * step + 1
        x = cut(b, x, axis, 0, reached)
        count = reached
    return _padded(b, x, axis, start, size - start - count)


def _padded(b: Emitter, x: SSAValue, axis: int, low: int, high: int) -> SSAValue:
    if not low and not high:
        return x
    return b.pad(x, [[low, high] if i == axis else [0, 0] for i in range(len(shape_of(x)))], 0.0)


def cut(b: Emitter, x: SSAValue, axis: int, start: int, stop: int) -> SSAValue:
    """The elements from start to stop of one axis."""
    shape = shape_of(x)
    if (start, stop) == (0, shape[axis]):
        return x
    starts = [start if i == axis else 0 for i in range(len(shape))]
    return b.slice(x, starts, [stop if i == axis else n for i, n in enumerate(shape)])


@gradient("pad")
def pad(b: Emitter, at: Site) -> Gradients:
    """Without the sides."""
    shape = shape_of(at.x)
    lows = [low for low, _ in at.values["padding"]]
    if not shape:
        return [at.g]
    return [b.slice(at.g, lows, [low + n for low, n in zip(lows, shape, strict=True)])]


@gradient("concat")
def concat(b: Emitter, at: Site) -> Gradients:
    """To each operand its part."""
    axis = at.values["axis"]
    sizes = [shape_of(value)[axis] for value in at.operands[0]]
    ends = list(accumulate(sizes))
    return [[cut(b, at.g, axis, end - size, end) for size, end in zip(sizes, ends, strict=True)]]


@gradient("split")
def split(b: Emitter, at: Site) -> Gradients:
    """The parts one after the other, zeros for those that nothing uses."""
    parts = [
        given if given is not None else b.full(shape_of(part), 0.0, T=element_type_of(part))
        for given, part in zip(at.given, at.results, strict=True)
    ]
    return [b.concat(parts, axis=at.values["axis"]) if len(parts) > 1 else parts[0]]


@gradient("windows")
def windows(b: Emitter, at: Site) -> Gradients:
    """Each element's sum over the windows that have it."""
    values = at.values
    how = values["sizes"], values["strides"], values["dilation"]
    return [added_windows(b, at.g, shape_of(at.x), *how)]


def added_windows(
    b: Emitter, found: SSAValue, shape: Shape, sizes: Ints, strides: Ints, dilation: Ints
) -> SSAValue:
    """Windows `[…, *places, *sizes]` laid on an array of a shape, and added up where they meet.

    One axis after the other: so 7 · 7 elements are 7 + 7 additions.
    """
    axes = len(sizes)
    outer = len(shape) - axes
    for i in reversed(range(axes)):
        found = _added(b, found, outer + i, shape[outer + i], sizes[i], strides[i], dilation[i])
    return found


def _added(
    b: Emitter, x: SSAValue, axis: int, whole: int, size: int, stride: int, dilation: int
) -> SSAValue:
    """Places along an axis and the last axis, of the elements there, as one axis."""
    shape = shape_of(x)
    last = len(shape) - 1
    if dilation == 1 or size == 1:
        parts = _in_strides(b, x, axis, stride)
        return placed(b, _fitted(b, parts, axis, whole), axis, 0, 1, whole)
    total: SSAValue | None = None
    for k in range(size):
        one = b.reshape(cut(b, x, last, k, k + 1), shape[:-1])
        start = k * dilation
        one = placed(b, one, axis, start, stride, whole)
        total = one if total is None else b.add(total, one)
    assert total is not None
    return total


def _in_strides(b: Emitter, x: SSAValue, axis: int, stride: int) -> SSAValue:
    """Windows of neighbours: cut into pieces of a stride, which lie side by side; those of one
    number are added to the next ones of a lower number.
    """
    shape = shape_of(x)
    last = len(shape) - 1
    pieces = -(-shape[last] // stride)
    x = _padded(b, x, last, 0, pieces * stride - shape[last])
    long = shape[axis] + pieces - 1
    total: SSAValue | None = None
    for number in range(pieces):
        piece = cut(b, x, last, number * stride, (number + 1) * stride)
        piece = _padded(b, piece, axis, number, pieces - 1 - number)
        total = piece if total is None else b.add(total, piece)
    assert total is not None
    if stride > 1:
        total = b.transpose(total, _behind(last + 1, axis))
    return b.reshape(total, (*shape[:axis], long * stride, *shape[axis + 1 : last]))


def _behind(rank: int, axis: int) -> Sequence[int]:
    """The order of axes with the last one right behind another."""
    return (*range(axis + 1), rank - 1, *range(axis + 1, rank - 1))


def _fitted(b: Emitter, x: SSAValue, axis: int, whole: int) -> SSAValue:
    """An axis cut to what an array has of it."""
    return cut(b, x, axis, 0, min(shape_of(x)[axis], whole))
