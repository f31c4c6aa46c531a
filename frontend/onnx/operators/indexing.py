"""Operators that read or write at indices that are values."""

from math import prod

import numpy as np
from xdsl.ir import SSAValue

from mgn.dialects.shapes import normalise_axis
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
    """`scatter` or `scatter_add` of rows whose numbers are computed from the indices"""
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
        c.attribute("reduction", "none"),
    )
    return b.reshape(changed, list(sizes))


def _scattered(c: Call, x: SSAValue, ids: SSAValue, src: SSAValue, how: str) -> SSAValue:
    """Rows written, or put together with what is there, at places along the first axis."""
    b = c.b
    if how == "none":
        return b.scatter(x, ids, src, axis=0)
    if how == "add":
        return b.scatter_add(x, ids, src, axis=0)
    return _combined(c, x, ids, src, how)


def _combined(c: Call, x: SSAValue, ids: SSAValue, src: SSAValue, how: str) -> SSAValue:
    """Rows put together one after the other: the language scatters no such products."""
    b = c.b
    count = shape(ids)[0]
    if count > MOST_ROWS:
        c.fail(f"reduction '{how}' of more than {MOST_ROWS} rows is not supported")
    name = {"mul": "mul", "max": "max", "min": "min"}[how]
    places = b.iota([shape(x)[0]], axis=0, T=element(ids).name)
    for row in range(count):
        own = b.slice(ids, starts=[row], stops=[row + 1])
        starts = [row, *[0] * (rank(src) - 1)]
        value = b.slice(src, starts=starts, stops=[row + 1, *shape(src)[1:]])
        hit = b.reshape(b.eq(places, own), [shape(x)[0], *[1] * (rank(x) - 1)])
        x = b.where(hit, b.call(name, x, value), x)
    return x


MOST_ROWS = 256
"""Of a scatter with a product, a largest or a smallest element."""


@define("ScatterElements", "Scatter")
def scatter_elements(c: Call) -> SSAValue:
    """`scatter` or `scatter_add` of single elements, along the axis laid out as one"""
    x, src, b = c[0], c[2], c.b
    axis = c.axis(x, 0)
    sizes, places = shape(x), shape(c[1])
    ids = wrapped(c, c[1], sizes[axis])
    ids = b.cast(ids, "i64") if element(ids).name != "i64" else ids
    strides = [prod(sizes[place + 1 :]) for place in range(len(sizes))]
    number = b.mul(ids, strides[axis])
    others = np.indices(places)
    rest = sum(others[place] * strides[place] for place in range(len(sizes)) if place != axis)
    number = b.add(number, c.constant(np.broadcast_to(rest, places), np.int64))
    one, two, three = (b.reshape(value, [-1]) for value in (x, number, src))
    changed = _scattered(c, one, two, three, c.attribute("reduction", "none"))
    return b.reshape(changed, list(sizes))


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
