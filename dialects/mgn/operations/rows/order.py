"""Order: sorting, and what is first in it. The order is stable, and NaN is last in both directions.

`sort_runs` is the core: values in the order of keys, run by run along an axis. A long axis is
sorted by one digit of the keys after the other (digits.py). So the definition of a long sort is
what kernels compute.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mgn.dialects.mgn.attributes import BOOL, INT
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import composite, element_type_of, shape_of
from mgn.dialects.mgn.operation import (
    AttributeSpec,
    Kind,
    OperandSpec,
    OperationSpec,
    define,
)
from mgn.dialects.mgn.operations.rows.digits import shifts_of
from mgn.dialects.mgn.operations.rows.reductions import canonical_axis
from mgn.dialects.shapes import Shape, ShapeError
from mgn.dialects.types import ElementType, Family, element_of, largest_number, tensor

Array = np.ndarray

RUN = 2048
"""The longest row that is sorted at once; longer ones are sorted in runs of so many elements."""

BEST_RUN = 8 * RUN
"""Of how many elements the best few are found at once; their best are then found among these."""

MOST_KEPT = 4
"""The part of a run that is kept at most for the best of all, which else are a part of a sort."""


def _infer_runs(
    keys: TensorType,
    payload: TensorType,
    axis: int,
    descending: bool,
    run: int,
    ordered: int,
    first: int,
) -> TensorType:
    shape = keys.get_shape()
    if payload.get_shape() != shape:
        raise ShapeError(f"keys {list(shape)} and payload {list(payload.get_shape())} differ")
    if min(run, ordered, first) < 0 or (first and run) or first > shape[axis]:
        raise ShapeError(f"run {run}, ordered {ordered} and first {first} do not fit {list(shape)}")
    size = first or shape[axis]
    return tensor(element_of(payload), (*shape[:axis], size, *shape[axis + 1 :]))


def stable_order(keys: Array, descending: bool) -> Array:
    """The positions of the last axis in the order of keys, NaN last."""
    if keys.dtype.kind in "biu":
        return np.argsort(~keys if descending else keys, axis=-1, kind="stable")
    wide = keys if keys.dtype.kind == "f" else keys.astype(np.float32)
    return np.argsort(-wide if descending else wide, axis=-1, kind="stable")


def _sort_runs(
    keys: Array, payload: Array, axis: int, descending: bool, run: int, ordered: int, first: int
) -> Array:
    rows, values = np.moveaxis(keys, axis, -1), np.moveaxis(payload, axis, -1)
    count = rows.shape[-1]
    step = min(run, count) if run else count
    parts = [
        np.take_along_axis(
            values[..., start : start + step],
            stable_order(rows[..., start : start + step], descending),
            -1,
        )
        for start in range(0, count, max(step, 1))
    ]
    result = np.concatenate(parts, -1) if parts else values
    return np.moveaxis(result[..., : first or count], -1, axis)


SORT_RUNS = define(
    OperationSpec(
        "sort_runs",
        Kind.ORDER,
        "`y = sort_runs(keys, payload, axis = -1)`: the payload in the stable order of its keys "
        "along an axis, NaN last; with `run`, each so many elements by themselves; with `first`, "
        "so many of them alone. `ordered` says how many in a row are in order already.",
        (
            OperandSpec("keys"),
            OperandSpec("payload", group="payload"),
            AttributeSpec("axis", INT, -1),
            AttributeSpec("descending", BOOL, False),
            AttributeSpec("run", INT, 0),
            AttributeSpec("ordered", INT, 0),
            AttributeSpec("first", INT, 0),
        ),
        _infer_runs,
        evaluate=_sort_runs,
        canonical=lambda keys, payload, axis, **_: canonical_axis(keys, axis=axis),
    )
)


def _sorted_by(
    b: Emitter, keys: SSAValue, payloads: Sequence[SSAValue], axis: int, descending: bool
) -> list[SSAValue]:
    """Payloads in the order of keys along an axis; a long axis digit by digit, where the keys are
    moved beside them until the last one.
    """
    how = {"axis": axis, "descending": descending}
    if shape_of(keys)[axis] <= RUN:
        return [b.sort_runs(keys, payload, **how) for payload in payloads]
    moved = list(dict.fromkeys((keys, *payloads)))
    wanted = [moved.index(payload) for payload in payloads]
    *shifts, last = shifts_of(element_of(keys.type))
    for shift in shifts:
        moved = [b.sort_digits(moved[0], value, shift=shift, **how) for value in moved]
    return [b.sort_digits(moved[0], moved[number], shift=last, **how) for number in wanted]


def _positions(b: Emitter, shape: Shape, axis: int) -> Any:
    line = [size if i == axis else 1 for i, size in enumerate(shape)]
    return b.broadcast_to(b.iota(line, axis=axis, T="i32"), shape)


ORDERED = (
    OperandSpec("x"),
    AttributeSpec("axis", INT, -1),
    AttributeSpec("descending", BOOL, False),
)


def _canonical(x: TensorType, axis: int, **_: Any) -> Mapping[str, Any]:
    return canonical_axis(x, axis=axis)


@composite("sort", ORDERED, lambda x, axis, descending: x, canonical=_canonical)
def sort(b: Emitter, x: SSAValue, axis: int, descending: bool) -> SSAValue:
    """`y = sort(x, axis = -1, descending = false)`: x in order along an axis.

    Shape: that of x. The order is stable, and NaN is last in both directions. Error: a scalar.
    """
    return _sorted_by(b, x, [x], axis, descending)[0]


def _infer_argsort(x: TensorType, axis: int, descending: bool) -> TensorType:
    if x.get_shape()[axis] > largest_number(element_of(tensor("i32", ()))):
        raise ShapeError("i32 does not hold the indices of an axis of 2**31 elements")
    return tensor("i32", x.get_shape())


@composite("argsort", ORDERED, _infer_argsort, canonical=_canonical)
def argsort(b: Emitter, x: SSAValue, axis: int, descending: bool) -> SSAValue:
    """`i = argsort(x, axis = -1, descending = false)`: the i32 positions of x in order along an
    axis.

    Shape: that of x. The order is stable, and NaN is last in both directions. Error: a scalar.
    """
    return _sorted_by(b, x, [_positions(b, shape_of(x), axis)], axis, descending)[0]


def _infer_topk(x: TensorType, k: int, axis: int) -> tuple[TensorType, TensorType]:
    shape = x.get_shape()
    if not 0 <= k <= shape[axis]:
        raise ShapeError(f"k must be from 0 to {shape[axis]}, not {k}")
    kept = (*shape[:axis], k, *shape[axis + 1 :])
    return tensor(element_of(x), kept), tensor("i32", kept)


@composite(
    "topk",
    (OperandSpec("x"), AttributeSpec("k", INT), AttributeSpec("axis", INT, -1)),
    _infer_topk,
    canonical=_canonical,
    several_results=True,
)
def topk(b: Emitter, x: SSAValue, k: int, axis: int) -> Sequence[SSAValue]:
    """`values, indices = topk(x, 3, axis = -1)`: the k largest elements along an axis, the
    largest first, and their i32 positions.

    Shape: that of x with k on the axis. Of equal elements the first comes first; NaN is last.
    Errors: a scalar, a k below 0 or above the axis.
    """
    shape = shape_of(x)
    kept = (*shape[:axis], k, *shape[axis + 1 :])
    if 0 in kept:
        return [b.full(kept, 0, T=element_type_of(x)), b.full(kept, 0, T="i32")]
    positions = _positions(b, shape, axis)
    if shape[axis] <= RUN or MOST_KEPT * k <= RUN:
        return _best_of_runs(b, x, positions, k, axis)
    values = _sorted_by(b, x, [x, positions], axis, True)
    return [b.slice(value, [0] * len(shape), kept) for value in values]


def _leading(b: Emitter, keys: SSAValue, payload: SSAValue, axis: int, k: int) -> SSAValue:
    """What is first in a row that is sorted at once."""
    return b.sort_runs(keys, payload, axis=axis, descending=True, first=k)


def _best_of_runs(
    b: Emitter, x: SSAValue, positions: SSAValue, k: int, axis: int
) -> list[SSAValue]:
    """The best k of the best k of each run, until one run holds all that are left."""
    values = [x, positions]
    lowest = _lowest(element_type_of(x))
    while (count := shape_of(values[0])[axis]) > BEST_RUN:
        runs = -(-count // BEST_RUN)
        shape = shape_of(values[0])
        sides = [[0, runs * BEST_RUN - count if i == axis else 0] for i in range(len(shape))]
        if runs * BEST_RUN > count:
            values = [b.pad(values[0], sides, lowest), b.pad(values[1], sides, 0)]
        cut = (*shape[:axis], runs, BEST_RUN, *shape[axis + 1 :])
        values = [b.reshape(value, cut) for value in values]
        values = [_leading(b, values[0], value, axis + 1, k) for value in values]
        left = (*shape[:axis], runs * k, *shape[axis + 1 :])
        values = [b.reshape(value, left) for value in values]
    return [_leading(b, values[0], value, axis, k) for value in values]


def _lowest(element: ElementType) -> float | int:
    """What is last in descending order, behind all that are equal to it and come before."""
    if element.is_float:
        return float("nan")
    return -largest_number(element) - 1 if element.family is Family.SIGNED else 0
