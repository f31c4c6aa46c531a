"""Resizing images, and reading them at places between their pixels."""

import math
from collections.abc import Sequence
from functools import reduce
from itertools import product
from math import prod

import numpy as np
from xdsl.ir import SSAValue

from mgn.dialects.shapes import normalise_axis
from mgn.frontend.onnx.core.call import Call, element, rank, shape
from mgn.frontend.onnx.core.operator import define

MOST_TAPS = 4
"""Neighbours of an element that are read by themselves; with more, it is a product of matrices."""


@define("Upsample", since=7)
def upsample(c: Call) -> SSAValue:
    """as Resize, `asymmetric` and `floor`"""
    x = c[0]
    scales = c.attribute("scales") if c.version < 9 else list(c.known(1).reshape(-1))
    mode = c.choice("mode", "nearest", "linear", "bilinear")
    c.attributes = {
        "mode": "linear" if mode == "bilinear" else mode,
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "floor",
    }
    check_count(c, "scales", scales, rank(x))
    sizes = [_scaled(c, size, scale) for size, scale in zip(shape(x), scales, strict=True)]
    return _resized(c, x, sizes, [float(scale) for scale in scales], list(range(rank(x))), [])


@define("Resize", since=10)
def resize_asymmetric(c: Call) -> SSAValue:
    """as Resize of version 11, `asymmetric` and `floor`"""
    x, scales = c[0], [float(item) for item in c.known(1).reshape(-1)]
    mode = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    c.attributes = {**mode, **c.attributes}
    check_count(c, "scales", scales, rank(x))
    sizes = [_scaled(c, size, scale) for size, scale in zip(shape(x), scales, strict=True)]
    return _resized(c, x, sizes, scales, list(range(rank(x))), [])


MOST_SCALE = float(1 << 31)
"""Beyond which a factor is no mistake of a size alone."""


@define("Resize", since=11)
def resize(c: Call) -> SSAValue:
    """`upsample`, or for each axis `gather` of the neighbours, weighed, or `matmul`"""
    x = c[0]
    own = shape(x)
    axes = [normalise_axis(axis, rank(x)) for axis in c.attribute("axes") or range(rank(x))]
    crops = c.attribute("coordinate_transformation_mode") == "tf_crop_and_resize"
    roi = [float(item) for item in c.known(1).reshape(-1)] if crops else []
    if c.get(2) is not None and shape(c[2]) != (0,):
        scales = [float(item) for item in c.known(2).reshape(-1)]
        check_count(c, "scales", scales, len(axes))
        sizes = [_scaled(c, own[axis], by) for axis, by in zip(axes, scales, strict=True)]
    else:
        sizes = c.ints(3) or []
        check_count(c, "sizes", sizes, len(axes))
        if not all(own[axis] for axis in axes):
            c.fail("an axis of no elements is not resized")
        scales = [size / own[axis] for axis, size in zip(axes, sizes, strict=True)]
        policy = c.choice("keep_aspect_ratio_policy", "stretch", "not_larger", "not_smaller")
        if policy != "stretch":
            by = min(scales) if policy == "not_larger" else max(scales)
            scales = [by] * len(axes)
            sizes = [math.floor(own[axis] * by + 0.5) for axis in axes]
    return _resized(c, x, sizes, scales, axes, roi)


def check_count(c: Call, name: str, given: Sequence[float], wanted: int) -> None:
    """Fails where there is not one number for each axis."""
    if len(given) != wanted:
        c.fail(f"{wanted} axes have {len(given)} {name}")


def _scaled(c: Call, size: int, scale: float) -> int:
    """A size by a factor that the model has in f32: 10 by 0.9 is 9, as f32 rounds it."""
    if not math.isfinite(scale) or not 0 < scale < MOST_SCALE:
        c.fail(f"{scale:g} is no scale")
    return math.floor(np.float32(size) * np.float32(scale))


def _resized(
    c: Call,
    x: SSAValue,
    sizes: Sequence[int],
    scales: Sequence[float],
    axes: Sequence[int],
    roi: Sequence[float],
) -> SSAValue:
    bilinear = _bilinear(c, x, sizes, scales, axes)
    if bilinear is not None:
        return bilinear
    outside = np.zeros((), bool)
    for place, (axis, size, scale) in enumerate(zip(axes, sizes, scales, strict=True)):
        own = shape(x)[axis]
        ends = (roi[place], roi[place + len(axes)]) if roi else (0.0, 1.0)
        at = _coordinates(c, own, size, scale, ends)
        if roi:
            beyond = (at < 0) | (at > own - 1)
            outside = outside | beyond.reshape(
                [-1 if item == axis else 1 for item in range(rank(x))]
            )
        if size == own and np.array_equal(at, np.arange(own)):
            continue
        x = _along(c, x, axis, at, scale)
    if not outside.any():
        return x
    value = c.like(c.attribute("extrapolation_value", 0.0), x)
    return c.b.where(c.constant(outside), value, x)


def _bilinear(
    c: Call, x: SSAValue, sizes: Sequence[int], scales: Sequence[float], axes: Sequence[int]
) -> SSAValue | None:
    """`upsample` of images, where it says the same."""
    coordinates = c.attribute("coordinate_transformation_mode", "half_pixel")
    own = [shape(x)[axis] for axis in axes]
    wanted = dict(zip(axes, sizes, strict=True))
    whole = [wanted.get(axis, size) for axis, size in enumerate(shape(x))]
    exact = all(n * by == m for n, by, m in zip(own, scales, sizes, strict=True))
    fits = (
        c.attribute("mode", "nearest") == "linear"
        and coordinates in ("half_pixel", "align_corners")
        and rank(x) == 4
        and whole[:2] == list(shape(x)[:2])
        and element(x).is_float
        and not c.attribute("antialias", 0)
        and not c.attribute("exclude_outside", 0)
        and exact
    )
    if not fits:
        return None
    corners = coordinates == "align_corners"
    return c.b.upsample(x, size=whole[2:], mode="bilinear", align_corners=corners)


def _coordinates(
    c: Call, own: int, size: int, scale: float, ends: tuple[float, float]
) -> np.ndarray:
    """Where in an axis of its own size each new element is read. The nearest element is found in
    f32, as exporters and ONNX Runtime do: where that is between two decides rounding.
    """
    wide = np.float32 if c.attribute("mode", "nearest") == "nearest" else np.float64
    i, by = np.arange(size, dtype=wide), wide(scale)
    mode = c.attribute("coordinate_transformation_mode", "half_pixel")
    if mode == "align_corners":
        return i * (own - 1) / (by * own - 1) if size > 1 else i * 0
    if mode == "asymmetric":
        return i / by
    if mode == "tf_half_pixel_for_nn":
        return (i + 0.5) / by
    if mode == "tf_crop_and_resize":
        low, high = ends
        if size > 1:
            return low * (own - 1) + i * (high - low) * (own - 1) / (size - 1)
        return i + 0.5 * (low + high) * (own - 1)
    if mode == "pytorch_half_pixel" and size <= 1:
        return i * 0
    if mode == "half_pixel_symmetric":
        centre = own / 2
        return centre * (1 - size / (by * own)) + (i + 0.5) / by - 0.5
    if mode not in ("half_pixel", "pytorch_half_pixel"):
        c.fail(f"coordinate_transformation_mode '{mode}' is not supported")
    return (i + 0.5) / by - 0.5


def _along(c: Call, x: SSAValue, axis: int, at: np.ndarray, scale: float) -> SSAValue:
    """A value read along an axis at these places."""
    b, own, mode = c.b, shape(x)[axis], c.choice("mode", "nearest", "linear", "cubic")
    if mode == "nearest":
        places = _nearest(c, at).clip(0, own - 1).astype(np.int64)
        even = np.arange(len(at)) * own // max(len(at), 1)
        if np.array_equal(places, even) and len(at) % own == 0:
            return b.repeat(x, len(at) // own, axis=axis)
        return b.gather(x, c.constant(places), axis=axis)
    places, weights = _neighbours(c, at, own, scale)
    kind = element(x)
    wide = "f32" if not kind.is_float or kind.bits == 16 else kind.name
    given = b.cast(x, wide) if kind.name != wide else x
    dtype = np.float64 if wide == "f64" else np.float32
    lined = [-1 if item == axis else 1 for item in range(rank(x))]
    if places.shape[1] <= MOST_TAPS:
        found = reduce(
            b.add,
            (
                b.mul(
                    b.gather(given, c.constant(places[:, tap]), axis=axis),
                    c.constant(weights[:, tap].reshape(lined), dtype),
                )
                for tap in range(places.shape[1])
            ),
        )
    else:
        matrix = np.zeros((own, len(at)))
        np.add.at(matrix, (places, np.arange(len(at))[:, None]), weights)
        last = [item for item in range(rank(x)) if item != axis] + [axis]
        moved = b.matmul(b.transpose(given, perm=last), c.constant(matrix, dtype))
        found = b.transpose(moved, perm=[last.index(item) for item in range(rank(x))])
    if wide == kind.name:
        return found
    return b.cast(found if kind.is_float else b.round(found), kind.name)


def _nearest(c: Call, at: np.ndarray) -> np.ndarray:
    found = {
        "round_prefer_floor": lambda: np.ceil(at - 0.5),
        "round_prefer_ceil": lambda: np.floor(at + 0.5),
        "floor": lambda: np.floor(at),
        "ceil": lambda: np.ceil(at),
    }
    return found[c.choice("nearest_mode", *found)]()


def _neighbours(c: Call, at: np.ndarray, own: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """The neighbours of places and what each weighs: both [places, neighbours]."""
    cubic = c.attribute("mode") == "cubic"
    reach = 2 if cubic else 1
    by = min(scale, 1.0) if c.attribute("antialias", 0) else 1.0
    first = math.floor(-reach / by) + 1
    steps = np.arange(first, 2 - first if by < 1 or cubic else 2)
    floor = np.floor(at)
    distance = np.abs((steps[None, :] - (at - floor)[:, None]) * by)
    weights = _cubic(distance, c.attribute("cubic_coeff_a", -0.75)) if cubic else 1 - distance
    weights = weights.clip(0) if not cubic else weights
    places = (floor[:, None] + steps).astype(np.int64)
    if c.attribute("exclude_outside", 0):
        weights = np.where((places < 0) | (places >= own), 0, weights)
    weights = weights / weights.sum(axis=1, keepdims=True)
    return places.clip(0, own - 1), weights


def _cubic(distance: np.ndarray, a: float) -> np.ndarray:
    """Keys' kernel."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))


@define("GridSample", since=16)
def grid_sample(c: Call) -> SSAValue:
    """`gather` of the pixels around each place, weighed"""
    x, grid, b = c[0], c[1], c.b
    count = rank(x) - 2
    named = c.choice("mode", "linear", "nearest", "cubic", "bilinear", "bicubic")
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(named, named)
    corners = bool(c.attribute("align_corners", 0))
    padding = c.choice("padding_mode", "zeros", "border", "reflection")
    sizes = shape(x)[2:]
    places: list[SSAValue] = []
    for axis, size in enumerate(sizes):
        index = count - 1 - axis
        at = b.squeeze(_cut(c, grid, index), axis=-1)
        place = (
            b.mul(b.add(at, 1.0), (size - 1) / 2)
            if corners
            else b.mul(b.sub(b.mul(b.add(at, 1.0), float(size)), 1.0), 0.5)
        )
        place = b.round(place) if mode == "nearest" else place
        if padding == "reflection" or (padding == "border" and mode != "cubic"):
            place = _kept(c, place, size, corners, padding)
        places.append(place)
    taps = {"nearest": 1, "linear": 2, "cubic": 4}[mode]
    floors = [place if mode == "nearest" else b.floor(place) for place in places]
    rows = b.reshape(b.transpose(x, perm=[0, *range(2, rank(x)), 1]), [-1, shape(x)[1]])
    terms: list[SSAValue] = []
    first = 0 if taps < 4 else -1
    for steps in product(range(first, first + taps), repeat=count):
        weight, hit, number = None, None, None
        for axis, step in enumerate(steps):
            size = sizes[axis]
            at = b.add(floors[axis], float(step))
            if mode != "nearest":
                share = _share(c, b.sub(places[axis], at), mode)
                weight = share if weight is None else b.mul(weight, share)
            if padding == "zeros":
                inside = b.logical_and(b.ge(at, 0.0), b.le(at, float(size - 1)))
                hit = inside if hit is None else b.logical_and(hit, inside)
            else:
                at = _kept(c, at, size, corners, padding)
            whole = b.clamp(b.cast(b.round(at), "i64"), min=0, max=size - 1)
            number = whole if number is None else b.add(b.mul(number, size), whole)
        assert number is not None
        plane = np.arange(shape(x)[0]).reshape(-1, *[1] * count) * prod(sizes)
        read = b.gather(rows, b.add(number, c.constant(plane, np.int64)), axis=0)
        if weight is not None:
            read = b.mul(read, b.cast(b.expand_dims(weight, -1), element(x).name))
        if hit is not None:
            read = b.where(b.expand_dims(hit, -1), read, c.like(0, read))
        terms.append(read)
    total = reduce(b.add, terms)
    return b.transpose(total, perm=[0, count + 1, *range(1, count + 1)])


def _cut(c: Call, grid: SSAValue, index: int) -> SSAValue:
    starts = [*[0] * (rank(grid) - 1), index]
    return c.b.slice(grid, starts=starts, stops=[*shape(grid)[:-1], index + 1])


def _kept(c: Call, place: SSAValue, size: int, corners: bool, padding: str) -> SSAValue:
    """A place within an axis: the nearest one, or what it is mirrored to."""
    b = c.b
    if padding == "border":
        return b.clamp(place, min=0.0, max=float(size - 1))
    low, reach = (0.0, float(size - 1)) if corners else (-0.5, float(size))
    if not reach:
        return b.mul(place, 0.0)
    turned = b.mod(b.sub(place, low), 2 * reach)
    return b.add(b.min(turned, b.sub(2 * reach, turned)), low)


def _share(c: Call, distance: SSAValue, mode: str) -> SSAValue:
    """What a neighbour at a distance weighs."""
    b, a = c.b, -0.75
    size = b.abs(distance)
    if mode == "linear":
        return b.relu(b.sub(1.0, size))
    near = b.add(b.mul(b.mul(b.sub(b.mul(size, a + 2), a + 3), size), size), 1.0)
    far = b.sub(b.mul(b.add(b.mul(b.sub(b.mul(size, a), 5 * a), size), 8 * a), size), 4 * a)
    return b.where(b.le(size, 1.0), near, b.where(b.lt(size, 2.0), far, b.mul(size, 0.0)))
