"""Pooling: reductions over windows of a padded input, or over all that an image has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mgn.dialects.mgn.attributes import BOOL, PADDING, SHAPE
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import composite, element_type_of, in_single_precision, shape_of
from mgn.dialects.mgn.operation import FLOATS, NUMERIC, AttributeSpec, OperandSpec
from mgn.dialects.mgn.operations.images.convolution import AXIS_NAMES, elements_first, surrounded
from mgn.dialects.mgn.operations.rows.reductions import neutral_maximum
from mgn.dialects.shapes import ShapeError
from mgn.dialects.spatial import Ints, Pairs, padded, places, resolved_padding, spans, spread_over
from mgn.dialects.types import element_of, tensor

WINDOW = (
    AttributeSpec("kernel", SHAPE),
    AttributeSpec("stride", SHAPE, None),
    AttributeSpec("padding", PADDING, 0),
    AttributeSpec("dilation", SHAPE, 1),
    AttributeSpec("ceil_mode", BOOL, False),
)
COUNTED = AttributeSpec("count_include_pad", BOOL, True)


def _canonical(
    x: TensorType,
    kernel: Ints,
    stride: Ints | None,
    padding: Pairs | str,
    dilation: Ints,
    **_: Any,
) -> Mapping[str, Any]:
    axes = len(x.get_shape()) - 2
    if axes < 1:
        return {}
    kernel = spread_over(kernel, axes, "kernel")
    stride = kernel if stride is None else spread_over(stride, axes, "stride")
    dilation = spread_over(dilation, axes, "dilation")
    resolved = resolved_padding(padding, x.get_shape()[2:], kernel, stride, dilation)
    return {"kernel": kernel, "stride": stride, "padding": resolved, "dilation": dilation}


def overhang(
    shape: Sequence[int],
    kernel: Ints,
    stride: Ints,
    padding: Pairs,
    dilation: Ints,
    ceil_mode: bool,
) -> Pairs:
    """The padding with what the last window of each axis needs besides, in ceil mode: it begins in
    the input or before it, as in PyTorch.
    """
    whole = padded(shape, padding)
    if not ceil_mode:
        return padding
    result: list[tuple[int, int]] = []
    rows = zip(shape, whole, spans(kernel, dilation), stride, padding, strict=True)
    for size, n, span, step, (low, high) in rows:
        count = -(-(n - span) // step) + 1
        count -= (count - 1) * step >= size + low
        result.append((low, high + max((count - 1) * step + span - n, 0)))
    return tuple(result)


def _infer(axes: int) -> Any:
    def infer(
        x: TensorType,
        kernel: Ints,
        stride: Ints,
        padding: Pairs,
        dilation: Ints,
        ceil_mode: bool,
        count_include_pad: bool = True,
    ) -> TensorType:
        if len(x.get_shape()) != axes + 2:
            raise ShapeError(f"x must be {AXIS_NAMES[axes]}, not {list(x.get_shape())}")
        for pair, span in zip(padding, spans(kernel, dilation), strict=True):
            if max(pair) >= span:
                raise ShapeError(f"padding {list(pair)} holds a whole window, which spans {span}")
        batch, channels, *spatial = x.get_shape()
        places(padded(spatial, padding), kernel, stride, dilation)
        sides = overhang(spatial, kernel, stride, padding, dilation, ceil_mode)
        counts = places(padded(spatial, sides), kernel, stride, dilation)
        return tensor(element_of(x), [batch, channels, *counts])

    return infer


def _max_pool(
    b: Emitter,
    x: SSAValue,
    kernel: Ints,
    stride: Ints,
    padding: Pairs,
    dilation: Ints,
    ceil_mode: bool,
) -> SSAValue:
    sides = overhang(shape_of(x)[2:], kernel, stride, padding, dilation, ceil_mode)
    x = surrounded(b, x, sides, _least(x))
    axes = len(kernel)
    found = elements_first(b, b.windows(x, kernel, stride, dilation), axes)
    return b.max_reduce(found, axis=tuple(range(2, 2 + axes)))


def _least(x: SSAValue) -> float | int:
    """What is no larger than any element that x may have."""
    dtype = element_type_of(x).dtype
    assert dtype is not None
    number = neutral_maximum(np.dtype(dtype))
    return number if isinstance(number, float) else int(number)


@in_single_precision
def _avg_pool(
    b: Emitter,
    x: SSAValue,
    kernel: Ints,
    stride: Ints,
    padding: Pairs,
    dilation: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
) -> SSAValue:
    spatial = shape_of(x)[2:]
    sides = overhang(spatial, kernel, stride, padding, dilation, ceil_mode)
    axes = len(kernel)
    found = b.windows(surrounded(b, x, sides), kernel, stride, dilation)
    total = b.sum(elements_first(b, found, axes), axis=tuple(range(2, 2 + axes)))
    number, varying = 1, list[SSAValue]()
    for axis, size in enumerate(kernel):
        low, high = padding[axis] if count_include_pad else (0, 0)
        first = np.arange(shape_of(total)[2 + axis])[:, None] * stride[axis] - sides[axis][0]
        taken = first + np.arange(size)[None, :] * dilation[axis]
        counts = ((taken >= -low) & (taken < spatial[axis] + high)).sum(1)
        if (counts == size).all():
            number *= size
            continue
        line = counts.astype(element_type_of(x).dtype)
        shape = [-1 if n == axis else 1 for n in range(len(kernel))]
        varying.append(b.constant_array(np.ascontiguousarray(line.reshape(shape))))
    if not varying:
        return b.div(total, float(number))
    count = varying[0]
    for more in varying[1:]:
        count = b.mul(count, more)
    return b.div(total, b.mul(count, float(number)) if number != 1 else count)


_DETAILS = """

Shape: `[N, C, …]` with as many places as the windows have. The stride is the kernel's size where
none is given. padding: one number, one for each axis, `[[low, high], …]`, "same" or "valid"; a
window never lies in it as a whole. With ceil_mode a last window may reach beyond it, as long as it
begins before it. """

for _axes in AXIS_NAMES:
    _max_pool.__doc__ = (
        f"`y = max_pool{_axes}d(x, 3, stride = 2, padding = 1)`: the largest element of each window"
        f" of x {AXIS_NAMES[_axes]}; nan passes on." + _DETAILS + "Padding is never the largest."
    )
    composite(
        f"max_pool{_axes}d",
        (OperandSpec("x", NUMERIC), *WINDOW),
        _infer(_axes),
        canonical=_canonical,
    )(_max_pool)
    _avg_pool.__doc__ = (
        f"`y = avg_pool{_axes}d(x, 3, stride = 2, padding = 1)`: the mean of each window of "
        f"x {AXIS_NAMES[_axes]}." + _DETAILS + "Padding counts as zeros, or not at all with "
        "count_include_pad = false; what ceil_mode reaches beyond it never counts."
    )
    composite(
        f"avg_pool{_axes}d",
        (OperandSpec("x", FLOATS), *WINDOW, COUNTED),
        _infer(_axes),
        canonical=_canonical,
    )(_avg_pool)


def _infer_global(x: TensorType) -> TensorType:
    shape = x.get_shape()
    if len(shape) < 3:
        raise ShapeError(f"x must be [N, C, …], not {list(shape)}")
    return tensor(element_of(x), [*shape[:2], *(1 for _ in shape[2:])])


def _spatial_axes(x: SSAValue) -> tuple[int, ...]:
    return tuple(range(2, len(shape_of(x))))


@composite("global_avg_pool", (OperandSpec("x", FLOATS),), _infer_global)
def global_avg_pool(b: Emitter, x: SSAValue) -> SSAValue:
    """`y = global_avg_pool(x)`: the mean of each channel of x [N, C, …].

    Shape: `[N, C, 1, …]`.
    """
    return b.mean(x, axis=_spatial_axes(x), keepdims=True)


@composite("global_max_pool", (OperandSpec("x", NUMERIC),), _infer_global)
def global_max_pool(b: Emitter, x: SSAValue) -> SSAValue:
    """`y = global_max_pool(x)`: the largest element of each channel of x [N, C, …]; nan passes on.

    Shape: `[N, C, 1, …]`.
    """
    return b.max_reduce(x, axis=_spatial_axes(x), keepdims=True)


@dataclass(frozen=True)
class _Bins:
    """The elements of an axis that each of some windows has, and which of them are its own."""

    ids: np.ndarray
    inside: np.ndarray


def _bins(size: int, count: int) -> _Bins:
    starts = [i * size // count for i in range(count)]
    stops = [-(-(i + 1) * size // count) for i in range(count)]
    longest = max(stop - start for start, stop in zip(starts, stops, strict=True))
    ids = np.array(starts, np.int32)[:, None] + np.arange(longest, dtype=np.int32)
    return _Bins(np.minimum(ids, size - 1), ids < np.array(stops, np.int32)[:, None])


def _canonical_adaptive(x: TensorType, size: Ints) -> Mapping[str, Any]:
    return {"size": spread_over(size, 2, "size")}


def _infer_adaptive(x: TensorType, size: Ints) -> TensorType:
    shape = x.get_shape()
    if len(shape) != 4:
        raise ShapeError(f"x must be {AXIS_NAMES[2]}, not {list(shape)}")
    if 0 in shape[2:]:
        raise ShapeError("a window of an empty axis")
    return tensor(element_of(x), [*shape[:2], *size])


@composite(
    "adaptive_avg_pool2d",
    (OperandSpec("x", FLOATS), AttributeSpec("size", SHAPE)),
    _infer_adaptive,
    canonical=_canonical_adaptive,
)
@in_single_precision
def adaptive_avg_pool2d(b: Emitter, x: SSAValue, size: Ints) -> SSAValue:
    """`y = adaptive_avg_pool2d(x, [2, 2])`: x cut into so many windows, and the mean of each.

    Shape: `[N, C, *size]`. Window i of m along an axis of n goes from floor(i·n/m) to
    ceil((i+1)·n/m), as in PyTorch.
    """
    kernel = _even_kernel(x, size)
    if kernel is not None:
        return b.div(b.sum(_even_windows(b, x, kernel), axis=(2, 3)), float(prod(kernel)))
    rows, columns = (_bins(n, m) for n, m in zip(shape_of(x)[2:], size, strict=True))
    dtype = element_type_of(x).dtype
    number = np.multiply.outer(rows.inside.sum(1), columns.inside.sum(1)).astype(dtype)
    total = b.sum(_of_bins(b, x, rows, columns, 0.0), axis=(3, 5))
    return b.div(total, b.constant_array(number))


def _even_kernel(x: SSAValue, size: Ints) -> tuple[int, ...] | None:
    """The sizes of the windows, where all have as many elements and none shares one."""
    sizes = list(zip(shape_of(x)[2:], size, strict=True))
    return tuple(n // m for n, m in sizes) if all(n % m == 0 for n, m in sizes) else None


def _even_windows(b: Emitter, x: SSAValue, kernel: tuple[int, ...]) -> SSAValue:
    """The elements of windows that lie side by side, on the axes 2 and 3."""
    return elements_first(b, b.windows(x, kernel, kernel), 2)


def _of_bins(
    b: Emitter, x: SSAValue, rows: _Bins, columns: _Bins, outside: float | int
) -> SSAValue:
    """The elements of each window, and another number where other windows have more."""
    found = b.gather(x, b.constant_array(rows.ids), axis=2)
    found = b.gather(found, b.constant_array(columns.ids), axis=4)
    inside = b.logical_and(
        b.constant_array(rows.inside[:, :, None, None]), b.constant_array(columns.inside)
    )
    return b.where(inside, found, outside)


@composite(
    "adaptive_max_pool2d",
    (OperandSpec("x", NUMERIC), AttributeSpec("size", SHAPE)),
    _infer_adaptive,
    canonical=_canonical_adaptive,
)
def adaptive_max_pool2d(b: Emitter, x: SSAValue, size: Ints) -> SSAValue:
    """`y = adaptive_max_pool2d(x, [2, 2])`: x cut into so many windows, and the largest element of
    each; nan passes on.

    Shape: `[N, C, *size]`. The windows are those of `adaptive_avg_pool2d`.
    """
    kernel = _even_kernel(x, size)
    if kernel is not None:
        return b.max_reduce(_even_windows(b, x, kernel), axis=(2, 3))
    rows, columns = (_bins(n, m) for n, m in zip(shape_of(x)[2:], size, strict=True))
    return b.max_reduce(_of_bins(b, x, rows, columns, _least(x)), axis=(3, 5))
