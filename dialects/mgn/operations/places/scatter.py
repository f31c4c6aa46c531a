"""Scatters: results whose elements are written at indices that are values themselves.

`scatter_along` is the core, in which ids and what is scattered have the axes of the result. The
others are composites of it. An index outside the axis is clamped into it, as in `gather`, so that a
scatter is the gradient of the gather with the same ids.

What meets at one element is combined in the order of the ids. So the same bits come on every run.
"""

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mgn.dialects.mgn.attributes import BOOL, INT, STRING
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import composite, shape_of
from mgn.dialects.mgn.operation import (
    INTEGERS,
    NUMERIC,
    AttributeSpec,
    Kind,
    OperandSpec,
    OperationSpec,
    define,
)
from mgn.dialects.mgn.operations.elements.elementwise import HALVES
from mgn.dialects.mgn.operations.rows.reductions import canonical_axis, sums_in
from mgn.dialects.shapes import Shape, ShapeError
from mgn.dialects.types import counting_type

Array = np.ndarray

ADD, LARGEST = "add", "max"
COMBINES = (ADD, LARGEST)
"""How `scatter_along` combines what meets at one element: the sum, or the largest; NaN is that."""

IDS = OperandSpec("ids", INTEGERS, group="ids")


def check_combine(combine: str) -> None:
    """Raises ShapeError where nothing is combined so."""
    if combine not in COMBINES:
        raise ShapeError(f"combine must be 'add' or 'max', not '{combine}'")


def combined_in(dtype: np.dtype, terms: int) -> np.dtype:
    """The type in which so many terms are combined."""
    return np.dtype(np.float32) if dtype in HALVES else sums_in(dtype, terms)


def infer_along(
    x: TensorType, ids: TensorType, src: TensorType, axis: int, combine: str, sorted: bool
) -> TensorType:
    """The type of what is scattered along an axis. Raises ShapeError."""
    shape, index, given = x.get_shape(), ids.get_shape(), src.get_shape()
    check_combine(combine)
    if len({len(shape), len(index), len(given)}) > 1:
        raise ShapeError(f"x {list(shape)}, ids {list(index)} and src {list(given)} differ in rank")
    for i, (size, number, own) in enumerate(zip(shape, index, given, strict=True)):
        if (number != own) if i == axis else (own != size or number not in (1, own)):
            raise ShapeError(f"ids {list(index)} and src {list(given)} do not fit {list(shape)}")
    if shape[axis] == 0 and index[axis]:
        raise ShapeError("scatter into an empty axis")
    return x


def combined_along(x: Array, ids: Array, src: Array, axis: int, combine: str) -> Array:
    """x with what is scattered to it, in the order of the ids."""
    dtype = combined_in(x.dtype, src.shape[axis])
    result = np.array(x, dtype)
    index: list[Array] = list(np.indices(src.shape, sparse=True))
    inside = np.clip(ids.astype(np.int64), 0, max(x.shape[axis] - 1, 0))
    index[axis] = np.broadcast_to(inside, src.shape)
    join = np.add if combine == ADD else np.maximum
    join.at(result, tuple(index), src.astype(dtype))
    return result.astype(x.dtype)


def _along(x: Array, ids: Array, src: Array, axis: int, combine: str, sorted: bool) -> Array:
    return combined_along(x, ids, src, axis, combine)


SCATTER_ALONG = define(
    OperationSpec(
        "scatter_along",
        Kind.SCATTER,
        "`y = scatter_along(x, ids, src, axis = 0)`: x with each element of src added at its id "
        "along an axis; ids of size 1 on other axes hold for all of src. With "
        '`combine = "max"`, the largest stays. `sorted = true` says that ids rise along the axis; '
        "where they do not, the result is not defined.",
        (
            OperandSpec("x", NUMERIC),
            IDS,
            OperandSpec("src", NUMERIC),
            AttributeSpec("axis", INT, 0),
            AttributeSpec("combine", STRING, ADD),
            AttributeSpec("sorted", BOOL, False),
        ),
        infer_along,
        evaluate=_along,
        canonical=lambda x, ids, src, axis, **_: canonical_axis(x, axis=axis),
    )
)


def _are_slices(shape: Shape, ids: Shape, src: Shape, axis: int) -> bool:
    """Whether src has a slice of x for each id, as a gather of x with these ids gives."""
    return src == (*shape[:axis], *ids, *shape[axis + 1 :])


def _infer_scatter(x: TensorType, ids: TensorType, src: TensorType, axis: int) -> TensorType:
    shape, index, given = x.get_shape(), ids.get_shape(), src.get_shape()
    if not _are_slices(shape, index, given, axis):
        fits = index == given and len(index) == len(shape)
        others = [(n, m) for i, (n, m) in enumerate(zip(shape, given, strict=False)) if i != axis]
        if not fits or any(m > n for n, m in others):
            slices = [*shape[:axis], *index, *shape[axis + 1 :]]
            raise ShapeError(
                f"src must be {slices}, a slice of x for each id, or have the shape of ids and fit "
                f"{list(shape)} but for the axis; it is {list(given)}"
            )
    if shape[axis] == 0 and 0 not in index:
        raise ShapeError("scatter into an empty axis")
    return x


def _on_axes_of(
    b: Emitter, x: SSAValue, ids: SSAValue, src: SSAValue, axis: int
) -> tuple[SSAValue, SSAValue]:
    """Ids and src with the axes of x, as `scatter_along` takes them."""
    shape, index = shape_of(x), shape_of(ids)
    if not _are_slices(shape, index, shape_of(src), axis):
        return ids, src
    count = prod(index)
    line = [count if i == axis else 1 for i in range(len(shape))]
    return b.reshape(ids, line), b.reshape(src, (*shape[:axis], count, *shape[axis + 1 :]))


def _reached(b: Emitter, x: SSAValue, src: SSAValue, axis: int) -> SSAValue:
    """The part of x that src reaches: all along the axis, as far as src goes along others."""
    stops = [
        n if i == axis else m
        for i, (n, m) in enumerate(zip(shape_of(x), shape_of(src), strict=True))
    ]
    return b.slice(x, [0] * len(stops), stops)


def _put_back(b: Emitter, x: SSAValue, part: SSAValue) -> SSAValue:
    """x with a part in the place of its first elements."""
    if shape_of(part) == shape_of(x):
        return part
    return b.dynamic_update_slice(x, part, [0] * len(shape_of(x)))


SIGNATURE = (IDS, OperandSpec("src"), AttributeSpec("axis", INT, 0))
ADDED = (OperandSpec("x", NUMERIC), IDS, OperandSpec("src", NUMERIC), AttributeSpec("axis", INT, 0))


@composite("scatter_add", ADDED, _infer_scatter, canonical=canonical_axis)
def scatter_add(b: Emitter, x: SSAValue, ids: SSAValue, src: SSAValue, axis: int) -> SSAValue:
    """`y = scatter_add(x, ids, src, axis = 0)`: x with each slice of src added at its id.

    Shape: that of x. Either src has a slice of x for each id, as `gather(x, ids, axis)` gives. Or
    src and ids have one shape, of x's rank: each element of src is added at its own id along the
    axis. Ids are clamped to the axis. Additions are in the order of ids, in f32 or wider, so that
    the same bits come on every run. Errors: other shapes, ids into an empty axis.
    """
    if 0 in (*shape_of(src), *shape_of(x)):
        return b.identity(x)
    ids, src = _on_axes_of(b, x, ids, src, axis)
    part = b.scatter_along(_reached(b, x, src, axis), ids, src, axis=axis)
    return _put_back(b, x, part)


@composite("scatter", (OperandSpec("x"), *SIGNATURE), _infer_scatter, canonical=canonical_axis)
def scatter(b: Emitter, x: SSAValue, ids: SSAValue, src: SSAValue, axis: int) -> SSAValue:
    """`y = scatter(x, ids, src, axis = 0)`: x with each slice of src where its id says.

    Shape: that of x. Shapes of ids and src are those of `scatter_add`. Ids are clamped to the axis.
    Of several that name one place, the last in the order of ids stays. Errors: other shapes, ids
    into an empty axis.
    """
    if 0 in (*shape_of(src), *shape_of(x)):
        return b.identity(x)
    ids, src = _on_axes_of(b, x, ids, src, axis)
    part = _reached(b, x, src, axis)
    index = shape_of(ids)
    last = _last_writers(b, ids, [*index[:axis], shape_of(x)[axis], *index[axis + 1 :]], axis)
    if all(size == 1 for i, size in enumerate(index) if i != axis):
        taken = b.gather(src, b.reshape(last, (shape_of(x)[axis],)), axis=axis)
    else:
        taken = b.take_along_axis(src, last, axis=axis)
    return _put_back(b, x, b.where(b.ge(last, 0), taken, part))


def _last_writers(b: Emitter, ids: SSAValue, shape: Sequence[int], axis: int) -> SSAValue:
    """For each place along the axis, the number of the last id that names it, -1 for none."""
    index = shape_of(ids)
    number = counting_type(index[axis])
    nobody = b.full(shape, -1, T=number)
    order = b.broadcast_to(_line(b, index, axis, number), index)
    return b.scatter_along(nobody, ids, order, axis=axis, combine=LARGEST)


def _line(b: Emitter, shape: Shape, axis: int, number: str) -> SSAValue:
    """The numbers along an axis, with size 1 on the others."""
    return b.iota([size if i == axis else 1 for i, size in enumerate(shape)], axis=axis, T=number)
