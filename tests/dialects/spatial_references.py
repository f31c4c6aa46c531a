"""Convolutions, pooling and resizing by plain loops over their results, from the formulas that
PyTorch's and ONNX's documentation have.

In: arrays, floats as f64, and attributes as a call has them. Out: the value.
"""

from collections.abc import Callable, Sequence
from itertools import product
from math import ceil, floor
from typing import Any

import numpy as np

Array = np.ndarray


def each_axis(numbers: int | Sequence[int], axes: int) -> list[int]:
    return [numbers] * axes if isinstance(numbers, int) else list(numbers)


def pairs_of(padding: Any, sizes: Any, kernel: Any, stride: Any, dilation: Any) -> list[Any]:
    """A pair for each axis, from what a call says."""
    if padding == "valid":
        return [(0, 0)] * len(kernel)
    if padding == "same":
        result: list[Any] = []
        for n, k, s, d in zip(sizes, kernel, stride, dilation, strict=True):
            total = max((ceil(n / s) - 1) * s + d * (k - 1) + 1 - n, 0)
            result.append((total // 2, total - total // 2))
        return result
    listing = each_axis(padding, len(kernel))
    return [(one, one) if isinstance(one, int) else tuple(one) for one in listing]


def convolution(
    x: Array, w: Array, b: Array | None = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Array:  # fmt: skip
    kernel = w.shape[2:]
    axes = len(kernel)
    stride, dilation = each_axis(stride, axes), each_axis(dilation, axes)
    sides = pairs_of(padding, x.shape[2:], kernel, stride, dilation)
    x = np.pad(x, [(0, 0), (0, 0), *sides])
    counts = [
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(x.shape[2:], kernel, stride, dilation, strict=True)
    ]
    out, each = w.shape[:2]
    result = np.zeros((x.shape[0], out, *counts), x.dtype)
    for place in product(*map(range, counts)):
        for tap in product(*map(range, kernel)):
            at = [i * s + t * d for i, s, t, d in zip(place, stride, tap, dilation, strict=True)]
            for o in range(out):
                first = o // (out // groups) * each
                taken = x[(slice(None), slice(first, first + each), *at)]
                result[(slice(None), o, *place)] += taken @ w[(o, slice(None), *tap)]
    return result if b is None else result + b.reshape(-1, *(1,) * axes)


def transposed_convolution(
    x: Array, w: Array, b: Array | None = None, stride: Any = 1, padding: Any = 0,
    output_padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> Array:  # fmt: skip
    kernel = w.shape[2:]
    axes = len(kernel)
    stride, dilation, more = (each_axis(item, axes) for item in (stride, dilation, output_padding))
    whole = [
        (n - 1) * s + d * (k - 1) + 1 + extra
        for n, k, s, d, extra in zip(x.shape[2:], kernel, stride, dilation, more, strict=True)
    ]
    if padding == "same":
        missing = [m - n * s for m, n, s in zip(whole, x.shape[2:], stride, strict=True)]
        sides = [(count // 2, count - count // 2) for count in missing]
    else:
        sides = pairs_of(padding, x.shape[2:], kernel, stride, dilation)
    each, own = w.shape[1], x.shape[1] // groups
    result = np.zeros((x.shape[0], each * groups, *whole), x.dtype)
    for place in product(*map(range, x.shape[2:])):
        for tap in product(*map(range, kernel)):
            at = [i * s + t * d for i, s, t, d in zip(place, stride, tap, dilation, strict=True)]
            for g in range(groups):
                given = x[(slice(None), slice(g * own, g * own + own), *place)]
                weights = w[(slice(g * own, g * own + own), slice(None), *tap)]
                result[(slice(None), slice(g * each, g * each + each), *at)] += given @ weights
    crop = [slice(low, n - high) for (low, high), n in zip(sides, whole, strict=True)]
    result = result[(slice(None), slice(None), *crop)]
    return result if b is None else result + b.reshape(-1, *(1,) * axes)


def pool(largest: bool) -> Callable[..., Array]:
    """Maximum or average pooling."""

    def pooled(
        x: Array, kernel: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False, count_include_pad: bool = True,
    ) -> Array:  # fmt: skip
        axes = x.ndim - 2
        kernel, dilation = each_axis(kernel, axes), each_axis(dilation, axes)
        stride = kernel if stride is None else each_axis(stride, axes)
        spatial = x.shape[2:]
        sides = pairs_of(padding, spatial, kernel, stride, dilation)
        counts: list[int] = []
        for n, k, s, d, (low, high) in zip(spatial, kernel, stride, dilation, sides, strict=True):
            exact = (n + low + high - d * (k - 1) - 1) / s + 1
            count = ceil(exact) if ceil_mode else floor(exact)
            counts.append(count - int(ceil_mode and (count - 1) * s >= n + low))
        result = np.zeros((*x.shape[:2], *counts), x.dtype)
        for place in product(*map(range, counts)):
            found: list[Array] = []
            number = 0
            for tap in product(*map(range, kernel)):
                rows = zip(place, stride, tap, dilation, sides, strict=True)
                at = [i * s + t * d - low for i, s, t, d, (low, _) in rows]
                ends = list(zip(at, spatial, sides, strict=True))
                inside = all(0 <= a < n for a, n, _ in ends)
                counted = all(-low <= a < n + high for a, n, (low, high) in ends)
                number += inside or (count_include_pad and counted)
                if inside:
                    found.append(x[(slice(None), slice(None), *at)])
            values = np.stack(found)
            result[(slice(None), slice(None), *place)] = (
                values.max(0) if largest else values.sum(0) / number
            )
        return result

    return pooled


def adaptive(x: Array, size: Any, of_window: Callable[..., Array] = np.mean) -> Array:
    size = each_axis(size, 2)
    result = np.zeros((*x.shape[:2], *size), x.dtype)
    for place in product(*map(range, size)):
        rows = [
            slice(i * n // m, -(-(i + 1) * n // m))
            for i, n, m in zip(place, x.shape[2:], size, strict=True)
        ]
        window = x[:, :, rows[0], rows[1]]
        result[(slice(None), slice(None), *place)] = of_window(window, (2, 3))
    return result


def resized(
    x: Array, scale: Any = None, size: Any = None, mode: str = "nearest",
    align_corners: bool = False,
) -> Array:  # fmt: skip
    axes = x.ndim - 2
    if size is None:
        size = [n * by for n, by in zip(x.shape[2:], each_axis(scale, axes), strict=True)]
    size = each_axis(size, axes)
    for axis, m in enumerate(size, 2):
        n = x.shape[axis]
        places = np.arange(m)
        if mode == "nearest":
            x = np.take(x, [i * n // m for i in range(m)], axis=axis)
            continue
        if align_corners:
            exact = places * (n - 1) / (m - 1) if m > 1 else places * 0.0
        else:
            exact = np.maximum((places + 0.5) * n / m - 0.5, 0.0)
        low = np.minimum(np.floor(exact).astype(int), n - 1)
        share = (exact - low).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
        high = np.minimum(low + 1, n - 1)
        x = np.take(x, low, axis=axis) * (1 - share) + np.take(x, high, axis=axis) * share
    return x


def shuffled_pixels(x: Array, factor: int) -> Array:
    channels, height, width = x.shape[-3:]
    r = factor
    result = np.zeros((*x.shape[:-3], channels // r**2, height * r, width * r), x.dtype)
    for c, i, j in product(*map(range, result.shape[-3:])):
        from_channel = c * r * r + i % r * r + j % r
        result[..., c, i, j] = x[..., from_channel, i // r, j // r]
    return result


def unshuffled_pixels(x: Array, factor: int) -> Array:
    channels, height, width = x.shape[-3:]
    r = factor
    result = np.zeros((*x.shape[:-3], channels * r**2, height // r, width // r), x.dtype)
    for c, i, j in product(*map(range, result.shape[-3:])):
        result[..., c, i, j] = x[..., c // r**2, i * r + c // r % r, j * r + c % r]
    return result


def windows_of(x: Array, sizes: Any, strides: Any = 1, dilation: Any = 1) -> Array:
    sizes = [sizes] if isinstance(sizes, int) else list(sizes)
    axes = len(sizes)
    strides, dilation = each_axis(strides, axes), each_axis(dilation, axes)
    outer = x.ndim - axes
    counts = [
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(x.shape[outer:], sizes, strides, dilation, strict=True)
    ]
    result = np.zeros((*x.shape[:outer], *counts, *sizes), x.dtype)
    for place in product(*map(range, counts)):
        for tap in product(*map(range, sizes)):
            at = [i * s + t * d for i, s, t, d in zip(place, strides, tap, dilation, strict=True)]
            result[(..., *place, *tap)] = x[(..., *at)]
    return result
