"""How sums of products of broadcast values are matrix products, for the row that says so.

In: two values that are multiplied, by their shapes, and the axes along which the products are
added up. Out: attribute values of the right side; ShapeError where it is no matrix product.

An axis that both have is *shared* where it is added up, and else one of the *batches*. One that the
first alone has is one of its *rows*; one that the second alone has is one of its *columns*.

    a          [batches, rows, 1, shared]
    b          [batches, 1, columns, shared]
    their sum  [batches, rows, columns]
"""

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mgn.dialects.shapes import Shape, ShapeError
from mgn.passes.saturate.rules.layouts import shape_of


@dataclass(frozen=True)
class Contraction:
    """Axes by what they are, each in order, and the shape of all products."""

    batches: Shape
    rows: Shape
    columns: Shape
    shared: Shape
    shape: Shape

    @property
    def ones(self) -> Shape:
        """The axes of size 1."""
        known = {*self.batches, *self.rows, *self.columns, *self.shared}
        return tuple(axis for axis in range(len(self.shape)) if axis not in known)

    def size(self, axes: Iterable[int]) -> int:
        return math.prod(self.shape[axis] for axis in axes)


def contraction_of(a: Any, b: Any, axes: Collection[int]) -> Contraction:
    """The axes of a sum of products. ShapeError where the sum is over an axis that only one value
    has, where the first has no rows or the second no columns, and where both share no axis. So it
    is where a column comes before all rows: the second value is then the left one.
    """
    shape = np.broadcast_shapes(shape_of(a), shape_of(b))
    left, right = (padded(x, len(shape)) for x in (a, b))
    found: dict[str, list[int]] = {"batches": [], "rows": [], "columns": [], "shared": []}
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        both = left[axis] == right[axis]
        if axis in axes and not both:
            raise ShapeError("one factor is broadcast along an axis that is added up")
        kind = "rows" if left[axis] != 1 else "columns"
        found["shared" if axis in axes else "batches" if both else kind].append(axis)
    if not all((found["rows"], found["columns"], found["shared"])) or 0 in shape:
        raise ShapeError("no matrices are multiplied")
    if found["rows"][0] > found["columns"][0]:
        raise ShapeError("the second factor is the left one")
    batches, rows, columns, shared = map(tuple, found.values())
    return Contraction(batches, rows, columns, shared, shape)


def contracts(a: Any, b: Any, axes: Collection[int]) -> bool:
    """Whether the sum of the products of two values is a product of matrices, the first the left
    one.
    """
    try:
        contraction_of(a, b, axes)
    except (ShapeError, ValueError):
        return False
    return True


def padded(x: Any, rank: int) -> Shape:
    """The shape of a value with axes of size 1 before it."""
    shape = shape_of(x)
    return (*(1,) * (rank - len(shape)), *shape)


def beside(x: Any, other: Any) -> Shape:
    """The shape of a value with as many axes as another one has."""
    return padded(x, max(len(shape_of(x)), len(shape_of(other))))


def left_turned(a: Any, b: Any, axes: Collection[int]) -> bool:
    """Whether the rows of the left matrix run along its last axis, as they lie in memory."""
    found = contraction_of(a, b, axes)
    return found.rows[-1] > max((*found.shared, *found.batches))


def right_turned(a: Any, b: Any, axes: Collection[int]) -> bool:
    """Whether the shared axis is the last one of the right matrix, as it lies in memory."""
    found = contraction_of(a, b, axes)
    return found.shared[-1] > found.columns[-1]


def _left(a: Any, b: Any, axes: Collection[int]) -> tuple[Contraction, Shape, Shape]:
    found = contraction_of(a, b, axes)
    if left_turned(a, b, axes):
        return found, found.shared, found.rows
    return found, found.rows, found.shared


def _right(a: Any, b: Any, axes: Collection[int]) -> tuple[Contraction, Shape, Shape]:
    found = contraction_of(a, b, axes)
    if right_turned(a, b, axes):
        return found, found.columns, found.shared
    return found, found.shared, found.columns


def left_order(a: Any, b: Any, axes: Collection[int]) -> Shape:
    """The permutation that makes the left value matrices: batches, rows and shared axes."""
    found, first, last = _left(a, b, axes)
    return (*found.ones, *found.columns, *found.batches, *first, *last)


def right_order(a: Any, b: Any, axes: Collection[int]) -> Shape:
    """The permutation that makes the right value matrices: batches, shared axes and columns."""
    found, first, last = _right(a, b, axes)
    return (*found.ones, *found.rows, *found.batches, *first, *last)


def left_matrices(a: Any, b: Any, axes: Collection[int]) -> Shape:
    """The shape of the left matrices, one for each batch."""
    found, first, last = _left(a, b, axes)
    return (*_batches(found), found.size(first), found.size(last))


def right_matrices(a: Any, b: Any, axes: Collection[int]) -> Shape:
    """The shape of the right matrices, one for each batch."""
    found, first, last = _right(a, b, axes)
    return (*_batches(found), found.size(first), found.size(last))


def _batches(found: Contraction) -> Shape:
    return tuple(found.shape[axis] for axis in found.batches)


def contracted(a: Any, b: Any, axes: Collection[int]) -> Shape:
    """The shape of the matrices' product with all axes of rows and columns apart."""
    found = contraction_of(a, b, axes)
    return tuple(found.shape[axis] for axis in (*found.batches, *found.rows, *found.columns))


def in_place(a: Any, b: Any, axes: Collection[int]) -> Shape:
    """The permutation that puts these axes in the order in which the sum has them."""
    found = contraction_of(a, b, axes)
    order = (*found.batches, *found.rows, *found.columns)
    return tuple(order.index(axis) for axis in sorted(order))
