"""Operators that read and write at indices that are values.

In: values and indices, which may count from the end where PyTorch allows that. Out: gathers and
scatters. Indices outside an axis are an error in PyTorch; here they are held inside it.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import element_type_of, shape_of
from mgn.dialects.mgn.operations.places.scatter import LARGEST
from mgn.dialects.types import ELEMENT_TYPES, Family
from mgn.frontend.torch.elementwise import as_value
from mgn.frontend.torch.table import (
    Call,
    Operand,
    Unsupported,
    as_element,
    aten,
    axis_of,
    broadcasted,
    reshaped,
    transposed,
)

Indices = Sequence[SSAValue | None]


@aten("embedding")
def embedding(
    b: Emitter, call: Call, weight: SSAValue, indices: SSAValue, *rest: Any, **named: Any
) -> SSAValue:
    """The rows of a table."""
    return b.embedding(indices, weight)


@aten("embedding_dense_backward")
def embedding_backward(
    b: Emitter,
    call: Call,
    grad: SSAValue,
    indices: SSAValue,
    num_weights: int,
    padding_idx: int,
    scale_grad_by_freq: bool,
) -> SSAValue:
    """Each row's gradient, added at its index; that of the padding is 0."""
    if scale_grad_by_freq:
        raise Unsupported("gradients scaled by frequency")
    width = shape_of(grad)[-1]
    flat, ids = b.reshape(grad, (-1, width)), b.reshape(indices, (-1,))
    if padding_idx >= 0:
        flat = b.where(b.reshape(b.eq(ids, padding_idx), (-1, 1)), 0.0, flat)
    zeros = b.full((num_weights, width), 0.0, T=element_type_of(grad))
    return b.scatter_add(zeros, ids, flat, axis=0)


@aten("index_select")
def index_select(b: Emitter, call: Call, x: SSAValue, dim: int, index: SSAValue) -> SSAValue:
    """The slices at indices of an axis."""
    axis = axis_of(dim, len(shape_of(x)))
    return b.gather(x, b.reshape(index, (-1,)), axis=axis)


def _scalars_as_lines(b: Emitter, *values: SSAValue) -> list[SSAValue]:
    return [b.reshape(item, (1,)) if not shape_of(item) else item for item in values]


@aten("gather")
def gather(
    b: Emitter, call: Call, x: SSAValue, dim: int, index: SSAValue, sparse_grad: bool = False
) -> SSAValue:
    """Each element at its own index along an axis."""
    x, index = _scalars_as_lines(b, x, index)
    axis, shape = axis_of(dim, len(shape_of(x))), shape_of(index)
    stops = [n if i == axis else m for i, (n, m) in enumerate(zip(shape_of(x), shape, strict=True))]
    part = x if tuple(stops) == shape_of(x) else b.slice(x, [0] * len(stops), stops)
    return reshaped(b, b.take_along_axis(part, index, axis=axis), call.shape)


@aten("take_along_dim")
def take_along_dim(
    b: Emitter, call: Call, x: SSAValue, indices: SSAValue, dim: int | None = None
) -> SSAValue:
    """Each element at its own index along an axis, the other axes broadcast."""
    if dim is None:
        x, indices, dim = b.reshape(x, (-1,)), b.reshape(indices, (-1,)), 0
    axis = axis_of(dim, len(shape_of(x)))
    pairs = list(zip(shape_of(x), shape_of(indices), strict=True))
    joined = [max(n, m) if 0 not in (n, m) else 0 for n, m in pairs]
    whole = broadcasted(b, x, [shape_of(x)[i] if i == axis else n for i, n in enumerate(joined)])
    shape = [shape_of(indices)[i] if i == axis else n for i, n in enumerate(joined)]
    return b.take_along_axis(whole, broadcasted(b, indices, shape), axis=axis)


@aten("scatter.src", "scatter.value", "scatter_add")
def scatter(
    b: Emitter, call: Call, x: SSAValue, dim: int, index: SSAValue, src: Operand
) -> SSAValue:
    """x with each element of src written, or added, at its own index along an axis."""
    shape = shape_of(x)
    x, index = _scalars_as_lines(b, x, index)
    value = as_value(b, src, element_type_of(x))
    ids = shape_of(index)
    if not shape_of(value):
        value = broadcasted(b, value, ids)
    elif shape_of(value) != ids:
        value = b.slice(value, [0] * len(ids), ids)
    name = "scatter_add" if "scatter_add" in call.name else "scatter"
    axis = axis_of(dim, len(shape_of(x)))
    return reshaped(b, b.call(name, x, index, value, axis=axis), shape)


@aten("scatter_reduce.two")
def scatter_reduce(
    b: Emitter,
    call: Call,
    x: SSAValue,
    dim: int,
    index: SSAValue,
    src: SSAValue,
    reduce: str,
    include_self: bool = True,
) -> SSAValue:
    """x with elements of src put together at their own indices along an axis, and with what is
    there.
    """
    shape = shape_of(x)
    x, index, src = _scalars_as_lines(b, x, index, src)
    ids, axis = shape_of(index), axis_of(dim, len(shape_of(x)))
    src = src if shape_of(src) == ids else b.slice(src, [0] * len(ids), ids)
    if 0 in ids:
        return reshaped(b, x, shape)
    if not include_self:
        alone = _nothing_yet(b, x, reduce)
        x = b.scatter(x, index, broadcasted(b, alone, ids), axis=axis)
    if reduce in ("sum", "mean"):
        found = b.scatter_add(x, index, src, axis=axis)
        if reduce == "mean":
            first = b.full(shape_of(x), int(include_self), T=element_type_of(x))
            ones = b.full(ids, 1, T=element_type_of(x))
            count = b.scatter_add(first, index, ones, axis=axis)
            found = b.div(found, b.max(count, b.full((), 1, T=element_type_of(x))))
    elif reduce in ("amax", "amin"):
        found = _extremes_at(b, x, index, src, axis, reduce == "amin")
    else:
        raise Unsupported(f"elements put together by {reduce}")
    return reshaped(b, found, shape)


def _nothing_yet(b: Emitter, x: SSAValue, reduce: str) -> SSAValue:
    """What changes nothing where elements are put together."""
    element = element_type_of(x)
    if reduce in ("sum", "mean"):
        return b.full((), 0, T=element)
    if not element.is_float:
        raise Unsupported(f"{reduce} of integers without what is there")
    return b.full((), float("inf") if reduce == "amin" else float("-inf"), T=element)


def _extremes_at(
    b: Emitter, x: SSAValue, index: SSAValue, src: SSAValue, axis: int, least: bool
) -> SSAValue:
    """The largest or the least at each place; -1 - x is in the range of an integer where -x is
    not.
    """
    element = element_type_of(x)
    if element.family not in (Family.FLOAT, Family.SIGNED):
        raise Unsupported(f"the largest of {element.name} at a place")

    def turned(value: SSAValue) -> SSAValue:
        return b.neg(value) if element.is_float else b.sub(-1, value)

    ids = shape_of(index)
    stops = [
        own if i == axis else n for i, (own, n) in enumerate(zip(shape_of(x), ids, strict=True))
    ]
    whole = tuple(stops) == shape_of(x)
    part = x if whole else b.slice(x, [0] * len(stops), stops)
    if least:
        part, src = turned(part), turned(src)
    part = b.scatter_along(part, index, src, axis=axis, combine=LARGEST)
    part = turned(part) if least else part
    return part if whole else b.dynamic_update_slice(x, part, [0] * len(stops))


@aten("index_add")
def index_add(
    b: Emitter,
    call: Call,
    x: SSAValue,
    dim: int,
    index: SSAValue,
    source: SSAValue,
    alpha: float = 1,
) -> SSAValue:
    """x with slices added at indices of an axis."""
    axis = axis_of(dim, len(shape_of(x)))
    source = source if alpha == 1 else b.mul(source, alpha)
    return b.scatter_add(x, b.reshape(index, (-1,)), source, axis=axis)


@aten("index_copy")
def index_copy(
    b: Emitter, call: Call, x: SSAValue, dim: int, index: SSAValue, source: SSAValue
) -> SSAValue:
    """x with slices written at indices of an axis."""
    axis = axis_of(dim, len(shape_of(x)))
    return b.scatter(x, b.reshape(index, (-1,)), source, axis=axis)


# ---- several axes at once


def _wrapped(b: Emitter, index: SSAValue, size: int) -> SSAValue:
    """Indices that count from the end, counted from the front."""
    if element_type_of(index) is ELEMENT_TYPES["bool"]:
        raise Unsupported("a mask as an index, whose result has no size that is known")
    if element_type_of(index).name.startswith("u"):
        return index
    return b.where(b.lt(index, 0), b.add(index, size), index)


class Indexed:
    """What advanced indexing reads or writes: x with its indexed axes together in one, and the
    index in that axis.

    The axes of the indices stand where the indexed axes were, if these are neighbours, else in
    front: as in NumPy.
    """

    def __init__(self, b: Emitter, x: SSAValue, indices: Indices) -> None:
        shape = shape_of(x)
        axes = [i for i, index in enumerate(indices) if index is not None]
        if not axes:
            raise Unsupported("no index")
        given = [
            _wrapped(b, index, shape[i]) for i, index in enumerate(indices) if index is not None
        ]
        self.places = _broadcast_shape([shape_of(item) for item in given])
        together = axes == list(range(axes[0], axes[-1] + 1))
        self.axis = axes[0] if together else 0
        rest = [i for i in range(len(shape)) if i not in axes]
        self.perm = [*rest[: self.axis], *axes, *rest[self.axis :]]
        self.moved = [shape[i] for i in self.perm]
        count = prod(shape[i] for i in axes)
        outer = [shape[i] for i in rest]
        self.flat = (*outer[: self.axis], count, *outer[self.axis :])
        self.x = reshaped(b, transposed(b, x, self.perm), self.flat)
        ids = as_element(b, given[0], ELEMENT_TYPES["i64"]) if len(given) > 1 else given[0]
        for axis, item in zip(axes[1:], given[1:], strict=True):
            ids = b.add(b.mul(ids, shape[axis]), as_element(b, item, ELEMENT_TYPES["i64"]))
        self.ids = broadcasted(b, ids, self.places)

    @property
    def read_shape(self) -> tuple[int, ...]:
        """The shape of what is read."""
        return (*self.flat[: self.axis], *self.places, *self.flat[self.axis + 1 :])

    def put_back(self, b: Emitter, value: SSAValue) -> SSAValue:
        """A value like `x`, with the axes as they were."""
        back = [self.perm.index(i) for i in range(len(self.perm))]
        return transposed(b, reshaped(b, value, self.moved), back)


def _broadcast_shape(shapes: Sequence[Sequence[int]]) -> tuple[int, ...]:
    rank = max(map(len, shapes))
    lines = [[1] * (rank - len(shape)) + list(shape) for shape in shapes]
    return tuple(0 if 0 in sizes else max(sizes) for sizes in zip(*lines, strict=True))


@aten("index.Tensor", "_unsafe_index.Tensor")
def index(b: Emitter, call: Call, x: SSAValue, indices: Indices) -> SSAValue:
    """The elements at indices of one axis or of several."""
    found = Indexed(b, x, indices)
    return b.gather(found.x, found.ids, axis=found.axis)


@aten("index_put", "_unsafe_index_put")
def index_put(
    b: Emitter,
    call: Call,
    x: SSAValue,
    indices: Indices,
    values: SSAValue,
    accumulate: bool = False,
) -> SSAValue:
    """x with values written, or added, at indices of one axis or of several."""
    given = [item for item in indices if item is not None]
    if len(given) == 1 and element_type_of(given[0]) is ELEMENT_TYPES["bool"]:
        return _put_masked(b, x, indices, values, accumulate)
    found = Indexed(b, x, indices)
    src = broadcasted(b, values, found.read_shape)
    name = "scatter_add" if accumulate else "scatter"
    return found.put_back(b, b.call(name, found.x, found.ids, src, axis=found.axis))


def _put_masked(
    b: Emitter, x: SSAValue, indices: Indices, values: SSAValue, accumulate: bool
) -> SSAValue:
    """One value where a mask holds."""
    mask = indices[0]
    if mask is None or prod(shape_of(values)) != 1:
        raise Unsupported("several values written where a mask holds")
    line = (*shape_of(mask), *[1] * (len(shape_of(x)) - len(shape_of(mask))))
    value = b.reshape(values, ())
    return b.where(b.reshape(mask, line), b.add(x, value) if accumulate else value, x)
