"""Convolutions, pooling and resizing of images.

In: images `[N, C, …]`, or `[C, …]` without samples. Out: mgn's operations of the same meaning.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import element_type_of, shape_of
from mgn.dialects.mgn.operations.images.convolution import elements_first, surrounded
from mgn.dialects.mgn.operations.images.pooling import overhang
from mgn.frontend.torch.table import Call, Unsupported, aten, broadcasted, reshaped

Ints = int | Sequence[int]


def each(value: Ints, axes: int) -> list[int]:
    """A number for each axis."""
    listed = [value] if isinstance(value, int) else list(value)
    return listed * axes if len(listed) == 1 else listed


def convolved(
    b: Emitter,
    x: SSAValue,
    weight: SSAValue,
    bias: SSAValue | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
) -> SSAValue:
    """A convolution of any number of axes."""
    axes = len(shape_of(weight)) - 2
    options: dict[str, Any] = {
        "stride": each(stride, axes),
        "padding": each(padding, axes),
        "dilation": each(dilation, axes),
        "groups": groups,
    }
    if transposed:
        options["output_padding"] = each(output_padding, axes)
    name = f"conv_transpose{axes}d" if transposed else f"conv{axes}d"
    if not 1 <= axes <= 3:
        raise Unsupported(f"a convolution of {axes} axes")
    without = len(shape_of(x)) == axes + 1
    if without:
        x = b.reshape(x, (1, *shape_of(x)))
    found = b.call(name, x, weight, bias, **options)
    return b.reshape(found, shape_of(found)[1:]) if without else found


@aten("convolution")
def convolution(
    b: Emitter,
    call: Call,
    x: SSAValue,
    weight: SSAValue,
    bias: SSAValue | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
) -> SSAValue:
    """A convolution or its transpose."""
    options = (stride, padding, dilation, transposed, output_padding, groups)
    return convolved(b, x, weight, bias, *options)


def pooled(b: Emitter, call: Call, name: str, x: SSAValue, axes: int, **options: Any) -> SSAValue:
    """Pooling, with samples or without."""
    if len(shape_of(x)) == axes + 1:
        found = b.call(f"{name}{axes}d", b.reshape(x, (1, *shape_of(x))), **options)
        return reshaped(b, found, shape_of(found)[1:])
    return b.call(f"{name}{axes}d", x, **options)


def window_options(
    axes: int,
    kernel: Ints,
    stride: Ints | None,
    padding: Ints,
    dilation: Ints,
    ceil_mode: bool,
) -> dict[str, Any]:
    """What mgn calls the arguments of a pooling."""
    return {
        "kernel": each(kernel, axes),
        "stride": each(stride, axes) if stride else each(kernel, axes),
        "padding": each(padding, axes),
        "dilation": each(dilation, axes),
        "ceil_mode": ceil_mode,
    }


@aten("max_pool1d", "max_pool2d", "max_pool3d")
def max_pool(
    b: Emitter,
    call: Call,
    x: SSAValue,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
) -> SSAValue:
    """The largest element of each window."""
    axes = int(call.name[len("aten.max_pool")])
    options = window_options(axes, kernel_size, stride, padding, dilation, ceil_mode)
    return pooled(b, call, "max_pool", x, axes, **options)


@aten("max_pool2d_with_indices", "max_pool3d_with_indices")
def max_pool_with_indices(
    b: Emitter,
    call: Call,
    x: SSAValue,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
) -> tuple[SSAValue, SSAValue]:
    """The largest element of each window, and its index in the plane of its channel."""
    axes = int(call.name[len("aten.max_pool")])
    options = window_options(axes, kernel_size, stride, padding, dilation, ceil_mode)
    largest = pooled(b, call, "max_pool", x, axes, **options)
    whole = x if len(shape_of(x)) == axes + 2 else b.reshape(x, (1, *shape_of(x)))
    return largest, reshaped(b, _largest_places(b, whole, axes, options), call.shape)


def _largest_places(b: Emitter, x: SSAValue, axes: int, options: dict[str, Any]) -> SSAValue:
    """Where in its plane the largest element of each window is."""
    if not element_type_of(x).is_float:
        raise Unsupported("the places of the largest integers")
    shape = shape_of(x)
    kernel, stride, dilation = (options[name] for name in ("kernel", "stride", "dilation"))
    pads = tuple((n, n) for n in options["padding"])
    around = overhang(shape[2:], kernel, stride, pads, dilation, options["ceil_mode"])
    whole = surrounded(b, x, around, float("-inf"))
    found = elements_first(b, b.windows(whole, kernel, stride, dilation), axes)
    taken = b.argmax(found, axis=tuple(range(2, 2 + axes)), keepdims=False, T="i32")
    places = shape_of(taken)
    total, below = None, prod(kernel)
    for axis in range(axes):
        below //= kernel[axis]
        step = b.mul(b.mod(b.div(taken, below), kernel[axis]), dilation[axis])
        first = b.mul(b.iota(places, axis=2 + axis, T="i32"), stride[axis])
        place = b.clamp(b.sub(b.add(first, step), around[axis][0]), min=0, max=shape[2 + axis] - 1)
        total = place if total is None else b.add(b.mul(total, shape[2 + axis]), place)
    assert total is not None
    return total


@aten("avg_pool1d", "avg_pool2d", "avg_pool3d")
def avg_pool(
    b: Emitter,
    call: Call,
    x: SSAValue,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> SSAValue:
    """The mean of each window."""
    if divisor_override is not None:
        raise Unsupported("a divisor of one's own")
    axes = int(call.name[len("aten.avg_pool")])
    options = window_options(axes, kernel_size, stride, padding, 1, ceil_mode)
    return pooled(b, call, "avg_pool", x, axes, count_include_pad=count_include_pad, **options)


@aten("_adaptive_avg_pool2d", "adaptive_avg_pool2d")
def adaptive_avg_pool2d(
    b: Emitter, call: Call, x: SSAValue, output_size: Sequence[int]
) -> SSAValue:
    """The mean of each of so many windows."""
    without = len(shape_of(x)) == 3
    whole = b.reshape(x, (1, *shape_of(x))) if without else x
    if tuple(call.shape[-2:]) == (1, 1):
        return reshaped(b, b.global_avg_pool(whole), call.shape)
    return reshaped(b, b.adaptive_avg_pool2d(whole, tuple(call.shape[-2:])), call.shape)


@aten("adaptive_max_pool2d")
def adaptive_max_pool2d(
    b: Emitter, call: Call, x: SSAValue, output_size: Sequence[int]
) -> tuple[SSAValue, SSAValue]:
    """The largest element of each of so many windows, and its index in the plane of its channel."""
    if not element_type_of(x).is_float:
        raise Unsupported("the places of the largest integers")
    planes = shape_of(x)[-2:]
    rows, columns = (_windows_of(*sizes) for sizes in zip(planes, call.shape[-2:], strict=True))
    places = (rows[:, None, :, None] * planes[1] + columns[None, :, None, :]).astype(np.int32)
    count = places.shape[2] * places.shape[3]
    ids = b.constant_array(places.reshape(*call.shape[-2:], count))
    flat = b.reshape(x, (*shape_of(x)[:-2], prod(planes)))
    found = b.gather(flat, ids, axis=len(shape_of(flat)) - 1)
    largest = b.argmax(found, axis=-1, keepdims=True, T="i32")
    at = b.take_along_axis(broadcasted(b, ids, shape_of(found)), largest, axis=-1)
    value = b.take_along_axis(found, largest, axis=-1)
    return reshaped(b, value, call.shape), reshaped(b, at, call.shape)


def _windows_of(size: int, count: int) -> np.ndarray:
    """The places of so many windows of an axis, `[count, widest]`; a narrower one has its last
    place again.
    """
    numbers = np.arange(count)
    starts, stops = numbers * size // count, -(-(numbers + 1) * size // count)
    steps = np.arange(int((stops - starts).max(initial=1)))
    return np.minimum(starts[:, None] + steps, stops[:, None] - 1)


@aten("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d")
@aten("upsample_nearest1d.vec", "upsample_nearest2d.vec", "upsample_nearest3d.vec")
def upsample_nearest(
    b: Emitter, call: Call, x: SSAValue, output_size: Any = None, *scales: Any, **named: Any
) -> SSAValue:
    """The nearest element; sizes that follow from scales are those of the result."""
    check_scales(x, call, [*scales, *named.values()])
    return b.upsample(x, size=tuple(call.shape[2:]), mode="nearest")


@aten("upsample_bilinear2d", "upsample_bilinear2d.vec")
def upsample_bilinear(
    b: Emitter,
    call: Call,
    x: SSAValue,
    output_size: Any,
    align_corners: bool,
    *scales: Any,
    **named: Any,
) -> SSAValue:
    """Between the two nearest rows and columns."""
    if not align_corners:
        check_scales(x, call, [*scales, *named.values()])
    size = tuple(call.shape[2:])
    return b.upsample(x, size=size, mode="bilinear", align_corners=align_corners)


def check_scales(x: SSAValue, call: Call, given: Sequence[Any]) -> None:
    """Unsupported where the scale is not that of the sizes: PyTorch steps by the scale it is
    given.
    """
    flat = [item for part in given for item in (part if isinstance(part, list | tuple) else [part])]
    scales = [item for item in flat if item is not None]
    if not scales:
        return
    ratios = [m / n for n, m in zip(shape_of(x)[2:], call.shape[2:], strict=True)]
    if [float(item) for item in scales] != ratios:
        raise Unsupported("a scale that sizes do not follow exactly")
