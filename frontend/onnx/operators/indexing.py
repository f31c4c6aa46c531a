"""Operators that read or write at indices that are values."""

from collections.abc import Iterator
from math import prod
from typing import Any, cast

import numpy as np
from xdsl.ir import Operation, SSAValue

from mgn.dialects.mgn.operations.places.scatter import LARGEST
from mgn.dialects.shapes import normalise_axis
from mgn.dialects.types import Family
from mgn.frontend.onnx.core.call import Call, element, rank, shape
from mgn.frontend.onnx.core.operator import define


def wrapped(c: Call, ids: SSAValue, size: int) -> SSAValue:
    """Indices of an axis, negative ones counted from its end."""
    b = c.b
    known = c.importer.known.array(ids)
    if known is not None:
        return c.constant(np.where(known < 0, known + size, known), known.dtype)
    if size > 2**31 - 1 or element(ids).bits < 32:
        ids = b.cast(ids, "i64")
    return b.where(b.lt(ids, c.like(0, ids)), b.add(ids, c.like(size, ids)), ids)


@define("Gather")
def gather(c: Call) -> SSAValue:
    """`gather`, or `slice` where the index is known and one"""
    x, ids, b = c[0], c[1], c.b
    axis = c.axis(x, 0)
    ids = wrapped(c, ids, shape(x)[axis])
    known = c.importer.known.array(ids)
    if known is not None and known.size == 1 and rank(ids) <= 1:
        place = int(known.reshape(-1)[0])
        sizes = list(shape(x))
        if not 0 <= place < sizes[axis]:
            c.fail(f"index {place} is out of axis {axis} of {sizes}")
        low, high = [0] * len(sizes), list(sizes)
        low[axis], high[axis] = place, place + 1
        cut = b.slice(x, starts=low, stops=high)
        return cut if rank(ids) else b.squeeze(cut, axis=axis)
    return b.gather(x, ids, axis=axis)


@define("GatherElements", since=11)
def gather_elements(c: Call) -> SSAValue:
    """`take_along_axis`"""
    x, b = c[0], c.b
    axis = c.axis(x, 0)
    if rank(c[1]) != rank(x):
        c.fail(f"x has {rank(x)} axes, and the indices have {rank(c[1])}")
    ids = wrapped(c, c[1], shape(x)[axis])
    starts = [0] * rank(x)
    stops = [size if place == axis else shape(ids)[place] for place, size in enumerate(shape(x))]
    cut = b.slice(x, starts=starts, stops=stops)
    return b.take_along_axis(cut, ids, axis=axis)


@define("GatherND", since=11)
def gather_nd(c: Call) -> SSAValue:
    """`gather` of rows whose numbers are computed from the indices"""
    x, ids, b = c[0], c[1], c.b
    batch = c.attribute("batch_dims", 0)
    sizes, places = shape(x), shape(ids)
    depth = places[-1]
    lead, indexed, rest = sizes[:batch], sizes[batch : batch + depth], sizes[batch + depth :]
    number = _row_numbers(c, ids, indexed)
    samples = prod(lead)
    if samples > 1:
        first = np.arange(samples).reshape(*lead, *[1] * (len(places) - 1 - batch))
        number = b.add(number, c.constant(first * prod(indexed), np.int64))
    rows = b.reshape(x, [samples * prod(indexed), *rest])
    return b.gather(rows, number, axis=0)


def _row_numbers(c: Call, ids: SSAValue, sizes: tuple[int, ...]) -> SSAValue:
    """The row-major numbers of indices along the last axis."""
    b = c.b
    depth = shape(ids)[-1]
    ids = b.cast(ids, "i64") if element(ids).name != "i64" else ids
    bounds = c.constant(sizes, np.int64)
    ids = b.where(b.lt(ids, 0), b.add(ids, bounds), ids)
    strides = [prod(sizes[place + 1 :]) for place in range(depth)]
    return b.sum(b.mul(ids, c.constant(strides, np.int64)), axis=-1)


@define("ScatterND", since=11)
def scatter_nd(c: Call) -> SSAValue:
    """as ScatterElements, of rows whose numbers are computed from the indices"""
    x, ids, src, b = c[0], c[1], c[2], c.b
    depth = shape(ids)[-1]
    sizes = shape(x)
    number = _row_numbers(c, ids, sizes[:depth])
    count = prod(shape(ids)[:-1])
    rows = b.reshape(x, [prod(sizes[:depth]), *sizes[depth:]])
    changed = _scattered(
        c,
        rows,
        b.reshape(number, [count]),
        b.reshape(src, [count, *sizes[depth:]]),
        0,
    )
    return b.reshape(changed, list(sizes))


def _scattered(c: Call, x: SSAValue, ids: SSAValue, src: SSAValue, axis: int) -> SSAValue:
    """Elements written, or put together with what is there, at places along an axis. Shapes are
    those of `scatter`.
    """
    b, how = c.b, c.choice("reduction", "none", "add", "mul", "max", "min")
    if how == "none":
        return b.scatter(x, ids, src, axis=axis)
    if how == "add":
        return b.scatter_add(x, ids, src, axis=axis)
    if 0 in (*shape(src), *shape(x)):
        return x
    if shape(ids) != shape(src):
        line = [size if place == axis else 1 for place, size in enumerate(shape(src))]
        ids = b.reshape(ids, line)
    stops = [own if place == axis else size for place, (own, size) in _sizes(x, src)]
    whole = stops == list(shape(x))
    part = x if whole else b.slice(x, starts=[0] * rank(x), stops=stops)
    part = {"mul": _multiplied, "max": _largest, "min": _least}[how](c, part, ids, src, axis)
    return part if whole else b.dynamic_update_slice(x, part, [0] * rank(x))


def _sizes(x: SSAValue, src: SSAValue) -> Iterator[tuple[int, tuple[int, int]]]:
    return enumerate(zip(shape(x), shape(src), strict=True))


def _largest(c: Call, x: SSAValue, ids: SSAValue, src: SSAValue, axis: int) -> SSAValue:
    return c.b.scatter_along(x, ids, src, axis=axis, combine=LARGEST)


def _least(c: Call, x: SSAValue, ids: SSAValue, src: SSAValue, axis: int) -> SSAValue:
    """The largest of what is turned round; -1 - x is in the range of an integer where -x is not."""
    kind = element(x)
    top = np.iinfo(cast(Any, kind.dtype)).max if kind.family is Family.UNSIGNED else -1

    def turned(value: SSAValue) -> SSAValue:
        return c.b.neg(value) if kind.is_float else c.b.sub(c.like(top, value), value)

    return turned(_largest(c, turned(x), ids, turned(src), axis))


def _multiplied(c: Call, x: SSAValue, ids: SSAValue, src: SSAValue, axis: int) -> SSAValue:
    """The ids are sorted, so that those of one place are a run. In each step an element is
    multiplied by that twice as far before it, if it is of the same run; the last of a run is then
    the product of all of it.
    """
    b, count = c.b, shape(src)[axis]
    order = b.argsort(ids, axis=axis)
    ids = b.take_along_axis(ids, order, axis=axis)
    src = b.take_along_axis(src, b.broadcast_to(order, shape(src)), axis=axis)
    steps = [1 << step for step in range((count - 1).bit_length())]
    for far in steps:
        alike = b.eq(_part(c, ids, axis, far, count), _part(c, ids, axis, 0, count - far))
        later, before = _part(c, src, axis, far, count), _part(c, src, axis, 0, count - far)
        later = b.where(alike, b.mul(later, before), later)
        src = b.concat([_part(c, src, axis, 0, far), later], axis=axis)
    ones = b.full(shape(x), 1, T=element(x).name)
    return b.mul(x, b.scatter(ones, b.broadcast_to(ids, shape(src)), src, axis=axis))


def _part(c: Call, x: SSAValue, axis: int, start: int, stop: int) -> SSAValue:
    """The elements from one place up to another along an axis."""
    starts, stops = [0] * rank(x), list(shape(x))
    starts[axis], stops[axis] = start, stop
    return c.b.slice(x, starts=starts, stops=stops)


@define("ScatterElements", "Scatter")
def scatter_elements(c: Call) -> SSAValue:
    """`scatter`, `scatter_add` or `scatter_along`; products by sorted places, in steps"""
    x, src = c[0], c[2]
    axis = c.axis(x, 0)
    ids = wrapped(c, _alike(c, c[1], x, axis), shape(x)[axis])
    return _scattered(c, x, ids, src, axis)


def _alike(c: Call, ids: SSAValue, x: SSAValue, axis: int) -> SSAValue:
    """The ids along an axis, where they are those of a line that was broadcast to all of x: that
    is how exporters write what adds rows.
    """
    made = ids.owner
    others = [place for place in range(rank(x)) if place != axis]
    if not isinstance(made, Operation) or made.name != "mgn.broadcast_to":
        return ids
    line = made.operands[0]
    sizes = [1] * (rank(x) - rank(line)) + list(shape(line))
    whole = all(shape(ids)[place] == shape(x)[place] for place in others)
    if not whole or any(sizes[place] != 1 for place in others) or sizes[axis] != shape(ids)[axis]:
        return ids
    return c.b.reshape(line, [sizes[axis]])


@define("TensorScatter", since=24)
def tensor_scatter(c: Call) -> SSAValue:
    """`where` on the places of an axis that are written, read by `take_along_axis`"""
    past, update, b = c[0], c[1], c.b
    axis = normalise_axis(c.attribute("axis", -2), rank(past))
    sizes, size = list(shape(past)), shape(past)[axis]
    steps = shape(update)[axis]
    if c.get(2) is None:
        start = c.constant(np.zeros([1] * rank(past)), np.int64)
    else:
        start = b.reshape(c[2], [sizes[0], *[1] * (rank(past) - 1)])
    places = b.sub(b.iota(sizes, axis=axis, T="i64"), start)
    if c.attribute("mode", "linear") == "circular":
        places = b.mod(places, size)
    inside = b.logical_and(b.ge(places, 0), b.lt(places, steps))
    ids = b.where(inside, places, 0)
    return b.where(inside, b.take_along_axis(update, ids, axis=axis), past)


@define("ArrayFeatureExtractor", domain="ai.onnx.ml")
def array_feature_extractor(c: Call) -> SSAValue:
    """`gather` along the last axis"""
    x, ids = c[0], c.b.reshape(c[1], [prod(shape(c[1]))])
    found = c.b.gather(x, ids, axis=rank(x) - 1)
    return c.b.reshape(found, [1, -1]) if rank(x) == 1 else found


@define("Binarizer", domain="ai.onnx.ml")
def binarizer(c: Call) -> SSAValue:
    """1 where x is above the threshold, else 0"""
    x = c[0]
    above = c.b.gt(x, c.like(c.attribute("threshold", 0.0), x))
    return c.b.cast(above, element(x).name)
