"""Operators on shapes, and values that are known: constants, ranges, identities."""

from math import ceil, isfinite, prod
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from mgn.dialects.shapes import broadcast_shapes, normalise_axis
from mgn.frontend.onnx.core.call import Call, element, rank, shape
from mgn.frontend.onnx.core.operator import define

LARGEST_CONSTANT = 64
"""Elements of the largest `Constant` of floats that is no parameter."""

LARGEST_RANGE = 1 << 16
"""Elements of the largest `Range` that is written out."""


@define("Constant")
def constant(c: Call) -> SSAValue:
    """a constant; a parameter where it has many floats"""
    if len(c.attributes) != 1:
        c.fail(f"it has {len(c.attributes)} attributes, and one is its value")
    ((name, value),) = c.attributes.items()
    if name in ("value", "sparse_value"):
        if not isinstance(value, np.ndarray):
            c.fail(f"its '{name}' is no tensor")
        return c.importer.tensor(c.node.outputs[0], value, LARGEST_CONSTANT)
    if not name.startswith(("value_float", "value_int")):
        c.fail(f"'{name}' is not supported")
    return c.constant(value, np.float32 if name.startswith("value_float") else np.int64)


@define("Shape")
def shape_of(c: Call) -> SSAValue:
    """a constant"""
    sizes = shape(c[0])
    start, end = c.attribute("start", 0), c.attribute("end", len(sizes))
    return c.constant(sizes[slice(start, end)], np.int64)


@define("Size")
def size(c: Call) -> SSAValue:
    """a constant"""
    return c.constant(prod(shape(c[0])), np.int64)


@define("ConstantOfShape", since=9)
def constant_of_shape(c: Call) -> SSAValue:
    """`full`"""
    value = c.attribute("value", np.zeros(1, np.float32)).reshape(-1)[0]
    return c.b.broadcast_to(c.constant(value), c.ints(0) or [])


@define("Range", since=11)
def number_range(c: Call) -> SSAValue:
    """`iota`, or a constant"""
    start, limit, delta = (c.number(number) for number in range(3))
    kind, b = element(c[0]), c.b
    if not delta or not isfinite(start) or not isfinite(limit):
        c.fail(f"from {start} to {limit} in steps of {delta} has no end")
    count = max(ceil((limit - start) / delta), 0)
    if count <= LARGEST_RANGE:
        return c.constant(start + np.arange(count) * delta, kind.dtype)
    numbers = b.iota([count], axis=0, T=kind.name)
    return b.add(b.mul(numbers, c.like(delta, numbers)), c.like(start, numbers))


@define("EyeLike", since=9)
def eye_like(c: Call) -> SSAValue:
    """1 where the numbers of column and row are `k` apart, else 0, by `iota`"""
    b, sizes = c.b, list(shape(c[0]))
    kind = c.dtype("dtype", element(c[0]).dtype)
    if len(sizes) != 2:
        c.fail(f"its input is a matrix, not of {len(sizes)} axes")
    column, row = (b.iota(sizes, axis=axis, T="i64") for axis in (1, 0))
    return b.cast(b.eq(b.sub(column, row), c.attribute("k", 0)), kind.name)


@define("Reshape", since=5)
def reshape(c: Call) -> SSAValue:
    """`reshape`"""
    x, sizes = c[0], c.ints(1) or []
    if not c.attribute("allowzero", 0):
        own = shape(x)
        for place, wanted in enumerate(sizes):
            if wanted == 0 and place >= len(own):
                c.fail(f"size {place} is 0, and there is no such axis to copy from")
        sizes = [own[place] if wanted == 0 else wanted for place, wanted in enumerate(sizes)]
    return c.b.reshape(x, sizes)


@define("Flatten")
def flatten(c: Call) -> SSAValue:
    """`reshape` to a matrix"""
    sizes = shape(c[0])
    axis = c.attribute("axis", 1)
    axis = axis if axis >= 0 else axis + len(sizes)
    return c.b.reshape(c[0], [prod(sizes[:axis]), prod(sizes[axis:])])


@define("Squeeze")
def squeeze(c: Call) -> SSAValue:
    """`squeeze`"""
    axes = c.ints_of("axes", 1, moved=13)
    return c.b.squeeze(c[0], axis=axes) if axes is not None else c.b.squeeze(c[0])


@define("Unsqueeze")
def unsqueeze(c: Call) -> SSAValue:
    """`expand_dims`"""
    return c.b.expand_dims(c[0], axis=c.ints_of("axes", 1, moved=13))


@define("Expand", since=8)
def expand(c: Call) -> SSAValue:
    """`broadcast_to`"""
    wanted = broadcast_shapes(shape(c[0]), tuple(c.ints(1) or ()))
    return c.b.broadcast_to(c[0], list(wanted))


@define("Trilu", since=14)
def trilu(c: Call) -> SSAValue:
    """`tril` or `triu`"""
    name = "triu" if c.attribute("upper", 1) else "tril"
    k = c.number(1, 0)
    rows, columns = shape(c[0])[-2:]
    return c.b.call(name, c[0], k=max(min(k, columns + 1), -rows - 1))


@define("OneHot", since=9)
def one_hot(c: Call) -> SSAValue:
    """a comparison with `iota`"""
    b, ids, values = c.b, c[0], c[2]
    depth = int(c.number(1))
    axis = normalise_axis(c.attribute("axis", -1), rank(ids) + 1)
    whole = b.cast(ids, "i64") if element(ids).name != "i64" else ids
    whole = b.where(b.lt(whole, 0), b.add(whole, depth), whole)
    sizes = [*shape(ids)[:axis], depth, *shape(ids)[axis:]]
    hit = b.eq(b.iota(sizes, axis=axis, T="i64"), b.expand_dims(whole, axis))
    off, on = (b.reshape(part, []) for part in b.split(values, sizes=[1, 1], axis=0))
    return b.where(hit, on, off)


@define("NonZero", since=9)
def non_zero(c: Call) -> SSAValue:
    """a constant of a known value"""
    found: Any = np.nonzero(np.atleast_1d(c.known(0)))
    return c.constant(np.stack(found), np.int64)


@define("Compress", since=9)
def compress(c: Call) -> SSAValue:
    """`gather` of known places"""
    x, b = c[0], c.b
    chosen = np.flatnonzero(c.known(1))
    axis = c.attribute("axis")
    if axis is None:
        x, axis = b.reshape(x, [prod(shape(x))]), 0
    return b.gather(x, c.constant(chosen, np.int64), axis=axis)


@define("Unique", since=11)
def unique(c: Call) -> Any:
    """constants of a known value"""
    x, axis = c.known(0), c.attribute("axis")
    axis = None if axis is None else c.axis(c[0], 0)
    values, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    inverse = inverse.reshape(-1)
    if not c.attribute("sorted", 1):
        order = np.argsort(first)
        values = np.take(values, order, axis=0 if axis is None else axis)
        inverse = np.argsort(order)[inverse]
        first, counts = first[order], counts[order]
    rest = (c.constant(item, np.int64) for item in (first, inverse, counts))
    return (c.constant(values, x.dtype), *rest)
