"""`x[i, a:b, :]` with NumPy's rules, as slices, flips and reshapes.

In: a value and Python's own index items (int, slice, None, Ellipsis). Out: the indexed value, or
ShapeError.
"""

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.shapes import ShapeError


def index_value(emitter: Emitter, value: SSAValue, items: Sequence[Any]) -> SSAValue:
    """The elements that NumPy's `value[items]` would give."""
    shape = list(cast(TensorType, value.type).get_shape())
    expanded = _expand(items, len(shape))
    starts: list[int] = []
    stops: list[int] = []
    steps: list[int] = []
    flipped: list[int] = []
    result: list[int] = []
    for item in expanded:
        if item is None:
            result.append(1)
            continue
        axis = len(starts)
        size = shape[axis]
        bound, backwards = _bounds(item, size, axis)
        starts.append(bound.start)
        stops.append(bound.stop)
        steps.append(bound.step)
        if backwards:
            flipped.append(axis)
        if not isinstance(item, int):
            result.append(len(bound))
    if flipped:
        value = emitter.call("flip", value, axis=flipped)
    if starts != [0] * len(shape) or stops != shape or steps != [1] * len(shape):
        value = emitter.call("slice", value, starts=starts, stops=stops, steps=steps)
    if result != list(cast(TensorType, value.type).get_shape()):
        value = emitter.call("reshape", value, shape=result)
    return value


def _expand(items: Sequence[Any], rank: int) -> list[Any]:
    """The items with the ellipsis, given or implied, replaced by full slices."""
    given = sum(1 for item in items if item is not None and item is not Ellipsis)
    if given > rank:
        raise ShapeError(f"{given} indices for {rank} axes")
    ellipses = sum(1 for item in items if item is Ellipsis)
    if ellipses > 1:
        raise ShapeError("an index may hold one '...'")
    everything = [slice(None)] * (rank - given)
    if not ellipses:
        return [*items, *everything]
    position = next(i for i, item in enumerate(items) if item is Ellipsis)
    return [*items[:position], *everything, *items[position + 1 :]]


def _bounds(item: int | slice, size: int, axis: int) -> tuple[range, bool]:
    """Start, stop and positive step along an axis, and whether the axis is flipped first."""
    if isinstance(item, int):
        if not -size <= item < size:
            raise ShapeError(f"index {item} is out of range for axis {axis} of size {size}")
        return range(item % size, item % size + 1), False
    if item.step == 0:
        raise ShapeError("a slice's step must not be 0")
    start, stop, step = item.indices(size)
    if step > 0:
        return range(start, max(start, stop), step), False
    start, stop = size - 1 - start, size - 1 - stop
    return range(start, max(start, stop), -step), True


def transpose_last(emitter: Emitter, value: SSAValue) -> SSAValue:
    """`x.T`: the last two axes swapped."""
    rank = len(cast(TensorType, value.type).get_shape())
    if rank < 2:
        raise ShapeError(f"x.T swaps the last two axes; x has {rank}")
    return emitter.call("transpose", value, perm=[*range(rank - 2), rank - 1, rank - 2])
