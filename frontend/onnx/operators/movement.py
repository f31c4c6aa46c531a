"""Operators that move elements: concatenate, cut, pad, transpose, rearrange."""

from math import prod
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from mgn.dialects.shapes import normalise_axis
from mgn.frontend.onnx.core.call import Call, element, rank, shape
from mgn.frontend.onnx.core.operator import define
from mgn.frontend.onnx.core.recurrence import turned_within


@define("Transpose")
def transpose(c: Call) -> SSAValue:
    """`transpose`"""
    x = c[0]
    perm = c.attribute("perm") or list(reversed(range(rank(x))))
    return c.b.transpose(x, perm=perm)


@define("Concat")
def concat(c: Call) -> SSAValue:
    """`concat`"""
    values = [c[number] for number in range(len(c))]
    return c.b.concat(values, axis=c.axis(values[0], 1 if c.version < 4 else 0))


@define("Split")
def split(c: Call) -> Any:
    """`split`"""
    x = c[0]
    axis = c.axis(x, 0)
    sizes = c.ints_of("split", 1, moved=13)
    if sizes is None:
        count = c.attribute("num_outputs", len(c.node.outputs))
        each = -(-shape(x)[axis] // count)
        sizes = [each] * (count - 1)
        sizes.append(shape(x)[axis] - sum(sizes))
    return tuple(c.b.split(x, sizes=sizes, axis=axis))


@define("Slice")
def slice_by_attributes(c: Call) -> SSAValue:
    """`slice`"""
    starts, ends = c.required("starts"), c.required("ends")
    return sliced(c, c[0], starts, ends, c.attribute("axes"), None)


@define("Slice", since=10)
def slice_by_inputs(c: Call) -> SSAValue:
    """`slice`"""
    return sliced(c, c[0], c.ints(1) or [], c.ints(2) or [], c.ints(3), c.ints(4))


def sliced(
    c: Call,
    x: SSAValue,
    starts: list[int],
    ends: list[int],
    axes: list[int] | None,
    steps: list[int] | None,
) -> SSAValue:
    """Slices along axes, by NumPy's rules; an axis with a negative step is turned round first."""
    sizes, b = list(shape(x)), c.b
    axes = [normalise_axis(axis, len(sizes)) for axis in axes or range(len(starts))]
    steps = steps or [1] * len(starts)
    low, high, by, turned = [0] * len(sizes), list(sizes), [1] * len(sizes), list[int]()
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        places = range(sizes[axis])[start:end:step]
        if step < 0:
            turned.append(axis)
            places = places[::-1]
        low[axis], by[axis] = (places[0] if places else 0), abs(step)
        high[axis] = places[-1] + 1 if places else 0
    found = x if (low, high, by) == ([0] * len(sizes), sizes, [1] * len(sizes)) else None
    found = found or b.slice(x, starts=low, stops=high, steps=by)
    return b.flip(found, axis=turned) if turned else found


@define("Tile", since=6)
def tile(c: Call) -> SSAValue:
    """`tile`"""
    return c.b.tile(c[0], repeats=c.ints(1))


@define("Pad")
def pad(c: Call) -> SSAValue:
    """`pad`, or `gather` of the places that are mirrored or repeated"""
    x, b = c[0], c.b
    pads = c.attribute("paddings") if c.version == 1 else c.ints_of("pads", 1, moved=11)
    sizes = shape(x)
    axes = [normalise_axis(axis, len(sizes)) for axis in c.ints(3) or range(len(sizes))]
    pads = pads or []
    if len(pads) != 2 * len(axes):
        c.fail(f"{len(axes)} axes have {len(pads)} numbers of padding")
    pairs = [(0, 0)] * len(sizes)
    for place, axis in enumerate(axes):
        low, high = pairs[axis] = (pads[place], pads[place + len(axes)])
        if sizes[axis] + low + high < 0:
            c.fail(f"axis {axis} has {sizes[axis]} elements, and is padded by {low} and {high}")
    cuts = [
        (max(-low, 0), size - max(-high, 0)) for (low, high), size in zip(pairs, sizes, strict=True)
    ]
    mode = c.choice("mode", "constant", "reflect", "edge", "wrap")
    if mode != "constant":
        return _padded_by_places(c, x, pairs, mode)
    if any((low, high) != (0, size) for (low, high), size in zip(cuts, sizes, strict=True)):
        x = b.slice(x, starts=[low for low, _ in cuts], stops=[high for _, high in cuts])
    value = _pad_value(c)
    return b.pad(x, [[max(low, 0), max(high, 0)] for low, high in pairs], value)


def _pad_value(c: Call) -> float:
    return c.attribute("value", 0.0) if c.version < 11 else c.number(2, 0)


def _padded_by_places(c: Call, x: SSAValue, pairs: list[tuple[int, int]], mode: str) -> SSAValue:
    for axis, (low, high) in enumerate(pairs):
        if (low, high) == (0, 0):
            continue
        size = shape(x)[axis]
        places = np.pad(np.arange(size), (max(low, 0), max(high, 0)), mode)  # type: ignore[call-overload]
        places = places[max(-low, 0) : len(places) - max(-high, 0)]
        x = c.b.gather(x, c.constant(places, np.int64), axis=axis)
    return x


@define("DepthToSpace")
def depth_to_space(c: Call) -> SSAValue:
    """`transpose` between two `reshape`"""
    x, by, b = c[0], c.required("blocksize"), c.b
    n, d, h, w = shape(x)
    deep = d // (by * by)
    if c.choice("mode", "DCR", "CRD") == "DCR":
        parts, perm = [n, by, by, deep, h, w], [0, 3, 4, 1, 5, 2]
    else:
        parts, perm = [n, deep, by, by, h, w], [0, 1, 4, 2, 5, 3]
    moved = b.transpose(b.reshape(x, parts), perm=perm)
    return b.reshape(moved, [n, deep, h * by, w * by])


@define("SpaceToDepth")
def space_to_depth(c: Call) -> SSAValue:
    """`transpose` between two `reshape`"""
    x, by, b = c[0], c.required("blocksize"), c.b
    n, d, h, w = shape(x)
    parts = b.reshape(x, [n, d, h // by, by, w // by, by])
    if c.choice("mode", "DCR", "CRD") == "CRD":
        return b.reshape(b.transpose(parts, perm=[0, 1, 3, 5, 2, 4]), [n, -1, h // by, w // by])
    moved = b.transpose(parts, perm=[0, 3, 5, 1, 2, 4])
    return b.reshape(moved, [n, d * by * by, h // by, w // by])


@define("CenterCropPad", since=18)
def center_crop_pad(c: Call) -> SSAValue:
    """`slice` and `pad`"""
    x, b = c[0], c.b
    wanted, sizes = c.ints(1) or [], list(shape(x))
    axes = c.attribute("axes") or range(len(sizes))
    low, high, pads = [0] * len(sizes), list(sizes), [[0, 0] for _ in sizes]
    for axis, size in zip((normalise_axis(axis, len(sizes)) for axis in axes), wanted, strict=True):
        more = size - sizes[axis]
        if more < 0:
            low[axis] = -more // 2
            high[axis] = low[axis] + size
        else:
            pads[axis] = [more // 2, more - more // 2]
    return b.pad(b.slice(x, starts=low, stops=high), pads, 0)


@define("ReverseSequence", since=10)
def reverse_sequence(c: Call) -> SSAValue:
    """`take_along_axis` of computed places"""
    return turned_within(c, c[0], c[1], c.attribute("batch_axis", 1), c.attribute("time_axis", 0))


@define("Col2Im", since=18)
def columns_to_image(c: Call) -> SSAValue:
    """`conv_transpose` with windows of one element each"""
    x, b = c[0], c.b
    image, block = c.ints(1) or [], c.ints(2) or []
    count, spatial = prod(block), len(block)
    dilation = c.attribute("dilations") or [1] * spatial
    stride = c.attribute("strides") or [1] * spatial
    pads = c.attribute("pads") or [0] * (2 * spatial)
    n, rows, _ = shape(x)
    places = [
        (image[i] + pads[i] + pads[i + spatial] - dilation[i] * (block[i] - 1) - 1) // stride[i] + 1
        for i in range(spatial)
    ]
    if spatial not in (1, 2, 3):
        c.fail(f"images of {spatial} axes are not supported")
    kind = element(x)
    one = np.eye(count).reshape(count, 1, *block).astype(kind.dtype)
    deep = rows // count
    columns = b.reshape(x, [n * deep, count, *places])
    reach = [(places[i] - 1) * stride[i] + dilation[i] * (block[i] - 1) + 1 for i in range(spatial)]
    whole = b.call(
        f"conv_transpose{spatial}d", columns, c.constant(one), stride=stride, dilation=dilation
    )
    found = b.reshape(whole, [n, deep, *reach])
    ends = [0, 0], [0, 0]
    for i in range(spatial):
        ends = [*ends, [0, max(image[i] + pads[i] - reach[i], 0)]]
    found = b.pad(found, list(ends), 0.0)
    starts = [0, 0, *pads[:spatial]]
    stops = [n, deep, *(image[i] + pads[i] for i in range(spatial))]
    return b.slice(found, starts=starts, stops=stops)
