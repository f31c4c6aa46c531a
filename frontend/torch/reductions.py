"""Reductions, running sums and orders.

In: a value and axes; none are all. Out: mgn's reductions, in the type that PyTorch gives.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import element_type_of, shape_of
from mgn.dialects.types import ELEMENT_TYPES
from mgn.frontend.torch.elementwise import truth
from mgn.frontend.torch.table import Call, Unsupported, as_element, aten, axes_of, axis_of, reshaped

BOOL, I32 = ELEMENT_TYPES["bool"], ELEMENT_TYPES["i32"]

Axes = int | Sequence[int] | None

NO_ELEMENT_OF_NONE = {"max_reduce", "min_reduce", "argmax", "argmin"}


def reduced(
    b: Emitter, name: str, x: SSAValue, axes: Axes, keepdim: bool, **options: Any
) -> SSAValue:
    """A reduction over axes; a scalar has none, and stays as it is. Unsupported where it asks for
    the largest of no elements, of which PyTorch says what is wrong.
    """
    rank = len(shape_of(x))
    if name in NO_ELEMENT_OF_NONE and not prod(shape_of(x)[axis] for axis in axes_of(axes, rank)):
        raise Unsupported(f"{name} of no elements")
    if not rank:
        return b.reshape(b.call(name, b.reshape(x, (1,)), axis=(0,), **options), ())
    return b.call(name, x, axis=axes_of(axes, rank), keepdims=keepdim, **options)


@aten("sum", "sum.dim_IntList", "mean", "mean.dim", "prod", "prod.dim_int", "nansum")
def total(
    b: Emitter, call: Call, x: SSAValue, dim: Axes = None, keepdim: bool = False, **named: Any
) -> SSAValue:
    """The sum, the mean or the product, summed in the type of the result."""
    name = call.name.split(".")[1]
    value = as_element(b, x, call.element)
    if name == "nansum":
        name, value = "sum", b.where(b.isnan(value), 0.0, value)
    return reduced(b, name, value, dim, keepdim)


@aten("amax", "amin")
def extreme(
    b: Emitter, call: Call, x: SSAValue, dim: Axes = None, keepdim: bool = False
) -> SSAValue:
    """The largest or the smallest element."""
    name = "max_reduce" if "max" in call.name else "min_reduce"
    return _of_truths(b, name, x, dim, keepdim)


def _of_truths(b: Emitter, name: str, x: SSAValue, axes: Axes, keepdim: bool) -> SSAValue:
    if element_type_of(x) is not BOOL:
        return reduced(b, name, x, axes, keepdim)
    return b.ne(reduced(b, name, b.cast(x, I32), axes, keepdim), 0)


@aten("max", "min", "max.dim", "min.dim")
def extreme_with_place(
    b: Emitter, call: Call, x: SSAValue, dim: int | None = None, keepdim: bool = False
) -> Any:
    """The largest or the smallest element; along an axis, with its index."""
    is_max = call.name.startswith("aten.max")
    name = "max_reduce" if is_max else "min_reduce"
    found = _of_truths(b, name, x, dim, keepdim)
    if dim is None:
        return found
    value = b.cast(x, I32) if element_type_of(x) is BOOL else x
    return found, reduced(b, "argmax" if is_max else "argmin", value, dim, keepdim, T="i64")


@aten("argmax", "argmin")
def extreme_place(
    b: Emitter, call: Call, x: SSAValue, dim: int | None = None, keepdim: bool = False
) -> SSAValue:
    """The index of the largest or of the smallest element, the first where several are."""
    name = "argmax" if "argmax" in call.name else "argmin"
    return reshaped(b, reduced(b, name, x, dim, keepdim, T="i64"), call.shape)


@aten("any", "any.dim", "any.dims", "all", "all.dim", "all.dims")
def anything(
    b: Emitter, call: Call, x: SSAValue, dim: Axes = None, keepdim: bool = False
) -> SSAValue:
    """Whether an element, or every element, differs from 0; of none, that none and that all do."""
    if not prod(shape_of(x)[axis] for axis in axes_of(dim, len(shape_of(x)))):
        return b.full(call.shape, ".all" in call.name, T=BOOL)
    name = "max_reduce" if ".any" in call.name else "min_reduce"
    return _of_truths(b, name, truth(b, x), dim, keepdim)


def variance(
    b: Emitter, x: SSAValue, dim: Axes, correction: float | None, keepdim: bool
) -> SSAValue:
    """The variance, divided by the count less the correction."""
    shape = shape_of(x)
    count = prod(shape[axis] for axis in axes_of(dim, len(shape)))
    found = reduced(b, "var", x, dim, keepdim)
    less = 1 if correction is None else correction
    if less == 0:
        return found
    if count <= less:
        if not count:
            return b.full(shape_of(found), float("nan"), T=element_type_of(x))
        return b.where(b.gt(found, 0.0), float("inf"), float("nan"))
    return b.mul(found, count / (count - less))


@aten("var.correction", "std.correction", "var_mean.correction")
def var(
    b: Emitter,
    call: Call,
    x: SSAValue,
    dim: Axes = None,
    correction: float | None = None,
    keepdim: bool = False,
) -> Any:
    """The variance, its root, or it and the mean."""
    found = variance(b, x, dim, correction, keepdim)
    if "var_mean" in call.name:
        return found, reduced(b, "mean", x, dim, keepdim)
    return b.sqrt(found) if "std" in call.name else found


@aten("logsumexp")
def logsumexp(b: Emitter, call: Call, x: SSAValue, dim: Axes, keepdim: bool = False) -> SSAValue:
    """The logarithm of the sum of exponentials."""
    return reduced(b, "logsumexp", as_element(b, x, call.element), dim, keepdim)


@aten("cumsum", "cumprod")
def running(b: Emitter, call: Call, x: SSAValue, dim: int, **named: Any) -> SSAValue:
    """The sums or products up to each element."""
    value = as_element(b, x, call.element)
    if not shape_of(value):
        return value
    name = "cumsum" if "cumsum" in call.name else "cumprod"
    return b.call(name, value, axis=axis_of(dim, len(shape_of(value))))


@aten("topk")
def topk(
    b: Emitter,
    call: Call,
    x: SSAValue,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
) -> tuple[SSAValue, SSAValue]:
    """The largest elements along an axis and their places; or the smallest, which come first in
    order.
    """
    shape = shape_of(x)
    axis = axis_of(dim, len(shape))
    if largest:
        return b.topk(x, k, axis=axis)
    stops = [k if i == axis else n for i, n in enumerate(shape)]
    starts = [0] * len(shape)
    places = b.slice(b.argsort(x, axis=axis), starts, stops)
    return b.take_along_axis(x, places, axis=axis), places


@aten("sort", "sort.stable")
def sort(
    b: Emitter,
    call: Call,
    x: SSAValue,
    dim: int = -1,
    descending: bool = False,
    stable: bool | None = None,
) -> tuple[SSAValue, SSAValue]:
    """In order along an axis, and the places that elements had; equal ones stay in theirs."""
    if not shape_of(x):
        raise Unsupported("the order of a scalar")
    axis = axis_of(dim, len(shape_of(x)))
    options = {"axis": axis, "descending": descending}
    places = b.argsort(x, **options)
    if not (descending and element_type_of(x).is_float):
        return b.sort(x, **options), places
    size = shape_of(x)[axis]  # mgn has NaN last: a turn of each line brings it to the front
    after = b.sum(b.cast(b.isnan(x), "i32"), axis=axis, keepdims=True)
    turned = b.mod(b.add(b.iota(shape_of(x), axis=axis, T="i32"), b.sub(size, after)), size)
    places = b.take_along_axis(places, turned, axis=axis)
    return b.take_along_axis(x, places, axis=axis), places
