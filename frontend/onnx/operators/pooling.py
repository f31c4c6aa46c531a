"""Pooling: the largest or mean element of windows."""

from functools import reduce
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from mgn.frontend.onnx.core.call import Call, element, rank, shape
from mgn.frontend.onnx.core.operator import define
from mgn.frontend.onnx.operators.convolution import axes_of, padding_of

WIDEST = 64
"""Neighbours that LRN may have at least, however few channels there are."""


def _arguments(c: Call) -> tuple[int, dict[str, Any]]:
    x = c[0]
    kernel = c.required("kernel_shape")
    count = len(kernel)
    if count not in (1, 2, 3):
        c.fail(f"{count} axes are not supported")
    return count, {
        "kernel": kernel,
        "stride": axes_of(c, "strides", count),
        "padding": padding_of(c, shape(x)[2:], kernel),
        "dilation": axes_of(c, "dilations", count),
        "ceil_mode": bool(c.attribute("ceil_mode", 0)),
    }


@define("MaxPool")
def max_pool(c: Call) -> Any:
    """`max_pool1d`, `max_pool2d` or `max_pool3d`; the places by `argmax` of windows"""
    count, arguments = _arguments(c)
    found = c.b.call(f"max_pool{count}d", c[0], **arguments)
    return (found, _places(c, found, arguments)) if c.wants(1) else found


def _places(c: Call, found: SSAValue, arguments: dict[str, Any]) -> SSAValue:
    """The row-major place in x of each window's first largest element."""
    x, b, kind = c[0], c.b, element(c[0])
    sizes, out = shape(x), shape(found)
    kernel, strides, dilations = (arguments[key] for key in ("kernel", "stride", "dilation"))
    count = len(kernel)
    reach = [
        (out[axis + 2] - 1) * strides[axis] + (kernel[axis] - 1) * dilations[axis] + 1
        for axis in range(count)
    ]
    pads = [
        [low, max(reach[axis] - low - sizes[axis + 2], 0)]
        for axis, (low, _) in enumerate(arguments["padding"])
    ]
    assert kind.dtype is not None
    lowest = -np.inf if kind.is_float else int(np.iinfo(kind.dtype).min)
    padded = b.pad(x, [[0, 0], [0, 0], *pads], lowest)
    seen = b.windows(padded, sizes=kernel, strides=strides, dilation=dilations)
    flat = b.reshape(seen, [*out, prod(kernel)])
    best = b.argmax(flat, axis=-1, T="i64")
    number = c.constant(np.zeros((), np.int64))
    order = range(count) if not c.attribute("storage_order", 0) else reversed(range(count))
    inner = best
    offsets: list[SSAValue] = [inner] * count
    for axis in reversed(range(count)):
        offset = b.mod(inner, kernel[axis])
        inner = b.div(b.sub(inner, offset), kernel[axis])
        first = np.arange(out[axis + 2]) * strides[axis] - pads[axis][0]
        lined = first.reshape([-1 if place == axis else 1 for place in range(count)])
        offsets[axis] = b.add(b.mul(offset, dilations[axis]), c.constant(lined, np.int64))
    for axis in order:
        number = b.add(b.mul(number, sizes[axis + 2]), offsets[axis])
    planes = np.arange(sizes[0] * sizes[1]).reshape(sizes[0], sizes[1], *[1] * count)
    return b.add(number, c.constant(planes * prod(sizes[2:]), np.int64))


@define("AveragePool")
def average_pool(c: Call) -> SSAValue:
    """`avg_pool1d`, `avg_pool2d` or `avg_pool3d`"""
    return averaged(c, c[0])


def averaged(c: Call, x: SSAValue) -> SSAValue:
    """The means of windows."""
    count, arguments = _arguments(c)
    counted = bool(c.attribute("count_include_pad", 0))
    return c.b.call(f"avg_pool{count}d", x, count_include_pad=counted, **arguments)


@define("LpPool")
def lp_pool(c: Call) -> SSAValue:
    """the p-norm of windows, by sums of powers"""
    count, arguments = _arguments(c)
    b, x, p = c.b, c[0], c.attribute("p", 2)
    powers = b.pow(b.abs(x), c.like(p, x))
    area = prod(arguments["kernel"])
    arguments["ceil_mode"] = bool(c.attribute("ceil_mode", 0))
    mean = b.call(f"avg_pool{count}d", powers, count_include_pad=True, **arguments)
    return b.pow(b.mul(mean, c.like(area, x)), c.like(1 / p, x))


@define("GlobalAveragePool")
def global_average_pool(c: Call) -> SSAValue:
    """`global_avg_pool`"""
    return c.b.global_avg_pool(c[0])


@define("GlobalMaxPool")
def global_max_pool(c: Call) -> SSAValue:
    """`global_max_pool`"""
    return c.b.global_max_pool(c[0])


@define("GlobalLpPool")
def global_lp_pool(c: Call) -> SSAValue:
    """the p-norm of each channel"""
    b, x, p = c.b, c[0], c.attribute("p", 2)
    if p < 1:
        c.fail(f"there is no norm of order {p}")
    total = b.sum(b.pow(b.abs(x), c.like(p, x)), axis=list(range(2, rank(x))), keepdims=True)
    return b.pow(total, c.like(1 / p, x))


@define("MaxUnpool", since=9)
def max_unpool(c: Call) -> SSAValue:
    """`scatter` at the places"""
    x, b = c[0], c.b
    kernel = c.required("kernel_shape")
    count = len(kernel)
    strides = axes_of(c, "strides", count)
    pads = c.attribute("pads") or [0] * (2 * count)
    own = [
        (shape(x)[axis + 2] - 1) * strides[axis] + kernel[axis] - pads[axis] - pads[axis + count]
        for axis in range(count)
    ]
    sizes = c.ints(2) or [*shape(x)[:2], *own]
    ids = b.reshape(c[1], [-1])
    if sizes[2:] != own:  # the places are those in the smaller image
        area, parts = prod(own), [prod(own[axis + 1 :]) for axis in range(count)]
        plane = b.div(ids, area)
        rest = b.sub(ids, b.mul(plane, area))
        found = b.mul(plane, prod(sizes[2:]))
        for axis in range(count):
            place = b.div(rest, parts[axis])
            rest = b.sub(rest, b.mul(place, parts[axis]))
            found = b.add(found, b.mul(place, prod(sizes[axis + 3 :])))
        ids = found
    zeros = b.full([prod(sizes)], 0.0, T=element(x).name)
    return b.reshape(b.scatter(zeros, ids, b.reshape(x, [-1]), axis=0), sizes)


@define("LRN")
def local_response_normalisation(c: Call) -> SSAValue:
    """x divided by a power of the mean square of neighbouring channels"""
    b, x, size = c.b, c[0], c.required("size")
    if rank(x) < 2 or not 1 <= size <= 2 * max(shape(x)[1], WIDEST):
        c.fail(f"{size} neighbours are none of {list(shape(x))}")
    low = (size - 1) // 2
    squares = b.pad(
        b.mul(x, x),
        [[low, size - 1 - low] if axis == 1 else [0, 0] for axis in range(rank(x))],
        0.0,
    )
    shifted: list[SSAValue] = []
    for start in range(size):
        starts = [start if axis == 1 else 0 for axis in range(rank(x))]
        stops = [at + by for at, by in zip(starts, shape(x), strict=True)]
        shifted.append(b.slice(squares, starts=starts, stops=stops))
    total = reduce(b.add, shifted)
    alpha, beta, bias = (
        c.attribute(key, value) for key, value in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0))
    )
    base = b.add(b.mul(total, c.like(alpha / size, x)), c.like(bias, x))
    return b.div(x, b.pow(base, c.like(beta, x)))
