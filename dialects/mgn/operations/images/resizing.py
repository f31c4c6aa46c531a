"""Resizing images: their last two axes, or all after the channels, made larger or smaller."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mgn.dialects.mgn.attributes import BOOL, INT, SHAPE, STRING
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import composite, element_type_of, in_single_precision, shape_of
from mgn.dialects.mgn.operation import AttributeSpec, OperandSpec
from mgn.dialects.shapes import ShapeError
from mgn.dialects.spatial import Ints, spread_over
from mgn.dialects.types import element_of, tensor

X = OperandSpec("x")


def _canonical_upsample(
    x: TensorType, scale: Ints | None, size: Ints | None, mode: str, align_corners: bool
) -> Mapping[str, Any]:
    spatial = x.get_shape()[2:]
    if not spatial:
        return {}
    if (scale is None) == (size is None):
        raise ShapeError("give either a scale or a size")
    if size is not None:
        return {"size": spread_over(size, len(spatial), "size")}
    assert scale is not None
    factors = spread_over(scale, len(spatial), "scale")
    return {"scale": None, "size": tuple(n * by for n, by in zip(spatial, factors, strict=True))}


def _infer_upsample(
    x: TensorType, scale: None, size: Ints, mode: str, align_corners: bool
) -> TensorType:
    shape = x.get_shape()
    if len(shape) < 3:
        raise ShapeError(f"x must be [N, C, …], not {list(shape)}")
    if mode not in ("nearest", "bilinear"):
        raise ShapeError(f'mode must be "nearest" or "bilinear", not "{mode}"')
    if mode == "bilinear" and len(shape) != 4:
        raise ShapeError(f'mode "bilinear" needs x [N, C, H, W], not {list(shape)}')
    if mode == "bilinear" and not element_of(x).is_float:
        raise ShapeError(f'mode "bilinear" is for floats, not {element_of(x).name}')
    if mode == "nearest" and align_corners:
        raise ShapeError('align_corners is for mode "bilinear"')
    if 0 in shape[2:] and 0 not in size:
        raise ShapeError(f"an empty axis of {list(shape)} has no elements to repeat")
    return tensor(element_of(x), [*shape[:2], *size])


@composite(
    "upsample",
    (
        X,
        AttributeSpec("scale", SHAPE, None),
        AttributeSpec("size", SHAPE, None),
        AttributeSpec("mode", STRING, "nearest"),
        AttributeSpec("align_corners", BOOL, False),
    ),
    _infer_upsample,
    canonical=_canonical_upsample,
)
def upsample(
    b: Emitter, x: SSAValue, scale: None, size: Ints, mode: str, align_corners: bool
) -> SSAValue:
    """`y = upsample(x, 2, mode = "bilinear")`: x [N, C, …] at another size.

    Shape: `[N, C, …]` with `size`, or the axes of x times `scale`. The mode nearest takes element
    floor(i·n/m) of n for element i of m. Bilinear lies between the two nearest rows and columns at
    (i + 1/2)·n/m - 1/2, not below 0; with align_corners at i·(n - 1)/(m - 1). As in PyTorch.
    Errors: bilinear on other than [N, C, H, W] and floats, a size beside a scale.
    """
    if 0 in size or 0 in shape_of(x):
        return b.full((*shape_of(x)[:2], *size), 0.0, T=element_type_of(x))
    if mode == "bilinear":
        return _bilinear(b, x, size=size, align_corners=align_corners)
    result = x
    for axis, (n, m) in enumerate(zip(shape_of(x)[2:], size, strict=True), 2):
        result = _nearest(b, result, axis, n, m)
    return b.identity(x) if result is x else result


def _nearest(b: Emitter, x: SSAValue, axis: int, n: int, m: int) -> SSAValue:
    """An axis of n elements at m places."""
    if n == m:
        return x
    if m % n == 0:
        return b.repeat(x, m // n, axis=axis)
    if n % m == 0:
        shape = shape_of(x)
        steps = [n // m if i == axis else 1 for i in range(len(shape))]
        return b.slice(x, (0,) * len(shape), shape, steps)
    ids = np.arange(m, dtype=np.int64) * n // m
    return b.gather(x, b.constant_array(ids.astype(np.int32)), axis=axis)


@in_single_precision
def _bilinear(b: Emitter, x: SSAValue, size: Ints, align_corners: bool) -> SSAValue:
    result = x
    for axis, (n, m) in enumerate(zip(shape_of(x)[2:], size, strict=True), 2):
        result = _between(b, result, axis, n, m, align_corners)
    return b.identity(x) if result is x else result


def _between(b: Emitter, x: SSAValue, axis: int, n: int, m: int, align: bool) -> SSAValue:
    """An axis of n elements at m places, between the two nearest elements of each."""
    if n == m:
        return x
    number = np.arange(m, dtype=np.int64)
    if align:
        whole, parts = number * (n - 1), max(m - 1, 1)
    else:
        whole, parts = np.maximum((2 * number + 1) * n - m, 0), 2 * m
    low = whole // parts
    share = ((whole - low * parts) / parts).astype(element_type_of(x).dtype)
    high = np.minimum(low + 1, n - 1)
    line = [-1 if i == axis else 1 for i in range(len(shape_of(x)))]
    sides: Sequence[tuple[np.ndarray, np.ndarray]] = ((low, 1 - share), (high, share))
    first, second = (
        b.mul(
            b.gather(x, b.constant_array(ids.astype(np.int32)), axis=axis),
            b.constant_array(weight.reshape(line)),
        )
        for ids, weight in sides
    )
    return b.add(first, second)


FACTOR = (X, AttributeSpec("factor", INT))


def _blocks(x: TensorType, factor: int) -> tuple[list[int], int, int, int]:
    shape = list(x.get_shape())
    if len(shape) < 3:
        raise ShapeError(f"x must be […, C, H, W], not {shape}")
    if factor < 1:
        raise ShapeError(f"factor must be 1 or more, not {factor}")
    *outer, channels, height, width = shape
    return outer, channels, height, width


def _infer_pixel_shuffle(x: TensorType, factor: int) -> TensorType:
    outer, channels, height, width = _blocks(x, factor)
    if channels % factor**2:
        raise ShapeError(f"{channels} channels are not a multiple of {factor} · {factor}")
    size = (channels // factor**2, height * factor, width * factor)
    return tensor(element_of(x), [*outer, *size])


@composite("pixel_shuffle", FACTOR, _infer_pixel_shuffle)
def pixel_shuffle(b: Emitter, x: SSAValue, factor: int) -> SSAValue:
    """`y = pixel_shuffle(x, 2)`: blocks of factor·factor channels as squares of pixels.

    Shape: `[…, C·r·r, H, W]` gives `[…, C, H·r, W·r]`, as in PyTorch. Error: channels that are no
    multiple of the square.
    """
    *outer, channels, height, width = shape_of(x)
    rank, whole = len(outer), channels // factor**2
    split = b.reshape(x, (*outer, whole, factor, factor, height, width))
    order = (rank, rank + 3, rank + 1, rank + 4, rank + 2)
    moved = b.transpose(split, (*range(rank), *order))
    return b.reshape(moved, (*outer, whole, height * factor, width * factor))


def _infer_pixel_unshuffle(x: TensorType, factor: int) -> TensorType:
    outer, channels, height, width = _blocks(x, factor)
    if height % factor or width % factor:
        raise ShapeError(f"{height} by {width} is not cut into squares of {factor}")
    return tensor(element_of(x), [*outer, channels * factor**2, height // factor, width // factor])


@composite("pixel_unshuffle", FACTOR, _infer_pixel_unshuffle)
def pixel_unshuffle(b: Emitter, x: SSAValue, factor: int) -> SSAValue:
    """`y = pixel_unshuffle(x, 2)`: squares of factor·factor pixels as channels of their own.

    Shape: `[…, C, H·r, W·r]` gives `[…, C·r·r, H, W]`, as in PyTorch. Error: axes that are no
    multiple of the factor.
    """
    *outer, channels, height, width = shape_of(x)
    rank, high, wide = len(outer), height // factor, width // factor
    split = b.reshape(x, (*outer, channels, high, factor, wide, factor))
    order = (rank, rank + 2, rank + 4, rank + 1, rank + 3)
    moved = b.transpose(split, (*range(rank), *order))
    return b.reshape(moved, (*outer, channels * factor**2, high, wide))
