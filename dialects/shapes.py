"""Shape arithmetic shared by all operations: broadcasting, axes, reductions of a shape.

In: static shapes. Out: shapes, or a `ShapeError` that says what does not fit.
"""

import math
from collections.abc import Sequence

from mgn.diagnostics import MgnError

Shape = tuple[int, ...]


class ShapeError(MgnError, ValueError):
    """Operand types or attributes that an operation does not accept."""


def broadcast_shapes(*shapes: Sequence[int]) -> Shape:
    """NumPy's broadcasting rule: trailing axes aligned, each pair equal or one of them 1."""
    rank = max((len(shape) for shape in shapes), default=0)
    result: list[int] = []
    for axis in range(-rank, 0):
        sizes = {shape[axis] for shape in shapes if len(shape) >= -axis}
        wide = sizes - {1}
        if len(wide) > 1:
            listing = " and ".join(str(list(shape)) for shape in shapes)
            raise ShapeError(f"shapes {listing} do not broadcast: axis {axis} differs")
        result.append(wide.pop() if wide else 1)
    return tuple(result)


def normalise_axis(axis: int, rank: int) -> int:
    """An axis counted from the front; negative axes count from the back."""
    if not -rank <= axis < rank:
        raise ShapeError(f"axis {axis} is out of range for rank {rank}")
    return axis % rank


def normalise_axes(axes: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Sorted distinct axes counted from the front; None stands for all of them."""
    if axes is None:
        return tuple(range(rank))
    listing = (axes,) if isinstance(axes, int) else tuple(axes)
    result = sorted(normalise_axis(axis, rank) for axis in listing)
    if len(set(result)) != len(result):
        raise ShapeError(f"axes {list(listing)} name an axis twice")
    return tuple(result)


def reduce_shape(shape: Sequence[int], axes: Sequence[int], keepdims: bool) -> Shape:
    """The shape after reducing `axes` (normalised), which stay as 1 with `keepdims`."""
    if keepdims:
        return tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def element_count(shape: Sequence[int]) -> int:
    """Number of elements; 1 for a scalar."""
    return math.prod(shape)


def row_major_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides, in elements, of a contiguous row-major tensor."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))
