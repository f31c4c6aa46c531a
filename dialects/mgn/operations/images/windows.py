"""Core windows: each place of a window that slides along the last axes, as axes of its own.

A pure index map, as `slice` is: convolutions and pooling read their operand through it, and no
element is copied where a kernel does the reading.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType

from mgn.dialects.mgn.attributes import SHAPE
from mgn.dialects.mgn.operation import AttributeSpec, Kind, OperandSpec, OperationSpec, define
from mgn.dialects.shapes import ShapeError
from mgn.dialects.spatial import Ints, places, spread_over
from mgn.dialects.types import element_of, tensor


def _canonical_windows(
    x: TensorType, sizes: Ints, strides: Ints, dilation: Ints
) -> Mapping[str, Any]:
    rank = len(x.get_shape())
    if len(sizes) > rank:
        raise ShapeError(f"windows of {len(sizes)} axes need as many axes, not {rank}")
    count = len(sizes)
    return {
        "strides": spread_over(strides, count, "strides"),
        "dilation": spread_over(dilation, count, "dilation"),
    }


def _infer_windows(x: TensorType, sizes: Ints, strides: Ints, dilation: Ints) -> TensorType:
    shape = x.get_shape()
    outer = len(shape) - len(sizes)
    counts = places(shape[outer:], sizes, strides, dilation)
    return tensor(element_of(x), [*shape[:outer], *counts, *sizes])


def _windows(x: np.ndarray, sizes: Ints, strides: Ints, dilation: Ints) -> np.ndarray:
    outer = x.ndim - len(sizes)
    counts = places(x.shape[outer:], sizes, strides, dilation)
    result = x
    for axis, (count, size, stride, apart) in enumerate(
        zip(counts, sizes, strides, dilation, strict=True)
    ):
        index = np.arange(count)[:, None] * stride + np.arange(size)[None, :] * apart
        result = np.take(result, index, axis=outer + 2 * axis)
    pairs = [outer + 2 * axis for axis in range(len(sizes))]
    return np.transpose(result, (*range(outer), *pairs, *(axis + 1 for axis in pairs)))


WINDOWS = define(
    OperationSpec(
        "windows",
        Kind.MOVEMENT,
        "`y = windows(x, [3, 3], strides = 2, dilation = 1)`: windows that slide along the last "
        "axes: their places, then their elements.",
        (
            OperandSpec("x"),
            AttributeSpec("sizes", SHAPE),
            AttributeSpec("strides", SHAPE, 1),
            AttributeSpec("dilation", SHAPE, 1),
        ),
        _infer_windows,
        evaluate=_windows,
        canonical=_canonical_windows,
    )
)
